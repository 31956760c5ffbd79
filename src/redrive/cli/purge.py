"""Removing finished jobs permanently: the one action that cannot be undone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from redrive.cli._cli import Cli, same_line
from redrive.cli._command import command, option, reason_option, yes_option
from redrive.cli._confirm import confirm_number, need_terminal
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, Stop
from redrive.cli._filters import explained, selection_of, with_filters
from redrive.cli.output import Document, Facts, Field, Line, Part, Table, View, fields, plural
from redrive.desk.desk import Desk
from redrive.desk.plans import version
from redrive.desk.selection import Selection
from redrive.jobs.job import TERMINAL, Job, State

SAMPLES = 5


@command(
    "purge",
    "redrive purge 'state:resolved age:>30d' --dry-run",
    "redrive purge G7 --state dead",
    "redrive purge --state completed --yes",
    "redrive purge --older-than 30",
)
@with_filters
@option(
    "--older-than AGE",
    "Dead letters (or what is selected) older than this: 12h, 30d; a number is days.",
)
@reason_option
@option("--dry-run", "Only show what would be removed.")
@yes_option
@click.pass_obj
def purge(
    cli: Cli, /, reason: str, older_than: str | None, *, dry_run: bool, yes: bool, **options: Any
) -> None:
    """Remove completed, resolved or dead jobs permanently. It cannot be undone.

    Pending and running jobs are never removed. `redrive cleanup` removes by age and policy.
    """
    if older_than is not None:
        options = _older(options, older_than)
    selection = selection_of(options)
    if selection.is_empty:
        raise click.UsageError("name the jobs: ids, a group such as G7, or filters")
    with cli.acting(read_only=dry_run) as desk:
        plan = _Plan(desk, selection)
        if not plan.ids and not plan.left:
            raise Stop("nothing_matched", "nothing matched", exits=NOTHING)
        if dry_run:
            then = same_line(without="--dry-run") if plan.ids else ""
            cli.show(View({"dry_run": True, **plan.document()}, plan.parts()), then=then)
            return
        if plan.ids and not yes:
            _ask(cli, plan)
        ids = plan.unchanged(desk)
        removed = desk.jobs.purge(ids, target=selection.asked, reason=reason) if ids else 0
        kept = sum(count.jobs for count in desk.jobs.counts() if count.state is State.DEAD)
    data = {**plan.document(), "removed": removed, "skipped": plan.matched - removed}
    data["dead_letters_kept"] = kept
    shown = fields("matched removed skipped dead_letters_kept")
    cli.show(View(data, [Facts(shown, data)]), then="redrive log")
    if removed < len(plan.ids) or not removed:
        raise click.exceptions.Exit(PARTLY if removed else CONFLICT)


def _older(options: dict[str, Any], age: str) -> dict[str, Any]:
    """Return the options with an age; it means dead letters where nothing else is named."""
    others = (value for name, value in options.items() if name != "ages")
    states = options["states"] if any(others) else ("dead",)
    days = f"{age}d" if age.isascii() and age.isdigit() else age
    return {**options, "ages": (*options["ages"], f">{days}"), "states": states}


class _Plan:
    """The frozen set of jobs, and those of it that must stay."""

    def __init__(self, desk: Desk, selection: Selection) -> None:
        self.ids: dict[str, object] = {}
        self.states: Counter[State] = Counter()
        self.left: Counter[str] = Counter()
        self.samples: list[Document] = []
        self._selection = selection
        live = {run.number for run in desk.runs.live()}
        with explained(selection):
            for job in desk.jobs.each(selection):
                if why := _must_stay(job, live):
                    self.left[why] += 1
                    continue
                self.ids[job.id] = version(job)
                self.states[job.state] += 1
                if len(self.samples) < SAMPLES:
                    self.samples.append({"id": job.id, "state": job.state, "handler": job.handler})

    def unchanged(self, desk: Desk) -> list[str]:
        """Return the ids of the jobs that have not changed since the preview."""
        jobs = desk.jobs.each(self._selection.without_ages())
        return [job.id for job in jobs if self.ids.get(job.id) == version(job)]

    @property
    def matched(self) -> int:
        return len(self.ids) + self.left.total()

    def document(self) -> dict[str, object]:
        return {
            "matched": self.matched,
            "eligible": len(self.ids),
            "states": {state.value: number for state, number in self.states.items()},
            "ineligible": dict(self.left),
        }

    def parts(self) -> list[Part]:
        states = [Field(f"states.{state.value}", f"  {state.value}") for state in self.states]
        unfinished = [
            Line(f"{plural(number, 'job')} not removed, because not finished: {why}", "warn")
            for why, number in self.left.items()
        ]
        return [
            Facts([*fields("matched eligible=would_remove"), *states], self.document()),
            *unfinished,
            Table(fields("id:id state:word handler"), self.samples, "Some of them", "sample"),
        ]


def _ask(cli: Cli, plan: _Plan) -> None:
    need_terminal(f"removing {plural(len(plan.ids), 'job')} permanently")
    cli.preview(View(None, plan.parts()))
    confirm_number(len(plan.ids), "remove them permanently")


def _must_stay(job: Job, live: set[int]) -> str:
    """Return why a job cannot be removed: its state, or the run that would count it as succeeded."""
    if job.state not in TERMINAL:
        return job.state.value
    number = abs(job.run or 0)
    return f"R{number}" if number in live and job.state is not State.COMPLETED else ""
