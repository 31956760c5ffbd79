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

from redrive._duration import words
from redrive.cli.output import Block, Cell, Column, Facts, Line, Part, Span, Table, View, When
from redrive.cli.output.plain import iso
from redrive.redact import inert

CELL, FACT, BLOCK = 300, 2_000, 20_000
"""How many characters of a table's cell, of a fact, and of a block are shown."""

NARROW = 110
"""Below so many columns a table says how long ago instead of when."""

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
_KINDS = {"id": "cyan", "number": "", "time": "dim", "text": "", "word": ""}


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
        case Table(columns, rows):
            console.print(_grid(columns, rows, full=console.width >= NARROW))


def _grid(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, full: bool) -> Grid:
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    shown = [index for index, column in enumerate(columns) if not column.extra]
    for column in (columns[index] for index in shown):
        grid.add_column(
            Text(column.name),
            style=_KINDS[column.kind],
            justify="right" if column.kind == "number" else "left",
            no_wrap=column.kind != "text",
            overflow="fold",
        )
    for row in rows:
        grid.add_row(*(_text(row[index], kind=columns[index].kind, full=full) for index in shown))
    return grid


def _text(value: Cell, *, kind: str = "text", limit: int = CELL, full: bool) -> Text:
    match value:
        case None:
            return Text("–", style="dim")
        case When(at, now):
            return Text(_moment(at, now, full=full))
        case Span(seconds):
            return Text("–" if seconds is None else words(seconds))
        case int():
            return Text(f"{value:,}")
        case str():
            style = _WORDS.get(value, "") if kind == "word" else ""
            return Text(_shown(value, limit), style=style)


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
