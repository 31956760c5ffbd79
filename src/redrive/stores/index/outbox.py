"""Events, alerts and plans, evaluated on the index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from threading import Lock
from typing import cast

from redrive.errors import UsageError
from redrive.jobs.reports import EventKind
from redrive.stores.index.changes import Change, Delivered, Forgotten, Handed, Queued
from redrive.stores.index.entries import Lease
from redrive.stores.index.ledger import Ledger, Place, Waiting
from redrive.stores.outbox_verbs import (
    ACTION_JOBS_KEPT,
    ACTIONS_KEPT,
    ALERTS_KEPT,
    MOST_PLANNED,
    MOST_PLANS,
    PLAN_CHUNK,
    PLAN_LASTS,
    OutboxEvent,
    PlannedJob,
    SentAlert,
    StoredPlan,
)

ReadChange = Callable[[Place], Change]
"""How to get a change from its place."""


def take(
    ledger: Ledger,
    read: ReadChange,
    lease: Lease,
    limit: int,
    *,
    seconds: float,
) -> tuple[list[OutboxEvent], list[Change]]:
    """Lease due events: of one subscription and job only the oldest; `seconds` is since boot."""
    first: dict[tuple[str, str], int] = {}
    for number, one in ledger.outbox.items():
        first.setdefault((one.subscription, one.job), number)
    free = [n for n in first.values() if _is_free(ledger.outbox[n], lease, seconds)]
    taken = sorted(free, key=lambda n: (ledger.outbox[n].due, n))[: max(limit, 0)]
    if not taken:
        return [], []
    events = [_event(n, ledger.outbox[n], read) for n in taken]
    return events, [Handed(tuple(taken), lease.holder, lease.end, lease.boot)]


def _is_free(one: Waiting, lease: Lease, seconds: float) -> bool:
    if one.holder is not None:
        return one.boot != lease.boot or one.end is None or one.end <= seconds
    return one.due <= lease.since


def _event(number: int, one: Waiting, read: ReadChange) -> OutboxEvent:
    queued = read(one.place)
    assert isinstance(queued, Queued)  # noqa: S101 - only these are put there
    kind = cast("EventKind", queued.kind)
    return OutboxEvent(
        number, one.subscription, one.job, kind, queued.at, one.attempts, queued.body
    )


def settle(
    ledger: Ledger,
    done: Sequence[int],
    later: Sequence[tuple[int, float]],
    *,
    holder: str,
    now: float,
) -> tuple[int, list[Change]]:
    """Remove delivered events, and put others off."""
    held = {number for number, one in ledger.outbox.items() if one.holder == holder}
    gone = tuple(dict.fromkeys(number for number in done if number in held))
    delays = {n: wait for n, wait in later if n in held and n not in gone}
    changes: list[Change] = [Delivered(gone)] if gone else []
    for number, delay in delays.items():
        attempts = ledger.outbox[number].attempts + 1
        changes.append(Handed((number,), due=now + delay, attempts=attempts))
    return len(gone) + len(delays), changes


def claim_alert(ledger: Ledger, wanted: SentAlert, every: float) -> tuple[bool, list[Change]]:
    """Take the turn to send an alert, if nobody had it for so long."""
    last = ledger.alerts.get(wanted[:3])
    if last is not None and wanted.at - last.at < every:
        return False, []
    return True, [wanted]


def beyond_bounds(ledger: Ledger, now: float) -> list[Change]:
    """Return what forgets old alerts, and the jobs of old actions beyond the bound."""
    alerts = now - ALERTS_KEPT
    last, jobs = 0, 0
    for act in reversed(ledger.acts):
        jobs += sum(len(ids) for ids, _ in ledger.took.get(act.number, ()))
        if jobs > ACTION_JOBS_KEPT and act.at < now - ACTIONS_KEPT:
            last = act.number
            break
    is_old = any(number <= last for number in ledger.took)
    is_old = is_old or any(one.at < alerts for one in ledger.alerts.values())
    return [Forgotten(alerts, last)] if is_old else []


class Plans:
    """Plans, which live as long as the process; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._plans: dict[str, tuple[StoredPlan, list[list[PlannedJob]]]] = {}

    def put(
        self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]], now: float
    ) -> StoredPlan:
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
        plan = replace(plan, created=now, expires=now + PLAN_LASTS)
        with self._lock:
            others = [one for one in self._plans.items() if one[0] != plan.id]
            live = [one for one in others if one[1][0].expires > now]
            self._plans = dict(live[max(0, len(live) - MOST_PLANS + 1) :])
            self._plans[plan.id] = (plan, kept)
        return plan

    def get(self, plan_id: str, now: float) -> tuple[StoredPlan, list[list[PlannedJob]]] | None:
        """Return a plan with its chunks, unless it has expired."""
        found = self._plans.get(plan_id)
        return found if found is not None and found[0].expires > now else None

    def drop(self, plan_id: str) -> None:
        """Remove a plan, if it is there."""
        with self._lock:
            self._plans.pop(plan_id, None)
