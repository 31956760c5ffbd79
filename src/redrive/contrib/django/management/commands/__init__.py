"""The command `manage.py redrive` is here. Not here: what it passes on to (`cli`)."""
