"""Plans that the server keeps: first a plan that freezes which jobs, then it is carried out once.

They are kept in memory, for a while and for one server.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from redrive.desk import plans
from redrive.desk.desk import Desk
from redrive.desk.plans import Plan
from redrive.desk.selectors import no_job
from redrive.errors import JobNotFound, Refused, UsageError
from redrive.jobs.transitions import Verb
from redrive.runs import rules
from redrive.web import messages
from redrive.web.messages import CarryOut

LASTS = 600.0
"""Seconds for which a plan holds."""
MOST = 100_000
"""Jobs in one plan, and in all plans together that are kept."""
LISTED = 100
"""How many of the jobs that are left are named; all are counted."""
_ONLY_RUNS = ("canary", "rate", "ramp", "stop_on", "name")


@dataclass(slots=True)
class Kept:
    """A plan that was made, and its result once it is carried out."""

    plan: Plan
    made: float
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    result: messages.Done | None = None
    """A repeat returns the same."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def document(self) -> messages.Plan:
        """Return what would be done, and what not and why."""
        return {
            **self.plan.document(),
            "plan": self.id,
            "asked": self.plan.asked,
            "ineligible": _left(self.plan.ineligible),
            "seconds_left": max(0.0, self.made + LASTS - time.monotonic()),
        }


class Plans:
    """The plans that were made lately."""

    def __init__(self) -> None:
        self._plans: dict[str, Kept] = {}
        self._lock = threading.Lock()

    def make(self, desk: Desk, verb: Verb, asked: str) -> Kept:
        """Freeze the jobs that the words mean now; JobNotFound if none of the ids is known."""
        if not asked.strip():
            msg = "q must name the jobs: ids, a group such as G7, or filters such as state:dead"
            raise UsageError(msg)
        as_run = verb == "retry"
        plan = plans.make(desk, verb, [asked], asked=asked, as_run=as_run, most=MOST)
        if plan.ineligible and plan.is_void:
            raise JobNotFound(no_job(plan.ineligible[0][0]))
        kept = Kept(plan, time.monotonic())
        with self._lock:
            self._plans[kept.id] = kept
            self._forget()
        return kept

    def carry_out(self, desk: Desk, name: str, actor: str, body: CarryOut) -> messages.Done:
        """Do what a plan says to those of its jobs that are still as they were; once."""
        with self._lock:
            self._forget()
            kept = self._plans.get(name)
        if kept is None:
            msg = "no such plan: it has expired, or another server made it; make it again"
            raise JobNotFound(msg)
        with kept.lock:
            if kept.result is None:
                _agree(kept.plan, body)
                kept.result = _carry_out(desk, kept, actor, body)
            return kept.result

    def _forget(self) -> None:
        """Forget what is too old, and the oldest of what is too much."""
        now, kept = time.monotonic(), 0
        newest = next(reversed(self._plans.values()), None)
        for plan in reversed(list(self._plans.values())):
            kept += plan.plan.matched + 1
            if now - plan.made > LASTS or (kept > MOST and plan is not newest):
                del self._plans[plan.id]


def _agree(plan: Plan, body: CarryOut) -> None:
    if body.confirm != len(plan.eligible):
        msg = f"confirm must be {len(plan.eligible)}, the number of eligible jobs; found {body.confirm}"
        raise Refused(f"{msg}; nothing was changed")
    if not plan.eligible:
        msg = f"none of the {len(plan.ineligible)} jobs is eligible; nothing was changed"
        raise Refused(msg)
    if plan.verb != "retry" and (wrong := [name for name in _ONLY_RUNS if getattr(body, name)]):
        msg = f"{', '.join(wrong)}: only for the verb retry, which becomes a run"
        raise UsageError(msg)


def _carry_out(desk: Desk, kept: Kept, actor: str, body: CarryOut) -> messages.Done:
    plan = kept.plan
    same, changed = plans.recheck(desk, plan)
    run, done = None, 0
    if plan.verb == "retry":
        spec = rules.spec_of(
            canary=body.canary, rate=body.rate or None, ramp=body.ramp, stop_on=body.stop_on
        )
        skipped = [*plan.ineligible, *changed]
        started = desk.runs.freeze(
            same,
            spec,
            asked=plan.asked,
            name=body.name,
            reason=body.reason,
            actor=actor,
            skipped=skipped,
        )
        run, done = started.id, started.total
    else:
        ids = [job.id for job in same]
        moved = desk.jobs.move(plan.verb, ids, asked=plan.asked, reason=body.reason, actor=actor)
        done, changed = len(moved.done), [*changed, *moved.skipped]
    return {
        "plan": kept.id,
        "verb": plan.verb,
        "planned": len(plan.eligible),
        "done": done,
        "skipped": _left(changed),
        "run": run,
    }


def _left(pairs: Sequence[tuple[str, str]]) -> messages.LeftOut:
    """Count the jobs that are left out by reason, and list some."""
    return {
        "total": len(pairs),
        "reasons": dict(Counter(why for _, why in pairs)),
        "samples": [{"id": job_id, "why": why} for job_id, why in pairs[:LISTED]],
    }
