"""PostgreSQL's side of the seam: statements by name on one connection.

A statement over `unnest` does its work for many rows at once and takes one list for each column;
lists travel in binary form (`%b`), which is five times faster than text. Nothing is prepared: that
would be state of a session, and a pooler gives each transaction another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import count
from typing import Any

import psycopg
from psycopg import generators
from psycopg.pq import ExecStatus, Format
from psycopg.rows import tuple_row

from redrive.jobs.clock import Clock
from redrive.stores._codec import encode
from redrive.stores.postgres.arrays import Array, know_arrays, packed, packed_table
from redrive.stores.sql.tx import Args, Row, Tx, load_queries

Connection = psycopg.Connection[Any]

VERSION = 3
"""The version of the schema that we write."""
_CALLED = ("store_jobs", "settle_jobs")
_FORMATS = (Format.TEXT, Format.BINARY, Format.BINARY, Format.BINARY, Format.TEXT)
_LIST = re.compile(rb"%b::(\w+)\[\]")


@dataclass(frozen=True, slots=True)
class Queries:
    """The statements for the tables of one schema."""

    texts: dict[str, bytes]
    lists: dict[str, list[bytes]]
    """The types of the lists that each takes, in order."""
    called: dict[str, bytes]
    """Those for `call`, as the server wants them."""
    schema: str
    """The schema's name, quoted."""
    version: int = VERSION

    def included(self, text: str) -> bytes:
        """Put the schema's name, and the kinds of jobs that have ended, into a composed query."""
        kinds = self.texts["ended_kinds"].decode()
        return text.replace("{ended_kinds}", kinds).replace("{schema}", self.schema).encode()


@cache
def queries_for(schema: str) -> Queries:
    """Read the statements; the schema's name is the only thing that is put into them."""
    name = f'"{schema}"'
    loaded = load_queries(
        "postgres",
        schema=name,
        channel=f"redrive_{schema}",
        skip_locked="FOR UPDATE SKIP LOCKED",
        states=f"{name}.states",
    )
    texts = {key: text.encode() for key, text in loaded.items()}
    lists = {key: _LIST.findall(text) for key, text in texts.items()}
    return Queries(texts, lists, {key: _numbered(texts[key]) for key in _CALLED}, name)


def script_named(name: str, schema: str) -> str:
    """Read a script of the schema, for a schema of this name."""
    file = files("redrive.stores").joinpath("sql", "postgres", "schema", f"{name}.sql")
    return file.read_text("utf-8").replace("{schema}", schema)


def _numbered(text: bytes) -> bytes:
    """Return a statement with its parameters numbered."""
    numbers = count(1)
    return re.sub(rb"%[sb]", lambda _: b"$%d" % next(numbers), text)


Line = psycopg.Cursor[Row]
"""A connection, by a cursor on it. Making one takes as long as half a claim, so claims and ends use
the same one again and again; what may be large has its own, since a cursor keeps what it was given."""


def line_on(connection: Connection) -> Line:
    """Return our cursor on a connection, whose own cursors may be of another kind."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    know_arrays(cursor)
    return cursor


class PostgresTx(Tx):
    """One transaction; its time stands still."""

    __slots__ = ("_clock", "_cursor", "_now", "_queries")

    def __init__(
        self,
        line: Line,
        queries: Queries,
        *,
        now: float | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._cursor = line
        self._queries = queries
        self._now = now
        self._clock = clock

    def all(self, name: str, args: Args = ()) -> list[Row]:
        """Return the rows of a query."""
        return self._execute(self._queries.texts[name], args).fetchall()

    def one(self, name: str, args: Args = ()) -> Row | None:
        """Return the first row of a query, if there is one."""
        return self._execute(self._queries.texts[name], args).fetchone()

    @property
    def version(self) -> int:
        """The schema version that our statements are for."""
        return self._queries.version

    def rows(self, text: str, args: Args) -> list[Row]:
        """Return the rows of a query that was composed, with what it includes put in."""
        return self._execute(self._queries.included(text), args).fetchall()

    def run(self, name: str, args: Args = ()) -> None:
        """Run a statement that changes something."""
        self._execute(self._queries.texts[name], args)

    def call(
        self, name: str, tables: Iterable[Sequence[Sequence[Any]]], extras: object = None
    ) -> None:
        """Call a function of the schema that takes our version, tables and JSON.

        Without the driver's ways, which would be a tenth of a submit.
        """
        connection, spelling = self._cursor.connection, self._spelling
        kinds = self._queries.lists[name]
        arrays = [
            packed_table(kind, table, spelling) for kind, table in zip(kinds, tables, strict=True)
        ]
        json = None if extras is None else encode(extras).encode(spelling)
        connection.pgconn.send_query_params(
            self._queries.called[name],
            [b"%d" % self.version, *arrays, json],
            param_formats=_FORMATS,
        )
        for result in connection.wait(generators.execute(connection.pgconn)):
            if (
                result.status != ExecStatus.TUPLES_OK
            ):  # the last one where the server ends the session
                raise psycopg.errors.error_from_result(result, self._spelling)

    def many(self, name: str, rows: Iterable[Args], *more: object) -> int:
        """Run a statement for every row, at once; returns how many rows it changed."""
        cursor = self.batch(name, rows, *more)
        return cursor.rowcount if cursor else 0

    def batch(self, name: str, rows: Iterable[Args], *more: object) -> psycopg.Cursor[Row] | None:
        """Run a statement over `unnest`; gives its cursor, or none where there are no rows."""
        columns = list(zip(*rows, strict=True))
        if not columns:
            return None
        return self._execute(self._queries.texts[name], [*self.packed(name, columns), *more])

    def packed(self, name: str, columns: Iterable[Sequence[Any]]) -> list[Array]:
        """Pack the lists that a statement takes."""
        kinds, spelling = self._queries.lists[name], self._spelling
        return [packed(kind, column, spelling) for kind, column in zip(kinds, columns)]  # noqa: B905 - the rest may be of the caller's

    @property
    def _spelling(self) -> str:
        """How text is spelt on this connection."""
        encoding = self._cursor.connection.info.encoding
        return "utf-8" if encoding == "ascii" else encoding  # a database that does not care

    def script(self, text: str) -> None:
        """Run the statements of a script."""
        self._cursor.execute(text.encode(), prepare=False)

    def alone(self, what: str) -> None:
        """Wait for the others' lock; read what they wrote by the next statement."""
        self.run("alone", (what,))

    def try_alone(self, what: str) -> bool:
        """Take the lock unless another transaction has it."""
        return self.one("try_alone", (what,)) == (True,)

    def array(self, values: Iterable[object]) -> list[object]:
        """Make one parameter of many values."""
        return list(values)

    def pattern(self, text: str) -> str:
        """Make a LIKE pattern in which only `*` is special."""
        for special in ("\\", "%", "_"):
            text = text.replace(special, "\\" + special)
        return text.replace("*", "%")

    def now(self) -> float:
        """Return the time by the database's clock, or the one that stands in for it in tests."""
        if self._clock is not None:
            self._now = self._clock.now()
            self._clock = None
        if self._now is None:
            (self._now,) = self.one("time") or (0.0,)
        return self._now

    def _execute(self, text: bytes, args: Args) -> psycopg.Cursor[Row]:
        return self._cursor.execute(text, args, prepare=False, binary=True)
