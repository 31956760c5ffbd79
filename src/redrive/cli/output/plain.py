"""Plain text: our own, the same on every machine, one row a line, tabs between values.

Values are whole, times are UTC in ISO 8601, durations are seconds with their unit (`90s`), and
whatever could drive a terminal or forge a line is shown as an escape. Nothing here knows of colours,
widths or rich.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redrive.cli.output import Block, Cell, Facts, Line, Mark, Part, Span, Table, Trend, View, When
from redrive.jobs.clock import iso
from redrive.payloads.escaping import inert

NOTHING = "-"
"""Stands for a value that is not there."""


def render(view: View) -> str:
    """Return the whole text."""
    lines: list[str] = []
    tag = ""
    for part in view.parts:
        found = list(_lines(part))
        # Tables in a row with the same tag are one: the columns are named once.
        again = isinstance(part, Table) and tag == part.tag != ""
        lines += found[1:] if again else found
        tag = part.tag if isinstance(part, Table) else ""
    return "".join(f"{line}\n" for line in lines)


def span(value: float | None) -> str | None:
    """Return a duration in seconds, with the unit and without needless digits."""
    return None if value is None else f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def cell(value: Cell) -> str:
    """Return one value on one line."""
    match value:
        case When(at):
            said = iso(at)
        case Span(seconds):
            said = span(seconds)
        case Mark(marked):
            said = str(marked)
        case Trend(numbers):
            said = ",".join(map(str, numbers))
        case str():
            said = inert(value)
        case None:
            said = None
        case _:
            said = str(value)
    return said or NOTHING


def _lines(part: Part) -> Iterator[str]:
    match part:
        case Line(text):
            yield inert(text)
        case Facts(pairs):
            for name, value in pairs:
                yield _row([name, value])
        case Block(_, text, tag):
            for line in text.splitlines():
                yield f"{tag}\t{inert(line)}"
        case Table(columns, rows, _, tag):
            lead: list[Cell] = [tag] if tag else []
            names = [column.name for column in columns]
            # The names of tagged rows begin with # and the tag, so that no search for a tag finds them.
            yield _row([f"#{tag}", *names] if tag else names)
            for row in rows:
                yield _row([*lead, *row])


def _row(values: Sequence[Cell]) -> str:
    return "\t".join(cell(value) for value in values)
