"""The command `manage.py redrive`. Not here: what it passes on to (`cli`)."""
