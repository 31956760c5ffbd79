"""Lines that belong together, brought together on disk: a large file needs no more memory than a small one.

A temporary database that no other process can open, gone when it is closed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Self

from redrive.desk.transfer.formats.pieces import Piece
from redrive.desk.transfer.formats.record import Link

_TABLES = """
CREATE TABLE lines (format TEXT, name TEXT, number INT, start INT, raw BLOB);
CREATE TABLE known (name TEXT, job TEXT, ends TEXT, PRIMARY KEY (name, job)) WITHOUT ROWID;
CREATE TABLE links (format TEXT, name TEXT, root TEXT, PRIMARY KEY (format, name)) WITHOUT ROWID;
CREATE INDEX linked ON links (format, root);
CREATE TABLE places (format TEXT, name TEXT, alike TEXT, after INT, number INT, at TEXT, ready TEXT);
CREATE TABLE open
    (format TEXT, alike TEXT, number INT, ready TEXT, name TEXT, job TEXT, is_over INT);
CREATE INDEX opened ON open (format, alike, number, is_over, ready);
PRAGMA journal_mode = OFF;
"""
_JOINED = """
UPDATE lines SET name =
    (SELECT root FROM links WHERE links.format = lines.format AND links.name = lines.name)
WHERE (format, name) IN (SELECT format, name FROM links)
"""
_TOGETHER = """
SELECT lines.format, lines.name, number, start, raw FROM lines
JOIN (SELECT format, name, min(rowid) AS first FROM lines GROUP BY 1, 2) AS g
    ON g.format = lines.format AND g.name = lines.name
ORDER BY first, lines.rowid
"""
_BEFORE = """
SELECT rowid, name FROM open
WHERE format = ? AND alike = ? AND number = ? AND ready <= ? AND (? IS NULL OR job = ?)
ORDER BY is_over, ready DESC LIMIT 1
"""
"""A retry before one that is stored is of the same job; else one that is not over comes first."""


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

    def link(self, format: str, name: str, into: str) -> None:  # noqa: A002
        """Put the pieces of one name with those of another."""
        root = self._root(format, into)
        if root != name:
            change = "UPDATE links SET root = ? WHERE format = ? AND root = ?"
            self._db.execute(change, (root, format, name))
            self._db.execute("INSERT OR REPLACE INTO links VALUES (?, ?, ?)", (format, name, root))

    def _root(self, format: str, name: str) -> str:  # noqa: A002
        ask = "SELECT root FROM links WHERE format = ? AND name = ?"
        row = self._db.execute(ask, (format, name)).fetchone()
        return row[0] if row else name

    def follow(self, format: str, name: str, place: Link) -> None:  # noqa: A002
        """Remember the place of a retry, to put it with the one before it when all are here."""
        row = (format, name, *place)
        self._db.execute("INSERT INTO places VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def follows(self, format: str) -> bool:  # noqa: A002
        """Return True if there are retries that have to be put behind others."""
        ask = "SELECT 1 FROM places WHERE format = ? LIMIT 1"
        return self._db.execute(ask, (format,)).fetchone() is not None

    def _chain(self) -> None:
        """Put each retry behind the one before it, by their numbers, unless a line names it."""
        for row in self._db.execute("SELECT * FROM places ORDER BY rowid").fetchall():
            format_, name, place = row[0], row[1], Link(*row[2:])
            if self._root(format_, name) == name:
                self._put_behind(format_, name, place)

    def _put_behind(self, format: str, name: str, place: Link) -> None:  # noqa: A002
        ask = "SELECT job, ends = '' FROM known WHERE name = ?"
        job, is_over = self._db.execute(ask, (name,)).fetchone() or (None, 0)
        asked = (format, place.alike, place.after, place.at, job, job)
        before = self._db.execute(_BEFORE, asked).fetchone() if place.after else None
        if before is not None:
            self._db.execute("DELETE FROM open WHERE rowid = ?", before[:1])
            self.link(format, name, before[1])
        if place.number:
            row = (format, place.alike, place.number, place.ready, name, job, is_over)
            self._db.execute("INSERT INTO open VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def groups(self) -> Iterator[tuple[str, str, list[Piece]]]:
        """Yield the pieces of one name together, in the order in which names came first."""
        self._chain()
        self._db.execute("CREATE INDEX together ON lines (format, name)")
        self._db.execute(_JOINED)
        for (format_, name), rows in groupby(self._db.execute(_TOGETHER), itemgetter(0, 1)):
            yield format_, name, [Piece(*row[2:]) for row in rows]

    def know(self, names: Iterable[str], job: str, *, waits: bool) -> None:
        """Remember the names of a stored job, the latest first.

        If it waits, a line that tells the end of the latest one tells the end of the job. With an
        earlier one it may have been put together by its number alone.
        """
        rows = [(name, job, job if waits and not place else "") for place, name in enumerate(names)]
        self._db.executemany("INSERT OR IGNORE INTO known VALUES (?, ?, ?)", rows)

    def known(self, names: Iterable[str]) -> set[str]:
        """Return the ids of the stored jobs that end with one of these names; "" for any other."""
        ask = "SELECT ends FROM known WHERE name = ?"
        return {row[0] for name in names for row in self._db.execute(ask, (name,))}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
