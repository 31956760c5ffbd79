"""Integrations that the rest does not need: an event stream and Google Cloud Tasks.

Each module stands on the public API. Not here: stores (`stores`) and alert channels (`alerts`).
"""
