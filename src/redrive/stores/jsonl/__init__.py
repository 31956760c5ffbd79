"""Jobs in a file of JSON lines: journal, recovery, compaction. Not here: what the verbs do (`stores.index`)."""

from redrive.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
