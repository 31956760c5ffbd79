"""From version 1 of the schema to version 2, in the transaction of the caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable


def upgrade(connection: sqlite3.Connection, schema: Iterable[str], now: float) -> None:
    """Rebuild the tables."""
    raise NotImplementedError
