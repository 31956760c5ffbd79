"""Deeds to many jobs: first a plan that freezes which, then the same number said again, then the deed.

Plans are kept in memory, for a while and for one server: what is lost with it is only the looking.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple, TypeVar

from redrive.app import Redrive
from redrive.desk import search, selection
from redrive.desk.documents import job_document
from redrive.desk.selection import Filters, Wanted
from redrive.errors import JobNotFound, Refused, UsageError
from redrive.jobs import transitions
from redrive.jobs.clock import iso
from redrive.jobs.job import Job, State
from redrive.jobs.transitions import Verb
from redrive.payloads.masked_jobs import masked
from redrive.runs import run_records
from redrive.web.call import Document

T = TypeVar("T")

VERBS: tuple[Verb, ...] = ("retry", "resolve", "discard", "reopen")
LASTS = 600.0
"""Seconds for which a plan holds."""
MOST = 100_000
"""Jobs in one plan, and in all plans together that are kept."""
SAMPLES = 5
LISTED = 100
"""How many of the jobs that are left are named; all are counted."""
MISSING = "there is no such job"
_ONLY_RUNS = ("canary", "rate", "ramp", "stop_on", "name")


class _Mark(NamedTuple):
    """By what we see that a job is still as it was."""

    state: State
    updated: float
    lease: int
    edits: int


@dataclass(slots=True)
class Plan:
    """A frozen set of jobs for one verb."""

    verb: Verb
    asked: str
    made: float
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    eligible: dict[str, _Mark] = field(default_factory=dict[str, _Mark])
    left: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    handlers: Counter[str] = field(default_factory=Counter[str])
    samples: list[Document] = field(default_factory=list[Document])
    oldest: float | None = None
    result: Document | None = None
    """What came of it, once it is carried out: a repeat gives the same answer."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, job: Job) -> None:
        """Freeze one job."""
        self.eligible[job.id] = _mark(job)
        self.handlers[job.handler] += 1
        self.oldest = job.updated if self.oldest is None else min(self.oldest, job.updated)

    def document(self) -> Document:
        """Say what would be done, and what not and why."""
        return {
            "plan": self.id,
            "verb": self.verb,
            "asked": self.asked,
            "matched": len(self.eligible) + len(self.left),
            "eligible": len(self.eligible),
            "handlers": dict(self.handlers.most_common()),
            "oldest": iso(self.oldest),
            "samples": self.samples,
            "ineligible": _left(self.left),
            "seconds_left": max(0.0, self.made + LASTS - time.monotonic()),
        }


class Plans:
    """The plans that were made lately."""

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}
        self._lock = threading.Lock()

    def make(self, app: Redrive, verb: Verb, asked: str) -> Plan:
        """Freeze the jobs that the words mean now; nothing is changed."""
        plan = Plan(verb, asked, time.monotonic())
        found = list(map(_light, islice(_meant(app, verb, _wanted(verb, asked)), MOST + 1)))
        if len(found) > MOST:
            msg = f"more than {MOST:,} jobs match; say it more narrowly, or use the command line"
            raise UsageError(msg)
        held = app.held_by_runs(job for job in found if isinstance(job, Job))
        for job in found:
            if isinstance(job, str):
                plan.left.append((job, MISSING))
            elif verb == "retry" and job.id in held:
                plan.left.append((job.id, f"is part of R{held[job.id]}"))
            elif (why := _refusal(job, verb)) is not None:
                plan.left.append((job.id, why))
            else:
                plan.take(job)
        plan.samples = [
            job_document(masked(app.get(one))) for one in islice(plan.eligible, SAMPLES)
        ]
        with self._lock:
            self._plans[plan.id] = plan
            self._forget()
        return plan

    def carry_out(self, app: Redrive, name: str, actor: str, said: Document) -> Document:
        """Do what a plan says to those of its jobs that are still as they were; once."""
        with self._lock:
            self._forget()
            plan = self._plans.get(name)
        if plan is None:
            msg = "no such plan: it was forgotten, or made by another server; make it again"
            raise JobNotFound(msg)
        with plan.lock:
            if plan.result is None:
                _agree(plan, said)
                plan.result = _carry_out(app, plan, actor, said)
            return plan.result

    def _forget(self) -> None:
        """Forget what is too old, and the oldest of what is too much."""
        now, kept = time.monotonic(), 0
        for plan in reversed(list(self._plans.values())):
            kept += len(plan.eligible) + len(plan.left) + 1
            if now - plan.made > LASTS or (kept > MOST and plan is not self._newest):
                del self._plans[plan.id]

    @property
    def _newest(self) -> Plan:
        return next(reversed(self._plans.values()))


