"""Integrations that the rest does not need: events, Cloud Tasks, Firestore, Django, pytest.

Each module stands on the public API. Not here: stores (`stores`) and alert channels (`alerts`).
"""
