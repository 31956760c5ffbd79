"""What a command shows, as plain data, and the renderers: terminal, plain text, JSON.

Here: `View`, which holds `data` for machines and `parts` for people, as named tuples because they are
created fast. Renderers escape all they print. Not here: anything about jobs (`cli`, `desk`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, cast

Tone = Literal["", "good", "bad", "warn"]
"""Shown as a sign and a colour; the words must do without either."""

Kind = Literal["text", "id", "number", "time", "word"]


class When(NamedTuple):
    """A moment, in seconds since 1970; `now` makes it an age on a narrow terminal."""

    at: float | None
    now: float | None = None


class Span(NamedTuple):
    """A duration in seconds."""

    seconds: float | None


class Mark(NamedTuple):
    """A number with a tone: a sign and a colour on a terminal, the bare number elsewhere."""

    number: int
    tone: Tone


class Trend(NamedTuple):
    """How many, one span of time after the other: a small curve on a terminal, numbers elsewhere."""

    numbers: Sequence[int]


Cell = str | int | None | When | Span | Mark | Trend


class Column(NamedTuple):
    """A column's heading and what is in it; `extra` ones are for plain text only."""

    name: str
    kind: Kind = "text"
    extra: bool = False


class Table(NamedTuple):
    """Rows under headings. In plain text a `tag` stands before each row, where tables are mixed."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    tag: str = ""


class Facts(NamedTuple):
    """Names and values."""

    pairs: Sequence[tuple[str, Cell]]
    title: str = ""


class Block(NamedTuple):
    """Text of several lines, such as a traceback; in plain text the tag stands before each line."""

    title: str
    text: str
    tag: str


class Line(NamedTuple):
    """One sentence."""

    text: str
    tone: Tone = ""


Part = Table | Facts | Block | Line


class View(NamedTuple):
    """Everything a command shows on standard output."""

    data: object
    parts: Sequence[Part]
    page: Mapping[str, object] | None = None


def columns(*names: str) -> list[Column]:
    """Make columns from short words: `id:id`, `attempts:number`, `lane:text:extra`."""
    return [_column(*name.split(":")) for name in names]


def _column(name: str, kind: str = "text", extra: str = "") -> Column:
    return Column(name, cast("Kind", kind), extra=bool(extra))


def numbered(rows: Iterable[Sequence[Cell]]) -> list[list[Cell]]:
    """Put 1, 2, 3 … before the rows."""
    return [[number, *row] for number, row in enumerate(rows, start=1)]
