"""Where Django looks for commands. Not here: the commands of Redrive itself (`cli`)."""