def _agree(plan: Plan, said: Document) -> None:
    if said["confirm"] != len(plan.eligible):
        msg = f"the plan is for {len(plan.eligible)} jobs and confirm says {said['confirm']}"
        raise Refused(f"{msg}; nothing was changed")
    if not plan.eligible:
        msg = f"none of the {len(plan.left)} jobs can be taken; nothing was changed"
        raise Refused(msg)
    if plan.verb != "retry" and (wrong := [name for name in _ONLY_RUNS if name in said]):
        msg = f"{', '.join(wrong)}: only a retry is driven as a run"
        raise UsageError(msg)


def _carry_out(app: Redrive, plan: Plan, actor: str, said: Document) -> Document:
    same, changed = _still_so(app, plan)
    reason, run, done = said.get("reason", ""), None, 0
    if plan.verb == "retry":
        spec = run_records.spec_of(
            canary=said.get("canary", 0),
            rate=said.get("rate"),
            ramp=said.get("ramp", False),
            stop_on=said.get("stop_on", ""),
        )
        skipped = [*plan.left, *changed]
        name = said.get("name", "")
        begun = app.start_run(
            same, spec, asked=plan.asked, name=name, reason=reason, actor=actor, skipped=skipped
        )
        run, done = begun.id, begun.total
    else:
        ids = [job.id for job in same]
        moved = app.move(plan.verb, ids, asked=plan.asked, reason=reason, actor=actor)
        done, changed = len(moved.done), [*changed, *moved.skipped]
    return {
        "plan": plan.id,
        "verb": plan.verb,
        "planned": len(plan.eligible),
        "done": done,
        "skipped": _left(changed),
        "run": run,
    }


def _still_so(app: Redrive, plan: Plan) -> tuple[list[Job], list[tuple[str, str]]]:
    """Look again: what has changed since is left alone, what is new stays out.

    Ages are not asked again: jobs grow older while people think.
    """
    wanted = _wanted(plan.verb, plan.asked)
    wanted.filters.pop("older_than", None)
    wanted.filters.pop("newer_than", None)
    same = [
        _light(job)
        for job in _meant(app, plan.verb, wanted)
        if isinstance(job, Job) and plan.eligible.get(job.id) == _mark(job)
    ]
    known = {job.id for job in same}
    why = "changed since the plan was made"
    return same, [(one, why) for one in plan.eligible if one not in known]


def _wanted(verb: Verb, asked: str) -> Wanted:
    """Read the words; without a state they mean those that the verb is for."""
    wanted = selection.read([asked], Filters(), selection.USUAL[verb], reveal=False)
    if wanted.is_empty:
        msg = "q must say which jobs: ids, a group such as G7, or filters such as state:dead"
        raise UsageError(msg)
    if not wanted.ids:
        wanted.filters.setdefault("state", selection.USUAL[verb])
    return wanted


def _meant(app: Redrive, verb: Verb, wanted: Wanted) -> Iterator[Job | str]:
    """Give the jobs, page by page."""
    groups = [f"G{number}" for number in wanted.groups]
    words = [*wanted.ids, *groups, *(term.raw for term in wanted.terms)]
    return search.meant(app.store, verb, words, wanted.filters, reveal=False)


def _light(job: T) -> T:
    """Leave out what takes memory: a plan may be for a hundred thousand jobs."""
    return replace(job, payload="{}", original=None) if isinstance(job, Job) else job


def _refusal(job: Job, verb: Verb) -> str | None:
    try:
        transitions.moved(job, verb, actor="", reason="", now=job.updated)
    except Refused as refused:
        return str(refused)
    return None


def _mark(job: Job) -> _Mark:
    return _Mark(job.state, job.updated, job.lease, job.edits)


def _left(pairs: Sequence[tuple[str, str]]) -> Document:
    """Count jobs that are left by why, and name some."""
    return {
        "total": len(pairs),
        "reasons": dict(Counter(why for _, why in pairs)),
        "samples": [{"id": one, "why": why} for one, why in pairs[:LISTED]],
    }
