"""Lines that belong together, brought together on disk: a large file needs no more memory than a small one.

A temporary database that no other process can open, gone when it is closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Self

from redrive.exchange.pieces import Piece

_TABLES = """
CREATE TABLE lines (format TEXT, name TEXT, number INT, start INT, raw BLOB);
CREATE TABLE known (name TEXT PRIMARY KEY) WITHOUT ROWID;
PRAGMA journal_mode = OFF;
"""
_TOGETHER = """
SELECT lines.format, lines.name, number, start, raw FROM lines
JOIN (SELECT format, name, min(rowid) AS first FROM lines GROUP BY 1, 2) AS g
    ON g.format = lines.format AND g.name = lines.name
ORDER BY first, lines.rowid
"""


class Spool:
    """Pieces by format and name, and names that are known already."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript(_TABLES)
        self._db.execute("BEGIN")
        self.is_empty = True

    def put(self, format: str, name: str, piece: Piece) -> None:  # noqa: A002
        """Keep a piece."""
        self.is_empty = False
        row = (format, name, piece.number, piece.offset, piece.raw)
        self._db.execute("INSERT INTO lines VALUES (?, ?, ?, ?, ?)", row)

    def groups(self) -> Iterator[tuple[str, str, list[Piece]]]:
        """Give the pieces of one name together, in the order in which names came first."""
        self._db.execute("CREATE INDEX together ON lines (format, name)")
        for (format_, name), rows in groupby(self._db.execute(_TOGETHER), itemgetter(0, 1)):
            yield format_, name, [Piece(*row[2:]) for row in rows]

    def know(self, names: Iterable[str]) -> None:
        """Remember names of what is stored."""
        rows = ((name,) for name in names)
        self._db.executemany("INSERT OR IGNORE INTO known VALUES (?)", rows)

    def knows(self, names: Iterable[str]) -> bool:
        """Whether one of these names is remembered."""
        ask = "SELECT 1 FROM known WHERE name = ?"
        return any(self._db.execute(ask, (name,)).fetchone() for name in names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
