"""A view is declared once: `fields` names the values of a document, and every format derives from it.

Here: `View`, the document that `--json` prints and the parts that show it to people. Parts name the
document's values by `Field`s, so plain text and the terminal print nothing that JSON does not have.
The renderers (`document`, `plain`, `terminal`) escape all they print. Not here: jobs (`desk`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, cast, get_args

Tone = Literal["", "good", "bad", "warn"]
"""Shown as a sign and a colour; the text must be clear without either."""

Kind = Literal[
    "text",  # secondary text: the first to be shortened with an ellipsis
    "main",  # the text a table is about, such as the cause: shortened last
    "prose",  # sentences: never shortened, wrapped on lines of their own where they do not fit
    "id",
    "word",  # one of few words, such as a state
    "number",
    "time",  # ISO 8601 of something that happened; an age on a narrow terminal
    "due",  # the same of something that may lie ahead
    "span",  # seconds, shown as 1h30m
    "exact",  # seconds, shown as 5400s, to be compared with others
    "trend",  # numbers in a row: a curve on a terminal
    "list",
    "count",  # of a list, its length
    "warn",  # a number that is a warning above 0
    "bad",  # a number that is a failure above 0
]

Document = Mapping[str, object]


class Field(NamedTuple):
    """One value of a document: its key, its title, its kind, and how to compute it if not by key."""

    key: str
    title: str
    kind: Kind = "text"
    plain_only: bool = False
    minor: bool = False
    """Left out where the main text would be cut short, or a row would take too many lines."""
    show: Callable[[Document], object] | None = None

    def value(self, document: Document) -> object:
        """Return the value in a document; `a.b` is the key b of the document under a."""
        if self.show is not None:
            return self.show(document)
        return _at(document, self.key.split("."))


def _at(value: object, keys: Sequence[str]) -> object:
    if not keys:
        return value
    inner = cast("Document", value).get(keys[0]) if isinstance(value, Mapping) else None
    return _at(inner, keys[1:])


def fields(text: str, **show: Callable[[Document], object]) -> list[Field]:
    """Declare fields: `key=title:kind+`, where only the key is needed.

    An underscore in a title stands for a space. A field that ends with `+` is for plain text only, one
    that ends with `?` is minor. `show` has functions that compute values, by key.
    """
    return [_field(word, show) for word in text.split()]


def _field(word: str, show: Mapping[str, Callable[[Document], object]]) -> Field:
    named, _, kind = word.rstrip("+?").partition(":")
    key, _, title = named.partition("=")
    if kind and kind not in get_args(Kind):
        raise ValueError(f"field {word!r} is of no known kind")
    title = (title or key).replace("_", " ")
    ends = word.endswith("+"), word.endswith("?")
    return Field(key, title, cast("Kind", kind or "text"), *ends, show.get(key))


def fact(title: str, value: object, kind: Kind = "text") -> Field:
    """Make a field with a value of its own, for facts that are counted as they are shown."""

    def show(_: Document) -> object:
        return value

    return Field("", title, kind, show=show)


class Table(NamedTuple):
    """One row for each document; nothing where there is none. A `tag` begins each row of plain text."""

    fields: Sequence[Field]
    rows: Sequence[Document]
    title: str = ""
    tag: str = ""


class Facts(NamedTuple):
    """Titles and values of one document; with `sparse` without those that are empty."""

    fields: Sequence[Field]
    document: Document = MappingProxyType({})
    sparse: bool = False

    def pairs(self) -> list[tuple[Field, object]]:
        """Return each field that is shown, with its value."""
        values = [(field, field.value(self.document)) for field in self.fields]
        return [pair for pair in values if pair[1] or not self.sparse]


class Block(NamedTuple):
    """Text of several lines, such as a traceback; in plain text the tag begins each line."""

    title: str
    text: str
    tag: str


class Line(NamedTuple):
    """One sentence."""

    text: str
    tone: Tone = ""


class Panel(NamedTuple):
    """One sentence in a frame with a title; in plain text the sentence alone."""

    text: str
    tone: Tone
    title: str


Part = Table | Facts | Block | Line | Panel


class View(NamedTuple):
    """Everything a command prints on standard output; `now` lets times be shown as ages."""

    data: object
    parts: Sequence[Part]
    page: Document | None = None
    now: float | None = None


def rows_of(*pairs: tuple[str, Iterable[object]]) -> list[Document]:
    """Make rows from columns: `rows_of(("jobs", counts), ("why", reasons))`."""
    names = [name for name, _ in pairs]
    columns = (values for _, values in pairs)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: 1 job, 2 jobs."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def joined(value: object, separator: str = ", ") -> str:
    """Return the elements of a list as one text."""
    return separator.join(map(str, cast("Iterable[object]", value)))
