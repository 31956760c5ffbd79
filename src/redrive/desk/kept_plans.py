"""Plans kept in the store between looking and acting, so that any server can carry one out, once.

`plans` freezes the jobs. Here a plan is stored, read again, and carried out on those of its jobs that are
still as they were. A note decides by compare-and-set which request does that; all others get its result.
"""

from __future__ import annotations

import json
import secrets
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from redrive.desk import plans, shapes, waits
from redrive.desk.documents import job_document
from redrive.desk.plans import Left, Plan
from redrive.desk.selectors import no_job
from redrive.errors import JobNotFound, RedriveError, Refused, StoreError, UsageError
from redrive.jobs.clock import iso
from redrive.jobs.job import Job
from redrive.jobs.transitions import Verb
from redrive.runs.run_records import Spec
from redrive.stores.contract import Query
from redrive.stores.note_verbs import note_named
from redrive.stores.outbox_verbs import MOST_PLANNED, PLAN_CHUNK, PLAN_LASTS, PlannedJob, StoredPlan

if TYPE_CHECKING:
    from redrive.desk.desk import Desk

LISTED = 100  # how many of the jobs that are left out are named; all are counted
PATIENCE = 10.0  # seconds for which a request waits for another that carries out the same plan
_NOTE = "plan:"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPlan:
    """A plan as it is stored: which jobs an action would take is in the store's chunks."""

    id: str
    verb: Verb
    asked: str
    eligible: int
    handlers: dict[str, int]
    oldest: float | None
    lanes: list[str]
    samples: list[str]
    left_out: shapes.LeftOut
    groups: list[int]
    """Groups of which all jobs are meant: these are marked as resolved or open."""
    frozen: float
    """When the jobs were looked up."""
    expires: float

    @property
    def matched(self) -> int:
        """How many jobs the selection means."""
        return self.eligible + self.left_out["total"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a plan is to be carried out: by whom, why, and for a retry as which run."""

    actor: str
    confirm: int
    reason: str = ""
    name: str = ""
    spec: Spec = field(default_factory=Spec)


def make(desk: Desk, verb: Verb, asked: str) -> KeptPlan:
    """Freeze the jobs that the words mean now and store the plan; no job is changed.

    JobNotFound if none of its ids is known.
    """
    if not asked.strip():
        msg = "q must name the jobs: ids, a group such as G7, or filters such as state:dead"
        raise UsageError(msg)
    frozen = desk.store.now()
    plan = plans.make(desk, verb, [asked], asked=asked, as_run=verb == "retry", most=MOST_PLANNED)
    if plan.ineligible and plan.is_void:
        raise JobNotFound(no_job(plan.ineligible[0][0]))
    stored = StoredPlan(id=secrets.token_urlsafe(16), header=_header(plan, frozen))
    return _kept(desk.store.put_plan(stored, _chunks(plan)))


def get(desk: Desk, plan_id: str) -> KeptPlan:
    """Return a plan; JobNotFound if there is none, or it has expired."""
    stored = desk.store.plan(plan_id)
    if stored is None:
        raise JobNotFound("no such plan: it has expired, or there never was one; make it again")
    return _kept(stored)


def document(desk: Desk, plan: KeptPlan) -> shapes.KeptPlan:
    """Return what a plan would do, what not and why, and its result once it was carried out."""
    return {
        "plan": plan.id,
        "verb": plan.verb,
        "asked": plan.asked,
        "matched": plan.matched,
        "eligible": plan.eligible,
        "handlers": plan.handlers,
        "oldest": iso(plan.oldest),
        "waits": waits_of(desk, plan),
        "samples": [job_document(job) for job in samples_of(desk, plan)],
        "ineligible": plan.left_out,
        "seconds_left": max(0.0, plan.expires - desk.store.now()),
        "result": result_of(desk, plan),
    }


def samples_of(desk: Desk, plan: KeptPlan) -> list[Job]:
    """Return a few of the jobs of a plan as they are now, masked."""
    return desk.jobs.with_history(plan.samples)


def result_of(desk: Desk, plan: KeptPlan) -> shapes.Done | None:
    """Return what carrying out a plan did; None if nobody has, or it is not done yet."""
    note = note_named(desk.store, _NOTE + plan.id)
    return cast("shapes.Done | None", note.fields.get("result")) if note else None


def carry_out(desk: Desk, plan: KeptPlan, order: Order) -> shapes.Done:
    """Do what a plan says to those of its jobs that are still as they were; once.

    A repeat returns the same result and changes nothing.
    """
    name = _NOTE + plan.id
    if (done := result_of(desk, plan)) is not None:
        return done
    _agree(plan, order)
    lasts = 2 * PLAN_LASTS
    begun = json.dumps({"by": order.actor})
    if desk.store.note(name, begun, expected=0, expires_in=lasts, durable=True) is None:
        return _done_by_another(desk, plan)
    try:
        done = _carried_out(desk, plan, order)
    except RedriveError as error:
        if not isinstance(error, StoreError):  # refused before anything was changed
            desk.store.note(name, None, durable=True)
        raise
    desk.store.note(name, json.dumps({"result": done}), expires_in=lasts, durable=True)
    return done


def _done_by_another(desk: Desk, plan: KeptPlan) -> shapes.Done:
    """Wait for the result of the request that carries the plan out."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if (done := result_of(desk, plan)) is not None:
            return done
        time.sleep(0.05)
    msg = "the plan is being carried out by another request; `redrive log` shows how it ended"
    raise Refused(msg)


def _agree(plan: KeptPlan, order: Order) -> None:
    if order.confirm != plan.eligible:
        msg = f"confirm must be {plan.eligible}, the number of eligible jobs; found {order.confirm}"
        raise Refused(f"{msg}; nothing was changed")
    if not plan.eligible:
        raise Refused(f"none of the {plan.matched} jobs is eligible; nothing was changed")
    if plan.verb == "discard" and not order.reason.strip():
        raise UsageError("discard needs a reason: write why these jobs are never to be run")
    if plan.verb != "retry" and (order.spec != Spec() or order.name):
        raise UsageError("name, canary, rate, ramp and stop_on are only for the verb retry: a run")


def _carried_out(desk: Desk, plan: KeptPlan, order: Order) -> shapes.Done:
    same, changed = _recheck(desk, plan)
    run, done = None, 0
    if plan.verb == "retry":
        started = desk.runs.freeze(
            same,
            order.spec,
            asked=plan.asked,
            name=order.name,
            reason=order.reason,
            actor=order.actor,
            skipped=[*_pairs(plan.left_out), *changed],
        )
        run, done = started.id, started.total
    else:
        ids = [job.id for job in same]
        moved = desk.jobs.move(
            plan.verb, ids, asked=plan.asked, reason=order.reason, actor=order.actor
        )
        done, changed = len(moved.done), [*changed, *moved.skipped]
        for group in plan.groups if done else ():
            resolved = plan.verb == "resolve"
            desk.groups.mark(
                group, resolved=resolved, reason=order.reason, actor=order.actor, at=plan.frozen
            )
    return {
        "plan": plan.id,
        "verb": plan.verb,
        "planned": plan.eligible,
        "done": done,
        "skipped": left_document(changed),
        "run": run,
    }


def _recheck(desk: Desk, plan: KeptPlan) -> tuple[list[Job], Left]:
    """Return the jobs of a plan that are still as they were, and those that changed since."""
    same: list[Job] = []
    changed: Left = []
    for chunk in _stored_chunks(desk, plan.id):
        ids = tuple(planned.id for planned in chunk)
        jobs = {job.id: job for job in desk.store.find(Query(ids=ids, limit=len(ids))).jobs}
        for planned in chunk:
            job = jobs.get(planned.id)
            if job is not None and planned == _planned(job):
                same.append(plans.light(job))
            else:
                now = f"now {job.state}" if job else "now purged"
                changed.append((planned.id, f"changed since the plan was made, {now}"))
    return same, changed


def _stored_chunks(desk: Desk, plan_id: str) -> Iterator[list[PlannedJob]]:
    number = 0
    while chunk := desk.store.plan_chunk(plan_id, number):
        yield chunk
        number += 1


def _planned(job: Job) -> PlannedJob:
    return PlannedJob(job.id, job.edits, job.state, job.updated)


def waits_of(desk: Desk, plan: KeptPlan) -> list[str]:
    """Return what the jobs of a plan would wait for now."""
    return waits.of_lanes(desk, plan.lanes) if plan.verb == "retry" else []


def _chunks(plan: Plan) -> Iterator[list[PlannedJob]]:
    jobs = [
        PlannedJob(job_id, version.edits, version.state, version.updated)
        for job_id, version in plan.eligible.items()
    ]
    return (jobs[at : at + PLAN_CHUNK] for at in range(0, len(jobs), PLAN_CHUNK))


def _header(plan: Plan, frozen: float) -> dict[str, object]:
    return {
        "verb": plan.verb,
        "asked": plan.asked,
        "eligible": len(plan.eligible),
        "handlers": dict(plan.handlers.most_common()),
        "oldest": plan.oldest,
        "lanes": sorted(plan.lanes),
        "samples": [job.id for job in plan.samples],
        "left_out": left_document(plan.ineligible),
        "groups": plan.whole_groups,
        "frozen": frozen,
    }


def _kept(stored: StoredPlan) -> KeptPlan:
    header = cast("dict[str, Any]", dict(stored.header))
    return KeptPlan(id=stored.id, expires=stored.expires, **header)


def left_document(pairs: Sequence[tuple[str, str]]) -> shapes.LeftOut:
    """Count the jobs that are left out by reason, and list some."""
    return {
        "total": len(pairs),
        "reasons": dict(Counter(why for _, why in pairs)),
        "samples": [{"id": job_id, "why": why} for job_id, why in pairs[:LISTED]],
    }


def _pairs(left: shapes.LeftOut) -> Left:
    """Return the jobs that were left out, each with its reason; those that were not listed without id."""
    listed = [(sample["id"], sample["why"]) for sample in left["samples"]]
    rest = Counter(left["reasons"]) - Counter(why for _, why in listed)
    return [*listed, *(("", why) for why in rest.elements())]
