"""Tables and colours for people, by rich. Imported only where there is a terminal and rich.

A table has one line for each row. Where that would leave too little for its texts, each row becomes a
card: its short values on one line, its texts below. Texts that do not fit end with an ellipsis; plain
text and JSON have the whole. Every text of a job goes through `inert` and into a `Text`, never
through markup.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import NamedTuple, TextIO, cast

from rich.console import Console
from rich.text import Text

from redrive.cli.output import Block, Document, Facts, Field, Kind, Line, Panel, Part, Table, View
from redrive.cli.output.text import numbers_of, text_of
from redrive.jobs.durations import words
from redrive.payloads.escaping import inert

CELL, FACT, BLOCK = 400, 2_000, 20_000
"""How many characters of a table's cell, of a fact, and of a block are shown."""
WIDE, NARROW = 140, 60
"""From WIDE columns on a table shows when, not only how long ago; below NARROW facts do not either."""
ROOM = 44  # facts whose values would get less than this put long values on lines of their own
Steps = Sequence[tuple[Kind, int]]
SHORTENING: Steps = (("text", 24), ("main", 60), ("text", 12), ("main", 44), ("main", 30))
"""To how many columns texts of a table are shortened, step by step until it fits."""
CARD = 4  # lines of a card; minor fields are left out of a longer one
GAP, INDENT = "  ", "   "

_TEXTS = {"text", "main", "prose", "list"}
_RIGHT = {"number", "span", "exact", "count"}

