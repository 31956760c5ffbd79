"""The output of the demo: sentences, and a live table on a terminal or lines elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

Row = tuple[str, list[int]]
"""A lane, and how many of its jobs wait, run, are completed and are dead."""
COLUMNS = ("waiting", "running", "completed", "dead")
_COLOURS = ("yellow", "cyan", "green", "red")
_LOOK, _SPEAK = 0.1, 1.0


class Screen:
    """Prints for a person at a terminal, or for a file."""

    def __init__(self, *, plain: bool = False, no_color: bool = False) -> None:
        self.moves = sys.stdout.isatty() and not plain and os.environ.get("TERM") != "dumb"
        self.coloured = self.moves and not no_color and not os.environ.get("NO_COLOR")

    def head(self, text: str) -> None:
        """Print a heading."""
        self.say(f"\n{text}", bold=True)

    def say(self, text: str, colour: str | None = None, *, bold: bool = False) -> None:
        """Print one sentence."""
        if self.coloured:
            text = click.style(text, fg=colour, bold=bold or None)
        click.echo(text)

    def follow(
        self, look: Callable[[], Sequence[Row]], done: Callable[[], bool], limit: float
    ) -> bool:
        """Show the state until it is done; return False if that takes too long."""
        show = self._table() if self.moves else self._lines()
        end = time.monotonic() + limit
        try:
            while not (is_done := done()) and time.monotonic() < end:
                show(look(), False)
                time.sleep(_LOOK)
        finally:
            show(look(), True)
        return is_done

    def _lines(self) -> Callable[[Sequence[Row], bool], None]:
        """Print changes, once a second at most."""
        shown: list[Sequence[Row]] = []
        spoke = time.monotonic()

        def show(rows: Sequence[Row], last: bool) -> None:
            nonlocal spoke
            if rows in shown[-1:] or (not last and time.monotonic() - spoke < _SPEAK):
                return
            shown.append(rows)
            spoke = time.monotonic()
            sums = (sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True))
            counts = zip(COLUMNS, sums, strict=True)
            click.echo("   " + ", ".join(f"{number} {name}" for name, number in counts))

        return show

    def _table(self) -> Callable[[Sequence[Row], bool], None]:
        """Draw a table over itself; lines where rich is not installed."""
        try:
            from rich.live import Live  # noqa: PLC0415 - the command line works without it
        except ImportError:
            return self._lines()
        live = Live(refresh_per_second=10)
        live.start()

        def show(rows: Sequence[Row], last: bool) -> None:
            live.update(drawn(rows), refresh=True)
            if last:
                live.stop()

        return show


def drawn(rows: Sequence[Row]) -> Table:
    """Print the present state."""
    from rich.table import Table  # noqa: PLC0415 - only a terminal needs it

    table = Table("lane")
    for name, colour in zip(COLUMNS, _COLOURS, strict=True):
        table.add_column(name, justify="right", style=colour)
    for lane, numbers in rows:
        table.add_row(lane, *(str(number or "·") for number in numbers))
    return table
