"""Integrations that the rest does not need: an event stream, Cloud Tasks, Django, the pytest plugin.

Each module stands on the public API. Not here: stores (`stores`) and alert channels (`alerts`).
"""
