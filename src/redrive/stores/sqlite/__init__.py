"""Jobs in a SQLite file: the default store."""

from redrive.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
