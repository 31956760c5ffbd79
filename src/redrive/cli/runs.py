"""Runs: the list of bulk retries, one run in detail, following it to its end, pausing, cancelling."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import click

from redrive.cli import views
from redrive.cli._cli import REPORT_EVERY, Cli
from redrive.cli._command import command, option, reason_option
from redrive.cli._errors import FAILED, INTERRUPTED, PARTLY, STOPPED, USAGE, Stop
from redrive.cli.output import Facts, Line, Part, Table, Tone, View, fields, plural, rows_of
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.desk.documents import left_of, run_document
from redrive.errors import JobNotFound
from redrive.runs.run_records import Counts, Run

_TONES: dict[str, Tone] = {"done": "good", "stopped": "bad", "cancelled": "warn", "paused": "warn"}
_NEW = fields("group:id jobs:number cause:main")
LEFT = fields("jobs:number why:prose")
_EVERY = 0.5  # seconds between two reads of the run
_WAITS_EVERY = 5.0  # seconds between two questions what a run waits for


@command(
    "run",
    "redrive run",
    "redrive run R12",
    "redrive run R12 --watch",
    "redrive run R12 pause --reason 'the API is down again'",
    "redrive run R12 rate 5/s",
    "redrive run R12 cancel",
)
@click.argument("number", required=False, metavar="[R12]")
@click.argument(
    "action",
    required=False,
    type=click.Choice(["pause", "resume", "cancel", "rate"]),
    metavar="[ACTION]",
)
@click.argument("rate", required=False, metavar="[RATE]")
@option("--limit N", "How many are listed.", click.IntRange(1, 1000), default=20)
@option("--watch --wait", "Follow it to its end; Ctrl-C detaches.")
@reason_option
@click.pass_obj
def run(
    cli: Cli,
    /,
    number: str | None,
    action: str | None,
    rate: str | None,
    limit: int,
    *,
    watch: bool,
    reason: str,
) -> None:
    """List the bulk retries, or show one; ACTION is pause, resume, cancel or rate.

    A paused run starts no more jobs. Cancelling ends it: jobs that still wait stay as they were, jobs
    that were already started run on. `rate 5/s` changes how many jobs it starts.
    """
    if number is None:
        _list(cli, limit)
        return
    if (action == "rate") != (rate is not None):
        raise click.UsageError("rate needs a value, such as `rate 5/s`; other actions take none")
    if not re.fullmatch(r"[Rr]?\d+", number):
        msg = f"{number!r} is not a run: a run is named R12"
        hint = "`redrive run` lists runs; `redrive work MODULE:APP` starts a worker"
        raise Stop("usage", msg, hint=hint, exits=USAGE)
    with cli.acting(read_only=action is None) as desk:
        runs = desk.runs
        verbs = {"pause": runs.pause, "resume": runs.resume, "cancel": runs.cancel}
        if rate is not None:
            chosen = runs.set_rate(number, rate, reason=reason)
        else:
            chosen = verbs[action](number, reason=reason) if action else runs.get(number)
        if watch:
            follow(cli, desk, chosen)
        cli.show(view_of(desk, chosen), then=_next(chosen))


def _list(cli: Cli, limit: int) -> None:
    with cli.reading() as desk:
        recent = desk.runs.recent()[:limit]
        now = desk.store.now()
    data = [run_document(run) for run in recent]
    parts: list[Part] = [Table(views.RUNS, data) if data else Line("No runs yet.")]
    then = f"redrive run {recent[0].id}" if recent else "redrive groups"
    cli.show(View(data, parts, now=now), then=then)


def _next(run: Run) -> str:
    if run.phase == "paused":
        return f"redrive run {run.id} resume"
    return "redrive status" if run.is_over else f"redrive run {run.id} --watch"


def view_of(desk: Desk, run: Run) -> View:
    """Show one run: its result so far, new causes, and the jobs left out and why."""
    counts, waiting = run.counts or Counts(), waits.of_run(desk, run)
    tone = "warn" if counts.failed and run.phase == "done" else _TONES.get(run.phase, "")
    data = {**run_document(run), "waits": waiting}
    titles = [_title(desk, number) for number in counts.new]
    names = [f"G{number}" for number in counts.new]
    new = rows_of(("group", names), ("jobs", counts.new.values()), ("cause", titles))
    left = left_of(run, counts)
    parts: list[Part] = [
        Line(headline(run, counts), tone),
        *(Line(text, "warn") for text in waiting),
        Facts(views.RUN, data),
        Table(_NEW, new, "New causes", "new"),
        Table(LEFT, rows_of(("jobs", left.values()), ("why", left)), "Left out", "left"),
    ]
    return View(data, parts, now=desk.store.now())


def _title(desk: Desk, number: int) -> str:
    with suppress(JobNotFound):  # its jobs may be purged
        return desk.groups.get(number).title
    return ""


def headline(run: Run, counts: Counts) -> str:
    """Return one sentence with the result of a run so far."""
    results = [f"{counts.succeeded:,} ok"]
    if counts.failed:
        new = "".join(f", {jobs:,} new in G{group}" for group, jobs in counts.new.items())
        results.append(f"{counts.failed:,} failed again ({counts.same:,} same cause{new})")
    for number, state in (
        (counts.closed, "closed by a person"),
        (counts.left + sum(run.skipped.values()), "left out"),
        (counts.working, "released"),
        (counts.waiting, "waiting"),
    ):
        results += [f"{number:,} {state}"] if number else []
    why = f" ({run.why})" if run.why else ""
    return f"{run.id} {run.phase}{why}: {' · '.join(results)}"


def follow(cli: Cli, desk: Desk, run: Run) -> None:
    """Show the progress of a run until it is over, then its result, and exit."""
    try:
        run = _watched(cli, desk, run)
    except KeyboardInterrupt:
        cli.say(f"detached: {run.id} continues. To stop it: redrive run {run.id} pause (or cancel)")
        raise click.exceptions.Exit(INTERRUPTED) from None
    cli.show(view_of(desk, run), then=_after(run))
    new = desk.runs.arrived(run)
    if new and not cli.json:
        cli.say(f"{plural(new, 'job')} died of the same cause since the run was started")
    raise click.exceptions.Exit(_code(run))


def _after(run: Run) -> str:
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
