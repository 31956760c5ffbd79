"""Following a run: a bar on a terminal, else a line every ten seconds; Ctrl-C detaches."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque

import click

from redrive.cli._cli import REPORT_EVERY, Cli
from redrive.cli._errors import FAILED, INTERRUPTED, PARTLY, STOPPED
from redrive.cli.output import plural
from redrive.cli.runs import view_of
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.jobs.durations import words
from redrive.runs.run_records import Counts, Run

_EVERY = 0.5  # seconds between two reads of the run
_WAITS_EVERY = 5.0  # seconds between two questions what a run waits for
_WINDOW = 30.0  # seconds of which the rate is the average
_STILL = 10.0  # seconds without an end after which a run stands still
_BAR = 24  # columns of the bar, at most


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
    reported, pace = time.monotonic(), Pace()
    printed, asked = set[str](), -_WAITS_EVERY
    in_canary = run.spec.canary > 0 and not run.passed
    while not (run := desk.runs.get(run)).is_over:
        now = time.monotonic()
        pace.saw(now, 0 if run.counts is None else run.counts.ended)
        if in_canary and run.passed:
            in_canary = False
            clear()
            cli.say(f"the canary of {plural(run.spec.canary, 'job')} succeeded; the others follow")
        is_due = now - asked >= _WAITS_EVERY
        asked = now if is_due else asked
        for text in waits.of_run(desk, run) if is_due else ():
            what = text.partition(" for ")[0]  # how long is another number each time
            if what not in printed:
                printed.add(what)
                clear()
                cli.say(text)
        if _may_draw(cli):
            _draw(line_of(run, pace.speed, shutil.get_terminal_size().columns, pace.still))
        elif now - reported >= REPORT_EVERY and not cli.quiet:
            reported = now
            cli.say(line_of(run, pace.speed, 0, pace.still))
        time.sleep(_EVERY)
    clear()
    return run


def _may_draw(cli: Cli) -> bool:
    """Return True if a progress bar is wanted and can be drawn."""
    static = os.environ.get("CI") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not static and not cli.quiet


class Pace:
    """How fast the jobs of a run end, from what ended in the last seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._changed = 0.0

    def saw(self, now: float, done: int) -> None:
        """Take note that so many jobs have ended at this second."""
        if not self._seen or done != self._seen[-1][1]:
            self._changed = now
        self._seen.append((now, done))
        while now - self._seen[1 % len(self._seen)][0] >= _WINDOW:
            self._seen.popleft()

    @property
    def speed(self) -> float:
        """Jobs a second in the last half minute."""
        (first, before), (now, done) = self._seen[0], self._seen[-1]
        return max(0, done - before) / max(now - first, _EVERY)

    @property
    def still(self) -> float:
        """For how many seconds none has ended, if that is longer than usual; else 0."""
        now = self._seen[-1][0]
        usual = 3 / self.speed if self.speed else 0.0
        seconds = now - self._changed
        return seconds if seconds >= max(_STILL, usual) else 0.0


def line_of(run: Run, speed: float, width: int, still: float = 0.0) -> str:
    """Return the progress of a run in one line; with a width it has a bar and is shortened to fit."""
    counts = run.counts or Counts()
    over = run.total - counts.waiting - counts.working
    share = over / run.total if run.total else 1.0
    parts = [f"{counts.succeeded:,} ok", f"{counts.failed:,} failed again"]
    if counts.failing:
        parts.append(f"{counts.failing:,} to be tried again")
    if run.phase != "live":
        parts.append(run.phase)
    elif still:
        parts.append(f"none ended for {words(still)}")
    elif speed > 0:
        parts.append(f"{speed:.1f}/s")
        if ahead := counts.waiting + counts.untried:
            parts.append(f"{words(ahead / speed)} left")
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
