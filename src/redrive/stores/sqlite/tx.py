"""SQLite's side of the seam: statements by name on one connection."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from redrive.jobs.clock import Clock
from redrive.stores.sql.tx import Args, Row, Tx, load_queries
from redrive.stores.sqlite.rows import READ

QUERIES = load_queries(
    "sqlite",
    schema="main",
    read=READ,
    skip_locked="",
    states="main.jobs",
    rows_of_attempts=", ".join(["(?, ?, ?)"] * 25),
)


class SqliteTx(Tx):
    """One transaction; its time stands still."""

    __slots__ = ("_clock", "_connection", "_now")

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._now: float | None = None

    def all(self, name: str, args: Args = ()) -> list[Row]:
        """Return the rows of a query."""
        return self._connection.execute(QUERIES[name], args).fetchall()

    def one(self, name: str, args: Args = ()) -> Row | None:
        """Return the first row of a query, if there is one."""
        row: Row | None = self._connection.execute(QUERIES[name], args).fetchone()
        return row

    def run(self, name: str, args: Args = ()) -> None:
        """Run a statement that changes something."""
        self._connection.execute(QUERIES[name], args)

    def many(self, name: str, rows: Iterable[Args], *more: object) -> int:
        """Run a statement once for every row; returns how many rows it changed."""
        each = ((*row, *more) for row in rows) if more else rows
        return self._connection.executemany(QUERIES[name], each).rowcount

    def execute(self, text: str, args: Args = ()) -> list[Row]:
        """Run a statement that was composed of constants; returns its rows."""
        return self._connection.execute(text, args).fetchall()

    def insert_first(self, text: str, row: Args) -> int | None:
        """Insert one row; returns the number it got, None if there is one like it already."""
        cursor = self._connection.execute(text, row)
        return cursor.lastrowid if cursor.rowcount else None

    def execute_all(self, text: str, rows: Iterable[Args]) -> int:
        """Run a statement that was composed of constants for every row; returns how many it changed."""
        return self._connection.executemany(text, rows).rowcount

    def alone(self, what: str) -> None:
        """Do nothing: there is one writer at a time."""

    def try_alone(self, what: str) -> bool:  # noqa: ARG002
        """Return True: there is one writer at a time."""
        return True

    def array(self, values: Iterable[object]) -> str:
        """Make one parameter of many values, for json_each."""
        return json.dumps(list(values))

    def pattern(self, text: str) -> str:
        """Make a GLOB pattern in which only `*` is special."""
        return text.replace("[", "[[]").replace("?", "[?]")

    def now(self) -> float:
        """Return the wall time."""
        if self._now is None:
            self._now = self._clock.now()
        return self._now
