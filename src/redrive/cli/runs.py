"""Runs: which there are, how one fares, and pausing, resuming or cancelling it."""

from __future__ import annotations

from contextlib import suppress

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli.output import Cell, Facts, Line, Part, Table, Tone, View, When, columns
from redrive.desk import waits
from redrive.desk.desk import Desk
from redrive.desk.documents import left_of, run_document
from redrive.errors import JobNotFound
from redrive.runs.run_records import Counts, Run

_TONES: dict[str, Tone] = {"done": "good", "stopped": "bad", "cancelled": "warn", "paused": "warn"}


@command(
    "runs",
    "redrive runs",
    "redrive runs --limit 5",
    "redrive runs --json | jq '.data[] | select(.phase == \"live\") | .run'",
)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), metavar="N")
@click.pass_obj
def runs(face: Face, limit: int) -> None:
    """Show the bulk retries, newest first."""
    with face.reading() as desk:
        found = desk.runs.recent()[:limit]
        now = desk.store.now()
    heads = columns(
        "run:id",
        "phase:word",
        "jobs:number",
        "waiting:number",
        "working:number",
        "ok:number",
        "failed:number",
        "left:number",
        "created:time",
        "by",
        "name",
        "asked:text:extra",
    )
    rows: list[list[Cell]] = []
    for run in found:
        counts = run.counts or Counts()
        rows.append(
            [
                run.id,
                run.phase,
                run.total,
                counts.waiting,
                counts.working,
                counts.succeeded,
                counts.failed,
                counts.left,
                When(run.created, now),
                run.by,
                run.name or None,
                run.asked,
            ]
        )
    parts: list[Part] = [Table(heads, rows)] if rows else [Line("No runs yet.")]
    then = f"redrive run {found[0].id}" if found else "redrive groups"
    face.show(View([run_document(run) for run in found], parts), then=then)


@command(
    "run",
    "redrive run R12",
    "redrive run R12 --watch",
    "redrive run R12 pause --reason 'the API is down again'",
    "redrive run R12 cancel",
)
@click.argument("number", metavar="R12")
@click.argument(
    "action", required=False, type=click.Choice(["pause", "resume", "cancel"]), metavar="[ACTION]"
)
@click.option("--watch", "--wait", is_flag=True, help="Follow it to its end; Ctrl-C detaches.")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.pass_obj
def run(face: Face, number: str, action: str | None, *, watch: bool, reason: str) -> None:
    """Show how a bulk retry fares; ACTION is pause, resume or cancel.

    A paused run lets nothing more go. Cancelling ends it: what still waits stays as it was, what
    was let go goes on.
    """
    with face.acting(read_only=action is None) as desk:
        if action == "pause":
            found = desk.runs.pause(number, reason=reason)
        elif action == "resume":
            found = desk.runs.resume(number, reason=reason)
        elif action == "cancel":
            found = desk.runs.cancel(number, reason=reason)
        else:
            found = desk.runs.get(number)
        if watch:
            from redrive.cli._follow import follow  # noqa: PLC0415 - it shows runs by this module

            follow(face, desk, found)
        face.show(view_of(desk, found), then=_next(found))


def _next(run: Run) -> str:
    if run.phase == "paused":
        return f"redrive run {run.id} resume"
    return "redrive status" if run.is_over else f"redrive run {run.id} --watch"


def view_of(desk: Desk, run: Run) -> View:
    """Show one run: the outcome so far, what failed of what, what was left and why."""
    counts, now = run.counts or Counts(), desk.store.now()
    tone = "warn" if counts.failed and run.phase == "done" else _TONES.get(run.phase, "")
    waiting = waits.of_run(desk, run)
    parts: list[Part] = [
        Line(headline(run, counts), tone),
        *(Line(text, "warn") for text in waiting),
    ]
    parts.append(
        Facts(
            [
                ("run", run.id),
                ("phase", run.phase),
                ("why", run.why or None),
                ("jobs", run.total),
                ("waiting", counts.waiting),
                ("in work", counts.working),
                ("to be tried again", counts.failing),
                ("succeeded", counts.succeeded),
                ("failed again", counts.failed),
                ("same cause", counts.same),
                ("new cause", sum(counts.new.values())),
                ("closed by a person", counts.closed),
                ("left", counts.left),
                ("asked for", run.asked or None),
                ("how", how(run)),
                ("by", run.by),
                ("name", run.name or None),
                ("reason", run.reason or None),
                ("created", When(run.created, now)),
                ("ended", When(run.ended, now)),
            ]
        )
    )
    if counts.new:
        titles = {number: _title(desk, number) for number in counts.new}
        causes: list[list[Cell]] = [[f"G{g}", n, titles[g]] for g, n in counts.new.items()]
        parts.append(
            Table(columns("group:id", "jobs:number", "cause"), causes, "New causes", "new")
        )
    left: list[list[Cell]] = [[jobs, why] for why, jobs in left_of(run, counts).items()]
    if left:
        parts.append(Table(columns("jobs:number", "why"), left, "Left", "left"))
    return View({**run_document(run), "waits": waiting}, parts)


def _title(desk: Desk, number: int) -> str:
    with suppress(JobNotFound):  # its jobs may be purged
        return desk.groups.get(number).title
    return ""


def headline(run: Run, counts: Counts) -> str:
    """Return one sentence with the result of a run so far."""
    said = [f"{counts.succeeded:,} ok"]
    if counts.failed:
        new = ", ".join(f"{jobs:,} new in G{group}" for group, jobs in counts.new.items())
        which = f" ({counts.same:,} same cause{', ' if new else ''}{new})"
        said.append(f"{counts.failed:,} failed again{which}")
    for number, words in (
        (counts.closed, "closed by a person"),
        (counts.left + sum(run.skipped.values()), "left"),
        (counts.working, "in work"),
        (counts.waiting, "waiting"),
    ):
        if number:
            said.append(f"{number:,} {words}")
    why = f" ({run.why})" if run.why else ""
    return f"{run.id} {run.phase}{why}: {' · '.join(said)}"


def how(run: Run) -> str | None:
    """Return the canary, rate and stop rule of a run as text."""
    spec = run.spec
    parts = [
        f"canary {spec.canary}" if spec.canary else "",
        f"{spec.rate:g}/s" if spec.rate is not None else "",
        "ramp" if spec.ramp else "",
        f"stop on {spec.stop_on}" if spec.stop_on else "",
    ]
    return ", ".join(part for part in parts if part) or None
