"""Removing finished jobs for good: the one action that cannot be undone."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import click

from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, FAILED, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._face import Face, same_line
from redrive.cli._filters import Selection, explained, selection_of, with_filters
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.cli.transfer import chosen
from redrive.desk.desk import Desk
from redrive.desk.plans import version
from redrive.desk.selection import Filters
from redrive.jobs.job import TERMINAL, Job, State

SAMPLES = 5


@command(
    "purge",
    "redrive purge 'state:resolved age:>30d' --dry-run",
    "redrive purge G7 --state dead",
    "redrive purge --state completed --yes",
)
@with_filters
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_obj
def purge(face: Face, /, reason: str, *, dry_run: bool, yes: bool, **said: Any) -> None:
    """Remove finished jobs for good: completed, resolved or dead ones. Nothing undoes it.

    Pending and running jobs are never removed. `redrive cleanup` removes by age and policy.
    """
    selection = selection_of(said)
    if selection.is_empty:
        raise click.UsageError("say which jobs: ids, a group such as G7, or filters")
    with face.acting(read_only=dry_run) as desk:
        plan = _Plan(desk, selection)
        if not plan.ids and not plan.left:
            raise Stop("nothing_matched", "nothing matched", exits=NOTHING)
        if dry_run:
            then = same_line(without="--dry-run") if plan.ids else ""
            face.show(View({"dry_run": True, **plan.document()}, plan.parts()), then=then)
            return
        if plan.ids and not yes:
            _ask(face, plan)
        ids = plan.still_so(desk)
        removed = desk.jobs.purge(ids, target=selection.asked, reason=reason) if ids else 0
    data = {**plan.document(), "removed": removed, "skipped": plan.matched - removed}
    pairs: list[tuple[str, Cell]] = [
        ("matched", plan.matched),
        ("removed", removed),
        ("skipped", plan.matched - removed),
    ]
    face.show(View(data, [Facts(pairs)]), then="redrive log")
    if removed < len(plan.ids) or not removed:
        raise click.exceptions.Exit(PARTLY if removed else CONFLICT)


class _Plan:
    """The frozen set, and what of it must stay."""

    def __init__(self, desk: Desk, selection: Selection) -> None:
        self.ids: dict[str, object] = {}
        self.states: Counter[State] = Counter()
        self.left: Counter[str] = Counter()
        self.samples: list[list[Cell]] = []
        self._selection = selection
        live = {run.number for run in desk.runs.live()}
        with explained(selection):
            for job in chosen(desk.jobs.each, selection):
                if why := _must_stay(job, live):
                    self.left[why] += 1
                    continue
                self.ids[job.id] = version(job)
                self.states[job.state] += 1
                if len(self.samples) < SAMPLES:
                    self.samples.append([job.id, job.state, job.handler])

    def still_so(self, desk: Desk) -> list[str]:
        """Look again before it is done: what has changed since the preview is left alone."""
        filters = Filters(**(self._selection.filters or {}))
        filters.pop("older_than", None)  # jobs grow older while people think
        filters.pop("newer_than", None)
        jobs = chosen(desk.jobs.each, replace(self._selection, filters=filters))
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
        pairs: list[tuple[str, Cell]] = [("matched", self.matched), ("would remove", len(self.ids))]
        pairs += [(f"  {state}", number) for state, number in self.states.items()]
        parts: list[Part] = [Facts(pairs)]
        parts += [
            Line(f"{number:,} jobs stay, for they are not finished: {why}", "warn")
            for why, number in self.left.items()
        ]
        if self.samples:
            heads = columns("id:id", "state:word", "handler")
            parts.append(Table(heads, self.samples, "Some of them", "sample"))
        return parts


def _must_stay(job: Job, live: set[int]) -> str:
    """Return why a job cannot be removed: its state, or the run that would count it as succeeded."""
    if job.state not in TERMINAL:
        return job.state.value
    number = abs(job.run or 0)
    return f"R{number}" if number in live and job.state is not State.COMPLETED else ""


def _ask(face: Face, plan: _Plan) -> None:
    number = len(plan.ids)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        msg = f"{number} jobs would be removed for good and there is no terminal to ask on"
        raise Stop("needs_yes", msg, hint="add --yes, or look first with --dry-run", exits=USAGE)
    face.preview(View(None, plan.parts()))
    said = click.prompt(
        f"Type {number} to remove them for good", err=True, default="", show_default=False
    )
    if said.strip().replace(",", "") != str(number):
        raise Stop("declined", "nothing was changed", exits=FAILED)
