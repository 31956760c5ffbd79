"""Jobs in a file of JSON lines that people can read: the small store."""

from redrive.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
