"""Tables and colours for people, by rich. Imported only where there is a terminal and rich.

Every text of a job goes through `inert` and into a `Text`, never through markup. Cells are cut to
what a person can take in; plain text and JSON have the whole.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from redrive.cli.output import (
    Block,
    Cell,
    Column,
    Facts,
    Line,
    Mark,
    Part,
    Span,
    Table,
    Trend,
    View,
    When,
)
from redrive.jobs.clock import iso
from redrive.jobs.durations import words
from redrive.payloads.escaping import inert

CELL, FACT, BLOCK = 160, 2_000, 20_000
"""How many characters of a table's cell, of a fact, and of a block are shown."""

WIDE = 140
"""From so many columns on a table says when, not only how long ago."""
ROOM = 30
"""A table that leaves less than this for its text puts the text on lines of its own."""

_SIGNS = {"": "", "good": "✓ ", "bad": "✗ ", "warn": "! "}
_TONES = {"": "", "good": "green", "bad": "bold red", "warn": "yellow"}
_WORDS = {
    "dead": "red",
    "pending": "yellow",
    "running": "cyan",
    "completed": "green",
    "resolved": "dim",
    "auth": "red",
    "invalid": "red",
    "permanent": "red",
    "crash": "red",
}
_STEPS = "▁▂▃▄▅▆▇█"
_KINDS = {"id": "cyan"}


def render(view: View, file: TextIO) -> None:
    """Print a view on a terminal."""
    console = _console(file)
    for index, part in enumerate(view.parts):
        title = "" if isinstance(part, Line) else part.title
        if title:
            console.print(Text(("\n" if index else "") + title, style="bold"))
        _print(console, part)


def _console(file: TextIO) -> Console:
    dumb = os.environ.get("TERM", "") in {"", "dumb", "unknown"}
    if dumb or os.environ.get("NO_COLOR"):
        # Without a colour system rich writes no escape at all; `no_color` would keep the bold.
        return Console(file=file, color_system=None, force_terminal=False, highlight=False)
    return Console(file=file, highlight=False)


def _print(console: Console, part: Part) -> None:
    match part:
        case Line(text, tone):
            console.print(Text(_SIGNS[tone] + _shown(text, FACT), style=_TONES[tone]))
        case Block(_, text):
            console.print(Text(_cut(inert(_cut(text, BLOCK), keep_newlines=True), BLOCK)))
        case Facts(pairs):
            grid = Grid.grid(padding=(0, 2, 0, 0))
            grid.add_column(no_wrap=True, style="dim")
            grid.add_column(overflow="fold")
            for name, value in pairs:
                grid.add_row(Text(_shown(name, CELL)), _text(value, limit=FACT, full=True))
            console.print(grid)
        case Table():
            _print_table(console, part)


def _print_table(console: Console, table: Table) -> None:
    """Print a table with whole times, else with ages, else each row on lines of its own."""
    shown = [index for index, column in enumerate(table.columns) if not column.extra]
    columns = [table.columns[index] for index in shown]
    short = [index for index, column in enumerate(columns) if column.kind != "text"]
    rows: list[list[Text]] = []
    widths: list[int] = []
    for full in (True, False) if console.width >= WIDE else (False,):
        rows = [
            [_text(row[index], kind=table.columns[index].kind, full=full) for index in shown]
            for row in table.rows
        ]
        widths = [
            max(Text(column.name).cell_len, *(row[index].cell_len for row in rows), 0)
            for index, column in enumerate(columns)
        ]
        taken = sum(widths[index] + 3 for index in short)
        if len(short) == len(columns) or console.width - taken >= ROOM:
            console.print(_grid(columns, rows))
            return
    _print_cards(console, columns, rows, widths)


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Text]]) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for column in columns:
        grid.add_column(
            Text(column.name),
            justify="right" if column.kind == "number" else "left",
            no_wrap=column.kind != "text",
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*row)
    return grid


def _print_cards(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[Text]],
    widths: Sequence[int],
) -> None:
    """Print each row on two lines, for a narrow terminal.

    The first has the short cells. Those it has no room for start the second, and texts end it: they
    are what may be cut.
    """
    heads = [Text(column.name, style="bold") for column in columns]
    short = [index for index, column in enumerate(columns) if column.kind != "text"]
    texts = [index for index, column in enumerate(columns) if column.kind == "text"]
    fitting = _fitting([widths[index] for index in short], console.width)
    for row in (heads, *rows):
        for index in short:
            kind = columns[index].kind
            row[index].align("right" if kind == "number" else "left", widths[index])
        first = Text("  ").join(row[index] for index in short[:fitting])
        second = Text("  ").join(row[index] for index in [*short[fitting:], *texts])
        console.print(first, overflow="ellipsis", no_wrap=True)
        console.print(Text("   ").append_text(second), overflow="ellipsis", no_wrap=True)


def _fitting(widths: Sequence[int], room: int) -> int:
    """Count the cells that fit on one line, two spaces between them; one always does."""
    taken = 0
    for index, width in enumerate(widths):
        taken += width + (2 if index else 0)
        if index and taken > room:
            return index
    return len(widths)


def _text(value: Cell, *, kind: str = "text", limit: int = CELL, full: bool) -> Text:
    match value:
        case None:
            return Text("–", style="dim")
        case When(at, now):
            return Text(_moment(at, now, full=full), style="" if limit == FACT else "dim")
        case Span(seconds):
            return Text("–" if seconds is None else words(seconds))
        case Mark(number, tone):
            return Text(f"{_SIGNS[tone]}{number:,}", style=_TONES[tone])
        case Trend(numbers):
            return Text(_curve(numbers))
        case int():
            return Text(f"{value:,}")
        case str():
            style = _WORDS.get(value, "") if kind == "word" else _KINDS.get(kind, "")
            return Text(_shown(value, limit), style=style)


def _curve(numbers: Sequence[int]) -> str:
    """Draw numbers as steps; whatever is above nothing stands above the ground."""
    most = max(numbers, default=0)
    steps = (-(-number * (len(_STEPS) - 1) // most) if most else 0 for number in numbers)
    return "".join(_STEPS[step] for step in steps)


def _moment(at: float | None, now: float | None, *, full: bool) -> str:
    if at is None:
        return "–"
    if not full and now is not None:
        return f"{words(now - at)} ago" if at <= now else f"in {words(at - now)}"
    said = (iso(at) or "")[:19].replace("T", " ")
    return said if now is None else f"{said} ({_moment(at, now, full=False)})"


def _shown(text: str, limit: int) -> str:
    # Cut before escaping, so that a megabyte costs nothing, and after it, because escapes grow.
    return _cut(inert(_cut(text, limit)), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more)"
