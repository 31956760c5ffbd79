"""A plan: which jobs exactly an action would take, and why not the others.

The plan freezes the set. It is carried out on these jobs and no others; those that have changed since
people saw the plan are left alone and listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from redrive.desk import search, shapes
from redrive.desk.documents import job_document
from redrive.desk.selection import USUAL, Filters, Selection, Target, read
from redrive.errors import Refused, UsageError
from redrive.jobs import transitions
from redrive.jobs.clock import iso
from redrive.jobs.job import Job, State
from redrive.payloads.masking import mask_text

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.jobs.transitions import Verb
    from redrive.runs.run_records import Spec

T = TypeVar("T")

SAMPLES = 5
MISSING = "there is no such job"

Left = list[tuple[str, str]]
"""Jobs that are left out: the id of each, and why."""


class Version(NamedTuple):
    """By what a plan sees that a job is still as it was."""

    state: State
    updated: float
    lease: int
    edits: int


@dataclass(slots=True)
class Plan:
    """A frozen set of jobs for one action."""

    verb: Verb
    asked: str
    """The selection as it was typed, masked."""
    selection: Selection
    eligible: dict[str, Version] = field(default_factory=dict[str, Version])
    ineligible: Left = field(default_factory=Left)
    handlers: Counter[str] = field(default_factory=Counter[str])
    lanes: set[str] = field(default_factory=set[str])
    runs: Counter[int] = field(default_factory=Counter[int])
    """How many of the jobs each live run has."""
    samples: list[Job] = field(default_factory=list[Job])
    """A few of the jobs, masked."""
    oldest: float | None = None
    """When the longest unchanged of the jobs changed."""
    waits: list[str] = field(default_factory=list[str])
    """What the jobs would wait for."""
    spec: Spec | None = None
    """How the run would be driven, if it is to be one."""

    @property
    def matched(self) -> int:
        """How many jobs the selection means."""
        return len(self.eligible) + len(self.ineligible)

    @property
    def is_void(self) -> bool:
        """True if the selection means no job at all."""
        return not self.eligible and all(why == MISSING for _, why in self.ineligible)

    @property
    def is_single(self) -> bool:
        """True if it is for one job that was named by its id."""
        return len(self.selection.ids) == 1 and self.matched == 1

    @property
    def whole_groups(self) -> list[int]:
        """Groups whose jobs are all meant, so that the group itself is marked as resolved or open."""
        narrowed = self.selection.filters or self.selection.terms
        marks = self.verb in {"resolve", "reopen"} and not narrowed
        return self.selection.groups if marks else []

    def take(self, job: Job) -> None:
        """Add a job that the action can take."""
        self.eligible[job.id] = version(job)
        self.handlers[job.handler] += 1
        self.lanes.add(job.lane)
        self.oldest = job.updated if self.oldest is None else min(self.oldest, job.updated)

    def document(self) -> shapes.Plan:
        """Return what would be done, for machines."""
        return {
            "verb": self.verb,
            "matched": self.matched,
            "eligible": len(self.eligible),
            "handlers": dict(self.handlers.most_common()),
            "oldest": iso(self.oldest),
            "waits": self.waits,
            "samples": [job_document(job) for job in self.samples],
        }


def make(
    desk: Desk,
    verb: Verb,
    targets: Sequence[Target],
    *,
    asked: str,
    as_run: bool = False,
    most: int | None = None,
) -> Plan:
    """Freeze the jobs that a selection means now; nothing is changed.

    A run takes no job of another run. UsageError if the selection means more than `most` jobs.
    """
    plan = Plan(verb, mask_text(asked), read(targets, Filters(), USUAL[verb]))
    meant = search.meant(desk.store, verb, plan.selection)
    jobs = [light(job) for job in islice(meant, None if most is None else most + 1)]
    if most is not None and len(jobs) > most:
        msg = f"more than {most:,} jobs match; narrow the selection, or use the command line"
        raise UsageError(msg)
    held = desk.runs.holding(job for job in jobs if isinstance(job, Job)) if as_run else {}
    plan.runs.update(held.values())
    for job in jobs:
        if isinstance(job, str):
            plan.ineligible.append((job, MISSING))
        elif job.id in held:
            plan.ineligible.append((job.id, f"is part of R{held[job.id]}, which has not ended"))
        elif (why := _refusal(job, verb)) is not None:
            plan.ineligible.append((job.id, why))
        else:
            plan.take(job)
    plan.samples = desk.jobs.with_history(list(islice(plan.eligible, SAMPLES)))
    return plan


def recheck(desk: Desk, plan: Plan) -> tuple[list[Job], Left]:
    """Return the jobs of a plan that are still as they were, and those that changed since.

    What is new stays out.
    """
    now = search.meant(desk.store, plan.verb, plan.selection.usual(USUAL[plan.verb]).without_ages())
    current = {
        job.id: light(job) for job in now if isinstance(job, Job) and job.id in plan.eligible
    }
    same = [job for job in current.values() if version(job) == plan.eligible[job.id]]
    known = {job.id for job in same}
    changed = [
        (job_id, f"changed since the plan was made, {_now(current.get(job_id))}")
        for job_id in plan.eligible
        if job_id not in known
    ]
    return same, changed


def version(job: Job) -> Version:
    """Return what changes with a job."""
    return Version(job.state, job.updated, job.lease, job.edits)


def _now(job: Job | None) -> str:
    return "no longer in the selection" if job is None else f"now {job.state}"


def _refusal(job: Job, verb: Verb) -> str | None:
    try:
        transitions.action_changes(job, verb, actor="", reason="", now=job.updated)
    except Refused as refused:
        return str(refused)
    return None


def light(job: T) -> T:
    """Drop what takes memory: a plan may hold a hundred thousand jobs."""
    return replace(job, payload="{}", original=None, history=()) if isinstance(job, Job) else job
