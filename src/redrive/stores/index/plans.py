"""The verbs about plans, which live as long as the process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock

from redrive.errors import UsageError
from redrive.jobs.clock import Clock
from redrive.stores.index.base import IndexStore
from redrive.stores.outbox_verbs import (
    MOST_PLANNED,
    MOST_PLANS,
    PLAN_CHUNK,
    PLAN_LASTS,
    PlannedJob,
    StoredPlan,
)


class PlanStore(IndexStore):
    """Keeps plans in the process."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._plans_lock = Lock()
        self._plans: dict[str, tuple[StoredPlan, list[list[PlannedJob]]]] = {}

    def put_plan(self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]]) -> StoredPlan:
        """Keep a plan, and drop those that have expired or are too many."""
        kept: list[list[PlannedJob]] = []
        for chunk in chunks:
            kept.append(list(chunk))
            if len(chunk) > PLAN_CHUNK or sum(map(len, kept)) > MOST_PLANNED:
                msg = (
                    f"a plan has at most {MOST_PLANNED} jobs, {PLAN_CHUNK} in each chunk; "
                    "use the command line for more"
                )
                raise UsageError(msg)
        now = self.now()
        plan = replace(plan, created=now, expires=now + PLAN_LASTS)
        with self._plans_lock:
            others = [one for one in self._plans.items() if one[0] != plan.id]
            live = [one for one in others if one[1][0].expires > now]
            self._plans = dict(live[max(0, len(live) - MOST_PLANS + 1) :])
            self._plans[plan.id] = (plan, kept)
        return plan

    def plan(self, plan_id: str) -> StoredPlan | None:
        """Return a plan, unless it has expired."""
        plan, _ = self._plans.get(plan_id, (None, []))
        return plan if plan is not None and plan.expires > self.now() else None

    def plan_chunk(self, plan_id: str, chunk: int) -> list[PlannedJob]:
        """Return the jobs of one chunk of a plan."""
        chunks = self._plans[plan_id][1] if self.plan(plan_id) else []
        return list(chunks[chunk]) if 0 <= chunk < len(chunks) else []

    def drop_plan(self, plan_id: str) -> None:
        """Remove a plan, if it is there."""
        with self._plans_lock:
            self._plans.pop(plan_id, None)
