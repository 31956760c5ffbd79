"""Following a run: a bar on a terminal, else a line every ten seconds; Ctrl-C detaches."""

from __future__ import annotations

import os
import shutil
import sys
import time

import click

from redrive.cli._cli import REPORT_EVERY, Cli
from redrive.cli._errors import FAILED, INTERRUPTED, PARTLY, STOPPED
from redrive.cli.output import plural
from redrive.cli.runs import view_of
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.jobs.durations import words
from redrive.runs.run_records import Counts, Run

_EVERY = 0.5
"""Seconds between two reads of the run."""
_BAR = 24
"""Columns of the bar, at most."""


def follow(cli: Cli, desk: Desk, run: Run) -> None:
    """Show the progress of a run until it is over, then its result, and exit."""
    try:
        run = _watched(cli, desk, run)
    except KeyboardInterrupt:
        clear()
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
    began = reported = time.monotonic()
    start = run.counts.ended if run.counts else 0
    printed: set[str] = set()
    in_canary = run.spec.canary > 0 and not run.passed
    while not (run := desk.runs.get(run)).is_over:
        now = time.monotonic()
        done = 0 if run.counts is None else run.counts.ended
        speed = (done - start) / max(now - began, _EVERY)
        if in_canary and run.passed:
            in_canary = False
            clear()
            cli.say(f"the canary of {plural(run.spec.canary, 'job')} succeeded; the others follow")
        for text in waits.of_run(desk, run):
            if text not in printed:
                printed.add(text)
                clear()
                cli.say(text)
        if _may_draw(cli):
            _draw(line_of(run, speed, shutil.get_terminal_size().columns))
        elif now - reported >= REPORT_EVERY and not cli.quiet:
            reported = now
            cli.say(line_of(run, speed, 0))
        time.sleep(_EVERY)
    clear()
    return run


def _may_draw(cli: Cli) -> bool:
    """Return True if a progress bar is wanted and can be drawn."""
    static = os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not static and not cli.quiet


def line_of(run: Run, speed: float, width: int) -> str:
    """Return the progress of a run in one line; with a width it has a bar and is shortened to fit."""
    counts = run.counts or Counts()
    over = run.total - counts.waiting - counts.working
    share = over / run.total if run.total else 1.0
    parts = [f"{counts.succeeded:,} ok", f"{counts.failed:,} failed again"]
    if counts.failing:
        parts.append(f"{counts.failing:,} waiting for retry")
    if run.phase != "live":
        parts.append(run.phase)
    elif speed > 0:
        parts.append(f"{speed:.1f}/s")
        parts.append(f"{words((counts.waiting + counts.working) / speed)} left")
    if run.phase == "live" and run.spec.canary and not run.passed:
        parts.append("canary")
    text = f"{share:4.0%}  {' · '.join(parts)}"
    if not width:
        return f"{run.id} {text}"
    size = min(_BAR, width - len(run.id) - len(text) - 3)
    full = round(share * max(0, size))
    bar = f"{'━' * full}{'─' * (size - full)} " if size > 0 else ""
    line = f"{run.id} {bar}{text}"
    whole = f"{line}  (Ctrl-C detaches)"
    if len(whole) < width:
        return whole
    return line if len(line) < width else f"{line[: width - 2]}…"


def _draw(line: str) -> None:
    sys.stderr.write(f"\r\x1b[2K{line}")
    sys.stderr.flush()


def clear() -> None:
    """Remove the bar."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
