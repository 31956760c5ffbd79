"""Jobs in a SQLite file: opening, locking, writing. Not here: SQL and what the verbs do (`stores.sql`)."""

from redrive.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
