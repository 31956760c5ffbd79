"""The seam between the verbs and a database: named statements, and one open transaction.

The statements live in `sql/shared/*.sql` and, where the dialects differ, in `sql/<dialect>/*.sql`, each
under a line with its name and what it is for. A statement may include another by `{name}`; nothing
else is ever put into SQL text, values are bound.

Shared statements are written for SQLite, with types where PostgreSQL needs them: `VALUES (?::int8, …)`
in a statement for many rows (`Tx.many`), and `= ANY(?::int8[])` for a list (`Tx.array`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from redrive.jobs.job import Job
from redrive.stores.contract import Store

R = TypeVar("R")
Row = tuple[Any, ...]
Args = Sequence[object]
LAST = "\U0010ffff"  # sorts after everything a name can continue with

_HERE = Path(__file__).parent  # not by importlib.resources, which takes as long as all of us
_NAME = re.compile(r"^-- name: (\w+).*\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_INCLUDE = re.compile(r"\{(\w+)\}")
_LIST = re.compile(r"= ANY\(\?::\w+\[\]\)")
_TYPE = re.compile(r"\?::(\w+)")
_ROWS = re.compile(r"VALUES \((\?::\w+(?:,\s+\?::\w+)*)\)")


def load_queries(dialect: str, **given: str) -> dict[str, str]:
    """Read every statement of a dialect, with what it includes put in; `given` can be included too."""
    found: dict[str, str] = {**given}
    for folder in ("shared", dialect):
        for file in _HERE.joinpath(folder).glob("*.sql"):
            parts = _NAME.split(file.read_text("utf-8"))
            bodies = (_COMMENT.sub("", body).strip() for body in parts[2::2])
            for name, body in zip(parts[1::2], bodies, strict=True):
                if name in found:
                    raise ValueError(f"{file.name}: there is another statement named {name!r}")
                found[name] = _DIALECTS[dialect](body) if folder == "shared" else body
    while open_ones := [name for name, text in found.items() if _INCLUDE.search(text)]:
        for name in open_ones:
            found[name] = _INCLUDE.sub(lambda match: found[match[1]], found[name])
    return found


def _for_sqlite(text: str) -> str:
    return _TYPE.sub("?", _LIST.sub("IN (SELECT value FROM json_each(?))", text))


def _for_postgres(text: str) -> str:
    text = _ROWS.sub(_unnested, text)
    return re.sub(r"\?(::\w+\[\])", r"%b\1", text).replace("?", "%s")


def _unnested(rows: re.Match[str]) -> str:
    """Return a query of the same rows from one list a column; VALUES names its columns so too."""
    types = _TYPE.findall(rows[1])
    lists = ", ".join(f"?::{one}[]" for one in types)
    names = ", ".join(f"column{place}" for place in range(1, len(types) + 1))
    return f"SELECT * FROM unnest({lists}) AS rows ({names})"  # noqa: S608 - of our own files only


_DIALECTS = {"sqlite": _for_sqlite, "postgres": _for_postgres}


class Tx(ABC):
    """One open transaction. Statements are asked for by name."""

    @abstractmethod
    def all(self, name: str, args: Args = ()) -> list[Row]:
        """Return the rows of a query."""

    @abstractmethod
    def one(self, name: str, args: Args = ()) -> Row | None:
        """Return the first row of a query, if there is one."""

    @abstractmethod
    def run(self, name: str, args: Args = ()) -> None:
        """Run a statement that changes something."""

    @abstractmethod
    def many(self, name: str, rows: Iterable[Args], *more: object) -> int:
        """Run a statement for every row, each with `more`; returns how many rows it changed."""

    @abstractmethod
    def alone(self, what: str) -> None:
        """Let no other transaction that asks for the same go on until this one has ended."""

    @abstractmethod
    def try_alone(self, what: str) -> bool:
        """Do the same, but return False if another transaction is at it."""

    @abstractmethod
    def array(self, values: Iterable[object]) -> object:
        """Make one parameter of many values."""

    @abstractmethod
    def now(self) -> float:
        """Return the wall time by the store's clock."""


class SqlBase(Store):
    """What a dialect's store gives to the verbs: a way to run work in a transaction."""

    @abstractmethod
    def _write(
        self,
        work: Callable[[Tx], R],
        *,
        durable: bool,
        landed: Callable[[Tx, R], bool] | None = None,
    ) -> R:
        """Run work in a transaction; it may run twice, the first time for nothing.

        Where a commit can go unanswered, `landed` finds out whether the answer it would have given
        came true. Without it the work is simply repeated, which must then do no harm.
        """

    @abstractmethod
    def _job_of(self, row: Row) -> Job:
        """Return the job of a row, which carries its number; StoreDamaged if it cannot be read."""

    @abstractmethod
    def _read(self, work: Callable[[Tx], R]) -> R:
        """Run work that changes nothing, in one snapshot."""
