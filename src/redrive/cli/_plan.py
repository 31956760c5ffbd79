"""A deed before it is done: which jobs exactly, which of them it can take, and why not the others.

The plan freezes the set. What is done later is done to these jobs and no others; those that have
changed since people saw the plan are left alone and listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from redrive.app import USUAL, Filters, Redrive
from redrive.cli._filters import Selection
from redrive.errors import Refused
from redrive.jobs import transitions
from redrive.jobs.job import Job, State
from redrive.jobs.transitions import Verb
from redrive.payloads.masked_jobs import masked

SAMPLES = 5
MISSING = "there is no such job"


@dataclass(frozen=True, slots=True)
class Plan:
    """A frozen set of jobs for one verb."""

    verb: Verb
    selection: Selection
    eligible: list[Job]
    ineligible: list[tuple[str, str]]
    """Ids and why."""
    runs: Counter[int] = field(default_factory=Counter[int])
    """How many of these each run has that is not over."""
    waits: list[str] = field(default_factory=list[str])
    """What workers are asked to drive would wait for."""

    @property
    def matched(self) -> int:
        """How many jobs the selection means."""
        return len(self.eligible) + len(self.ineligible)

    @property
    def is_void(self) -> bool:
        """Whether there is no job at all to speak of."""
        return not self.eligible and all(why == MISSING for _, why in self.ineligible)

    @property
    def handlers(self) -> Counter[str]:
        """How many jobs of each handler would be taken."""
        return Counter(job.handler for job in self.eligible)

    @property
    def samples(self) -> list[Job]:
        """Give a few of the jobs."""
        return self.eligible[:SAMPLES]

    @property
    def oldest(self) -> float | None:
        """Give the time of the longest unchanged of them."""
        return min((job.updated for job in self.eligible), default=None)

    @property
    def is_single(self) -> bool:
        """Whether it is about one job that was named by its id."""
        return len(self.selection.ids) == 1 and self.matched == 1


def make_plan(app: Redrive, verb: Verb, selection: Selection, *, as_run: bool = False) -> Plan:
    """Freeze the set and sort it by what the verb can take; a run takes nothing of another's."""
    eligible: list[Job] = []
    ineligible: list[tuple[str, str]] = []
    found = list(_jobs(app, verb, selection))
    jobs = [job for job in found if isinstance(job, Job)]
    held = app.held_by_runs(jobs) if as_run else {}
    for job in found:
        if isinstance(job, str):
            ineligible.append((job, MISSING))
            continue
        why = _refusal(job, verb)
        if job.id in held:
            why = f"is part of R{held[job.id]}, which is not over"
        if why is None:
            eligible.append(job)
        else:
            ineligible.append((job.id, why))
    return Plan(verb, selection, eligible, ineligible, Counter(held.values()))


def ageless(selection: Selection) -> Selection:
    """Give a selection to look again by: jobs grow older while people think."""
    filters = Filters(**(selection.filters or {}))
    filters.pop("older_than", None)
    filters.pop("newer_than", None)
    return replace(selection, filters=filters)


def still_so(app: Redrive, plan: Plan) -> Plan:
    """Look again before acting: what has changed since is left alone, what is new stays out."""
    looked = _jobs(app, plan.verb, ageless(plan.selection))
    now = {job.id: job for job in looked if not isinstance(job, str)}
    eligible: list[Job] = []
    changed: list[tuple[str, str]] = []
    for job in plan.eligible:
        found = now.get(job.id)
        if found is not None and mark(found) == mark(job):
            eligible.append(job)
        else:
            changed.append((job.id, f"changed since the preview, {_now_words(found)}"))
    return replace(plan, eligible=eligible, ineligible=[*plan.ineligible, *changed])


def _jobs(app: Redrive, verb: Verb, selection: Selection) -> Iterator[Job | str]:
    """Give each job that is meant, once; an id that nobody has comes as it was written."""
    targets = [*selection.ids, *(f"G{number}" for number in selection.groups)]
    filters = selection.filters or {}
    if not targets and not filters:
        filters = Filters(state=USUAL[verb])
    for found in app.select(verb, *targets, reveal=False, **filters):
        yield found if isinstance(found, str) else _light(masked(found))


def _light(job: Job) -> Job:
    """Leave out what takes memory: a plan may hold a hundred thousand jobs."""
    return replace(job, payload="{}", original=None, history=())


def _refusal(job: Job, verb: Verb) -> str | None:
    try:
        transitions.moved(job, verb, actor="", reason="", now=job.updated)
    except Refused as refused:
        return str(refused)
    return None


def mark(job: Job) -> tuple[State, float, int, int]:
    """Give what changes with a job."""
    return job.state, job.updated, job.lease, job.edits


def _now_words(job: Job | None) -> str:
    return "no longer what was asked for" if job is None else f"now {job.state}"
