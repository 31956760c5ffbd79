"""Following a run: a bar on a terminal, else a line now and then; Ctrl-C lets it go on alone."""

from __future__ import annotations

import os
import shutil
import sys
import time

import click

from redrive.cli._errors import FAILED, INTERRUPTED, PARTLY, STOPPED
from redrive.cli._face import SPEAK_EVERY, Face
from redrive.cli.runs import view_of
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.jobs.durations import words
from redrive.runs.run_records import Counts, Run

_EVERY = 0.5
"""Seconds between two looks."""
_BAR = 24


def follow(face: Face, desk: Desk, run: Run) -> None:
    """Show how a run fares until it is over, then its outcome; always ends the command."""
    try:
        run = _watched(face, desk, run)
    except KeyboardInterrupt:
        clear()
        face.say(f"detached: {run.id} goes on. To stop it: redrive run {run.id} pause (or cancel)")
        raise click.exceptions.Exit(INTERRUPTED) from None
    face.show(view_of(desk, run), then=_next(run))
    new = desk.runs.arrived(run)
    if new and not face.json:
        face.say(f"{new:,} new of the same cause since it was started")
    raise click.exceptions.Exit(_code(run))


def _next(run: Run) -> str:
    failed = run.counts is not None and run.counts.failed
    return f"redrive list 'run:{run.id} state:dead'" if failed else "redrive status"


def _code(run: Run) -> int:
    if run.phase == "done":
        return PARTLY if run.counts and run.counts.failed else 0
    return STOPPED if run.phase == "stopped" else FAILED


def _watched(face: Face, desk: Desk, run: Run) -> Run:
    began = spoken = time.monotonic()
    start = run.counts.ended if run.counts else 0
    told: set[str] = set()
    awaited = run.spec.canary > 0 and not run.passed
    while not (run := desk.runs.get(run)).is_over:
        now = time.monotonic()
        done = 0 if run.counts is None else run.counts.ended
        speed = (done - start) / max(now - began, _EVERY)
        if awaited and run.passed:
            awaited = False
            clear()
            face.say(f"the canary of {run.spec.canary:,} did well; the others follow")
        for text in waits.of_run(desk, run):
            if text not in told:
                told.add(text)
                clear()
                face.say(text)
        if _may_draw(face):
            _draw(line_of(run, speed, shutil.get_terminal_size().columns))
        elif now - spoken >= SPEAK_EVERY and not face.quiet:
            spoken = now
            face.say(line_of(run, speed, 0))
        time.sleep(_EVERY)
    clear()
    return run


def _may_draw(face: Face) -> bool:
    """Return True if a progress bar can move there, and is wanted."""
    dull = os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not dull and not face.quiet


def line_of(run: Run, speed: float, width: int) -> str:
    """Return one line with the progress of a run; with a width it begins with a bar and is cut to fit."""
    counts = run.counts or Counts()
    over = run.total - counts.waiting - counts.working
    share = over / run.total if run.total else 1.0
    said = [f"{counts.succeeded:,} ok", f"{counts.failed:,} failed again"]
    if counts.failing:
        said.append(f"{counts.failing:,} to be tried again")
    if run.phase != "live":
        said.append(run.phase)
    elif speed > 0:
        said.append(f"{speed:.1f}/s")
        said.append(f"{words((counts.waiting + counts.working) / speed)} left")
    if run.phase == "live" and run.spec.canary and not run.passed:
        said.append("canary")
    full = round(share * _BAR)
    bar = f"{'━' * full}{'─' * (_BAR - full)} " if width else ""
    line = f"{run.id} {bar}{share:4.0%}  {' · '.join(said)}"
    return f"{line}  (Ctrl-C detaches)"[: width - 1] if width else line


def _draw(line: str) -> None:
    sys.stderr.write(f"\r\x1b[2K{line}")
    sys.stderr.flush()


def clear() -> None:
    """Take the bar away."""
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        sys.stderr.write("\r\x1b[2K")
        sys.stderr.flush()
