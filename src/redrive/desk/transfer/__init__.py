"""Import and export of jobs, and other programs' formats. Not here: the command line's words for it (`cli`)."""
