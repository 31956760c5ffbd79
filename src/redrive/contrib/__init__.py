"""Integrations that the rest does not need: an event stream, Google Cloud Tasks and Firestore.

Each module stands on the public API. Not here: stores (`stores`) and alert channels (`alerts`).
"""
