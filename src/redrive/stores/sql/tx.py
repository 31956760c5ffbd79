"""The seam between the SQL engine and a database: named queries, and one open transaction.

The statements live in `sql/<dialect>/*.sql`, each under a name and a line that says what it is for.
A statement may include another by `{name}`; nothing else is ever put into SQL text, values are bound.
A dialect brings its statements, its `Tx`, and what a store needs to run work in one.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from redrive.stores.contract import Store

R = TypeVar("R")
Row = tuple[Any, ...]
Args = Sequence[object]
LAST = "\U0010ffff"
"""Sorts after everything a name can continue with."""

_HERE = Path(__file__).parent  # not by importlib.resources, which takes as long as all of us
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)
_INCLUDE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from a schema version to the next."""

    version: int
    name: str
    script: str


def load_queries(dialect: str, **given: str) -> dict[str, str]:
    """Read every statement of a dialect, with what it includes put in; `given` can be included too."""
    found: dict[str, str] = {**given}
    for file in _HERE.joinpath(dialect).iterdir():
        if file.suffix == ".sql":
            parts = _NAME.split(file.read_text("utf-8"))
            bodies = (_COMMENT.sub("", body).strip() for body in parts[2::2])
            for name, body in zip(parts[1::2], bodies, strict=True):
                if name in found:
                    msg = f"{file.name}: there is another statement named {name!r}"
                    raise ValueError(msg)
                found[name] = body
    while open_ones := [name for name, text in found.items() if _INCLUDE.search(text)]:
        for name in open_ones:
            found[name] = _INCLUDE.sub(lambda match: found[match[1]], found[name])
    return found


class Tx(ABC):
    """One open transaction. Statements are asked for by name, or composed of named parts."""

    @abstractmethod
    def all(self, name: str, args: Args = ()) -> list[Row]:
        """Give the rows of a query."""

    @abstractmethod
    def one(self, name: str, args: Args = ()) -> Row | None:
        """Give the first row of a query, if there is one."""

    @abstractmethod
    def run(self, name: str, args: Args = ()) -> None:
        """Run a statement that changes something."""

    @abstractmethod
    def many(self, name: str, rows: Iterable[Args]) -> None:
        """Run a statement once for every row."""

    @abstractmethod
    def insert(self, name: str, args: Args) -> int:
        """Insert one row; gives the number it got."""

    @abstractmethod
    def select(self, head: str, where: Sequence[str], tail: str, args: Args) -> list[Row]:
        """Run the query made of these named parts; every condition must hold."""

    @abstractmethod
    def alone(self, what: str) -> None:
        """Let no other transaction that asks for the same go on until this one has ended."""

    def in_order(self, names: Iterable[str]) -> list[str]:
        """Say in which order rows are made; as they came where there is one writer at a time."""
        return list(names)

    @abstractmethod
    def array(self, values: Iterable[object]) -> object:
        """Make one parameter of many values."""

    @abstractmethod
    def pattern(self, text: str) -> str:
        """Make the dialect's pattern of a text in which `*` stands for anything."""

    @abstractmethod
    def now(self) -> float:
        """Give the wall time by the store's clock."""

    @abstractmethod
    def lease_clock(self) -> tuple[str | None, float]:
        """Give the clock that leases are measured with: which boot's, and its seconds."""


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
    def _read(self, work: Callable[[Tx], R]) -> R:
        """Run work that changes nothing, in one snapshot."""
