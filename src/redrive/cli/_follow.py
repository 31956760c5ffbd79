"""Following a run: a bar on a terminal, else a line every ten seconds; Ctrl-C detaches."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec

import click

from redrive.cli._cli import REPORT_EVERY, Cli
from redrive.cli._errors import FAILED, INTERRUPTED, PARTLY, STOPPED
from redrive.cli.output import plural
from redrive.cli.runs import view_of
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.runs.run_records import Counts, Run

_EVERY = 0.5  # seconds between two reads of the run
_WAITS_EVERY = 5.0  # seconds between two questions what a run waits for


def follow(cli: Cli, desk: Desk, run: Run) -> None:
    """Show the progress of a run until it is over, then its result, and exit."""
    try:
        run = _watched(cli, desk, run)
    except KeyboardInterrupt:
        cli.say(f"detached: {run.id} continues. To stop it: redrive run {run.id} pause (or cancel)")
        raise click.exceptions.Exit(INTERRUPTED) from None
    cli.show(view_of(desk, run), then=_next(run))
    new = desk.runs.arrived(run)
    if new and not cli.json:
        cli.say(f"{plural(new, 'job')} died of the same cause since the run was started")
    raise click.exceptions.Exit(_code(run))


def _next(run: Run) -> str:
    failed = run.counts is not None and run.counts.failed
    return f"redrive list 'run:{run.id} state:dead'" if failed else "redrive status"


def _code(run: Run) -> int:
    if run.phase == "done":
        return PARTLY if run.counts and run.counts.failed else 0
    return STOPPED if run.phase == "stopped" else FAILED


def _watched(cli: Cli, desk: Desk, run: Run) -> Run:
    printed, asked = set[str](), -_WAITS_EVERY
    in_canary = run.spec.canary > 0 and not run.passed
    with _bar(cli) as show:
        while not (run := desk.runs.get(run)).is_over:
            show(run)
            now = time.monotonic()
            if in_canary and run.passed:
                in_canary = False
                number = plural(run.spec.canary, "job")
                cli.say(f"the canary of {number} succeeded; the others follow")
            is_due = now - asked >= _WAITS_EVERY
            asked = now if is_due else asked
            for text in waits.of_run(desk, run) if is_due else ():
                what = text.partition(" for ")[0]  # how long is another number each time
                if what not in printed:
                    printed.add(what)
                    cli.say(text)
            time.sleep(_EVERY)
    return run


@contextmanager
def _bar(cli: Cli) -> Generator[Callable[[Run], None]]:
    """Yield a function that shows a run: in a bar, or where none can be drawn every ten seconds."""
    static = os.environ.get("CI") or os.environ.get("TERM") == "dumb" or cli.quiet
    if static or not sys.stderr.isatty() or find_spec("rich") is None:
        reported = time.monotonic()

        def show(run: Run) -> None:
            nonlocal reported
            if time.monotonic() - reported >= REPORT_EVERY and not cli.quiet:
                reported = time.monotonic()
                cli.say("{} of {} jobs: {}".format(*_progress(run)))

        yield show
        return
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    ends = TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn()
    keys = TextColumn("Ctrl-C detaches")
    with Progress(*ends, keys, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")

        def draw(run: Run) -> None:
            over, total, text = _progress(run)
            bar.update(task, completed=over, total=total, description=f"{run.id} {text}")

        yield draw


def _progress(run: Run) -> tuple[int, int, str]:
    """Return how many jobs of how many have ended, and how."""
    counts = run.counts or Counts()
    parts = [f"{counts.succeeded:,} ok", f"{counts.failed:,} failed again"]
    if counts.failing:
        parts.append(f"{counts.failing:,} to be tried again")
    if run.phase != "live":
        parts.append(run.phase)
    elif run.spec.canary and not run.passed:
        parts.append("canary")
    return run.total - counts.waiting - counts.working, run.total, " · ".join(parts)