TONES = {"": "", "good": "green", "bad": "bold red", "warn": "yellow"}
WORDS = {
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
SYMBOLS = {
    "transient": "⚡",
    "rate_limit": "⏳",
    "quota": "💳",
    "auth": "🔒",
    "invalid": "🚫",
    "permanent": "🚫",
    "timeout": "⏰",
    "crash": "💥",
    "unknown": "❓",
}
"""Of the categories of errors; each takes two columns."""


class Signs(NamedTuple):
    """The characters beside the text: some terminals know only ASCII."""

    good: str = "✓"
    bad: str = "✗"
    warn: str = "!"
    nothing: str = "–"
    rule: str = "─"
    more: str = "…"
    steps: str = "▁▂▃▄▅▆▇█"
    frame: str = "╭╮╰╯│"

    def of(self, tone: str) -> str:
        """Return the sign of a tone, with a space."""
        return f"{getattr(self, tone)} " if tone else ""


ASCII = Signs("ok", "x", "!", "-", "-", "...", "_.:-=+*#", "++++|")
SPELT = str.maketrans({"…": "...", "•": "*", "·": "|", "–": "-", "→": "->", "±": "+-"})
"""Our own punctuation, for a terminal that knows only ASCII."""


def render(view: View, file: TextIO) -> None:
    """Print a view on a terminal."""
    _print(view, _console(file), _signs(file))


@contextmanager
def screen(file: TextIO) -> Generator[Callable[[View], None]]:
    """Draw views one over the other, as much of each as fits; on a dumb terminal one below the other."""
    from rich.live import Live  # noqa: PLC0415 - only `status --watch` needs it

    console = _console(file)
    if not console.is_terminal:
        yield lambda view: render(view, file)
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw(view: View) -> None:
            text = io.StringIO()
            inner = Console(file=text, highlight=False, force_terminal=True, width=console.width)
            _print(view, inner, _signs(file))
            live.update(Text.from_ansi(text.getvalue()), refresh=True)

        yield draw


def _print(view: View, console: Console, signs: Signs) -> None:
    shown = Screen(console, view.now, signs)
    for part in view.parts:
        shown.print(part)


def render_markdown(text: str, file: TextIO) -> bool:
    """Print a help page on a terminal; return False if the terminal knows only ASCII."""
    from rich.markdown import Markdown  # noqa: PLC0415 - slow to import, and only pages need it

    console = _console(file)
    if _signs(file) is ASCII:
        return False
    console.print(Markdown(text), width=min(console.width, 100))
    return True


def _console(file: TextIO) -> Console:
    dumb = os.environ.get("TERM", "") in {"", "dumb", "unknown"}
    if dumb or os.environ.get("NO_COLOR"):
        # Without a colour system rich writes no escape at all; `no_color` would keep the bold.
        return Console(file=file, color_system=None, force_terminal=False, highlight=False)
    return Console(file=file, highlight=False)


def _signs(file: TextIO) -> Signs:
    try:
        "".join(Signs()).encode(file.encoding or "utf-8")
    except UnicodeEncodeError:
        return ASCII
    return Signs()


class Screen:
    """Lays parts out for one width."""

    def __init__(self, console: Console, now: float | None, signs: Signs) -> None:
        self._console = console
        self._width = console.width
        self._now = now
        self._signs = signs
        self._last: Part | None = None  # the last part that printed anything

    def print(self, part: Part) -> None:
        """Print one part, with its title; a title, and facts after a table, follow an empty line."""
        lines = list(self._lines(part))
        title = part.title if isinstance(part, Table | Block) and part[1] else ""
        is_apart = bool(title) or (isinstance(part, Facts) and isinstance(self._last, Table))
        if lines and is_apart and self._last is not None:
            self._console.print()
        if title:
            self._console.print(Text(title, style="bold"))
        for line in lines:
            self._console.print(line, no_wrap=True, overflow="ignore", crop=False)
        self._last = part if lines else self._last

    def _lines(self, part: Part) -> Iterator[Text]:
        match part:
            case Line(text, tone):
                shown = self._signs.of(tone) + self._shown(text, FACT)
                yield from self._wrapped(Text(shown, style=TONES[tone]), "")
            case Panel():
                yield from self._panel(part)
            case Block(_, text):
                for line in self._shown(text, BLOCK, keep_newlines=True).splitlines():
                    yield from self._wrapped(Text(line), "")
            case Facts():
                yield from self._facts(part)
            case Table(fields, rows) if rows:
                seen = [field for field in fields if not field.plain_only]
                # A column without any value takes room and shows nothing.
                yield from self._table(
                    [f for f in seen if any(map(_has, map(f.value, rows)))], part
                )
            case _:
                pass

    def _panel(self, panel: Panel) -> Iterator[Text]:
        left, right, low_left, low_right, side = tuple(self._signs.frame)
        inside, rule = self._width - 4, self._signs.rule
        title = self._cut(Text(f" {self._shown(panel.title, CELL)} "), inside)
        yield Text(f"{left}{rule}") + title + Text(rule * (inside + 1 - title.cell_len) + right)
        sentence = Text(self._signs.of(panel.tone) + self._shown(panel.text, FACT))
        for line in sentence.wrap(self._console, inside):
            line.rstrip()
            line.stylize(TONES[panel.tone])
            line.align("left", inside)
            yield Text(f"{side} ") + line + Text(f" {side}")
        yield Text(low_left + rule * (inside + 2) + low_right)

    def _wrapped(self, text: Text, indent: str) -> Iterator[Text]:
        for line in text.wrap(self._console, self._width - len(indent)) or [text]:
            line.rstrip()
            yield Text(indent).append_text(line)

    def _facts(self, facts: Facts) -> Iterator[Text]:
        pairs = facts.pairs()
        width = max((Text(field.title).cell_len for field, _ in pairs), default=0)
        room = self._width - width - len(GAP)
        for field, value in pairs:
            title = Text(self._shown(field.title, CELL), style="dim")
            text = self._fact(value, field.kind)
            if text.cell_len > room and room < ROOM:
                yield title
                yield from self._wrapped(text, GAP)
                continue
            title.align("left", width + len(GAP))
            for line in text.wrap(self._console, room) or [text]:
                line.rstrip()
                yield title + line
                title = Text(" " * (width + len(GAP)))

    def _fact(self, value: object, kind: Kind) -> Text:
        return self._text(value, kind, FACT, full=self._width >= NARROW)

    def _table(self, fields: Sequence[Field], table: Table) -> Iterator[Text]:
        """Yield a table in the first layout that fits, else a card for each row."""
        for shown, full, steps in _layouts(fields):
            cells = self._cells(shown, table, full=full)
            fitting = _fit(shown, _widths(cells), self._width, steps)
            if fitting and (self._width >= WIDE or not full):
                heads, *rows = [self._line(shown, row, fitting) for row in cells]
                yield heads
                yield Text(self._signs.rule * (sum(fitting) + len(GAP) * (len(shown) - 1)))
                yield from rows
                return
        yield from self._cards(fields, table)

    def _cells(self, fields: Sequence[Field], table: Table, *, full: bool) -> list[list[Text]]:
        """Return the titles of the fields, and below them the values of each row."""
        heads = [Text(field.title, style="bold") for field in fields]
        rows = [
            [self._text(field.value(row), field.kind, CELL, full=full) for field in fields]
            for row in table.rows
        ]
        return [heads, *rows]

    def _cards(self, fields: Sequence[Field], table: Table) -> Iterator[Text]:
        """Yield each row as a card: short values on the first line, then texts, then sentences."""
        cells = self._cells(fields, table, full=False)
        widths = _widths(cells)
        lines = self._card(fields, widths)
        while len(lines) > CARD and (minor := [f for f in fields if f.minor]):
            fields = [field for field in fields if field is not minor[-1]]
            cells = self._cells(fields, table, full=False)
            widths = _widths(cells)
            lines = self._card(fields, widths)
        for number, row in enumerate(cells):
            for line, sizes in lines:
                kinds, values = [fields[i] for i in line], [row[i] for i in line]
                indent = "" if line is lines[0][0] else INDENT
                if kinds[0].kind == "prose":
                    if values[0].plain != self._signs.nothing:
                        yield from self._wrapped(values[0], indent)
                elif not indent or any(v.plain != self._signs.nothing for v in values):
                    yield self._cut(Text(indent) + self._line(kinds, values, sizes))
            if number == 0:
                yield Text(self._signs.rule * self._width)

    def _card(
        self, fields: Sequence[Field], widths: list[int]
    ) -> list[tuple[list[int], list[int]]]:
        """Return the lines of a card, each as the indexes and widths of its fields."""
        everything = range(len(fields))
        short = [index for index in everything if fields[index].kind not in _TEXTS]
        texts = [index for index in everything if fields[index].kind in {"text", "main", "list"}]
        prose = [index for index in everything if fields[index].kind == "prose"]
        first, *others = [*_groups(short, widths, self._width)] or [[]]
        room = self._width - len(INDENT)
        fitting = _fit([fields[i] for i in texts], [widths[i] for i in texts], room)
        below = [(texts, fitting)] if fitting else [([i], [min(widths[i], room)]) for i in texts]
        lines = [(first, [widths[i] for i in first]), *below]
        lines += [(line, [widths[i] for i in line]) for line in others]
        lines += [([index], [room]) for index in prose]
        return [line for line in lines if line[0]]

    def _line(self, fields: Sequence[Field], cells: Sequence[Text], widths: Sequence[int]) -> Text:
        line: list[Text] = []
        for field, cell, width in zip(fields, cells, widths, strict=True):
            text = self._cut(cell, width)
            text.align("right" if field.kind in _RIGHT else "left", width)
            line.append(text)
        whole = Text(GAP).join(line)
        whole.rstrip()
        return whole

    def _cut(self, text: Text, width: int = 0) -> Text:
        """Return a text with at most so many columns, by default those of the screen."""
        width = width or self._width
        if text.cell_len <= width:
            return text.copy()
        shorter = text.copy()
        shorter.truncate(max(0, width - len(self._signs.more)))
        return shorter.append(self._signs.more)

    def _text(self, value: object, kind: Kind, limit: int, *, full: bool) -> Text:
        if not _has(value) and kind != "count":
            return Text(self._signs.nothing, style="dim")
        match kind:
            case "time" | "due":
                moment = self._moment(str(value), full=full, ahead=kind == "due")
                return Text(moment, style="" if limit == FACT else "dim")
            case "span" if isinstance(value, int | float):
                return Text(words(value))
            case "trend":
                numbers = numbers_of(value)
                most = max(numbers, default=0)
                span = _span(value) if limit == FACT else ""  # a table's heading says it
                scale = f" max {most:,}{span}" if most else ""
                return Text(_curve(numbers, self._signs.steps) + scale)
            case "warn" | "bad":
                tone = kind if value else "good"
                return Text(f"{self._signs.of(tone)}{value:,}", style=TONES[tone])
            case "id" | "word" | "category":
                text = self._shown(str(value), limit)
                if kind == "category" and text in SYMBOLS and self._signs is not ASCII:
                    return Text(f"{SYMBOLS[text]} {text}", style=WORDS.get(text, ""))
                return Text(text, style="cyan" if kind == "id" else WORDS.get(text, ""))
            case _:
                is_number = isinstance(value, int) and not isinstance(value, bool)
                text = f"{value:,}" if is_number else text_of(value, kind)
                return Text(self._shown(text, limit) or self._signs.nothing)

    def _moment(self, text: str, *, full: bool, ahead: bool) -> str:
        """Return when it was, or how long ago: 0s, if it was later by a clock that was set back."""
        try:
            at = datetime.fromisoformat(text).timestamp()
        except ValueError:
            return text  # beyond the year 9999
        when = text[:19].replace("T", " ")
        if self._now is None:
            return when
        left = at - self._now
        ago = f"in {words(left)}" if ahead and left > 0 else f"{words(-left)} ago"
        return f"{when} ({ago})" if full else ago

    def _shown(self, text: str, limit: int, *, keep_newlines: bool = False) -> str:
        # Cut before escaping, so that a megabyte costs nothing, and after it, because escapes grow.
        shown = _short(inert(_short(text, limit), keep_newlines=keep_newlines), limit)
        if self._signs is ASCII:
            shown = shown.translate(SPELT).encode("ascii", "backslashreplace").decode()
        return shown


def _layouts(fields: Sequence[Field]) -> Iterator[tuple[Sequence[Field], bool, Steps]]:
    """Yield the fields of a table, if times are whole, and how far texts are shortened; best first."""
    yield fields, True, SHORTENING[:2]
    yield fields, False, SHORTENING[:4]
    shown = list(fields)
    for field in [field for field in reversed(fields) if field.minor]:
        shown.remove(field)
        yield list(shown), False, SHORTENING[:4]


def _widths(cells: Sequence[Sequence[Text]]) -> list[int]:
    return [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]


def _has(value: object) -> bool:
    return value not in (None, "", [])


def _fit(
    fields: Sequence[Field], widths: Sequence[int], room: int, steps: Steps = SHORTENING
) -> list[int]:
    """Return the widths at which a line fits, with the texts shortened; nothing if they are too many."""
    fitting = list(widths)
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - room
    for kind, least in steps:
        for index, field in enumerate(fields):
            if field.kind == kind or (kind == "text" and field.kind == "list"):
                cut = max(0, min(excess, fitting[index] - least))
                fitting[index] -= cut
                excess -= cut
    return [] if excess > 0 else fitting


def _groups(indexes: Sequence[int], widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the short values of a card line by line, as many on each as fit."""
    line: list[int] = []
    taken = 0
    for index in indexes:
        if line and taken + len(GAP) + widths[index] > room:
            yield line
            line, taken = [], len(INDENT)
        taken += widths[index] + (len(GAP) if line else 0)
        line.append(index)
    if line:
        yield line


def _curve(numbers: Sequence[int], steps: str) -> str:
    """Draw numbers as steps; whatever is above 0 stands above the ground."""
    most = max(numbers, default=0)
    heights = (-(-number * (len(steps) - 1) // most) if most else 0 for number in numbers)
    return "".join(steps[height] for height in heights)


def _span(trend: object) -> str:
    """Return the width of one step of a curve: /2h."""
    if not isinstance(trend, Mapping):
        return ""
    seconds = cast("Document", trend).get("span_seconds")
    return f"/{words(seconds)}" if isinstance(seconds, int | float) else ""


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit:,} more)"
