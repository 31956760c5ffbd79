"""Events for subscriptions, alerts that were sent, plans, and the jobs that an action took."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

from redrive.errors import UsageError
from redrive.jobs.job import Job, State
from redrive.jobs.reports import EventKind, events_of
from redrive.jobs.transitions import Changed, values_before
from redrive.stores._codec import encode
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
from redrive.stores.record_codec import event_body, fields_to_json, more_from
from redrive.stores.sqlite.tx import SqliteTx


def subscribe(tx: SqliteTx, name: str, kinds: Collection[EventKind]) -> None:
    """Store a subscription."""
    tx.run("subscribe", (name, encode(sorted(kinds)), tx.now()))


def unsubscribe(tx: SqliteTx, name: str) -> None:
    """Remove a subscription and its events."""
    tx.run("unsubscribe", (name,))
    tx.run("remove_events_of", (name,))


def subscriptions(tx: SqliteTx) -> dict[str, frozenset[EventKind]]:
    """Return the kinds of each subscription."""
    return {name: frozenset(json.loads(kinds)) for name, kinds in tx.all("subscriptions")}


def write_events(tx: SqliteTx, changes: Iterable[tuple[Job | None, Job | None]]) -> None:
    """Store what is reported of these changes, for those who subscribed to it."""
    names = subscriptions(tx)
    if not names:
        return
    now = tx.now()
    rows: list[tuple[object, ...]] = []
    for was, job in changes:
        for kind in events_of(was, job, now=now):
            one = cast("Job", job or was)
            wanted = [name for name, kinds in names.items() if kind in kinds]
            body = event_body(one) if wanted else ""
            rows += [(name, one.id, kind, now, now, body) for name in wanted]
    tx.many("insert_event", rows)


def take_events(tx: SqliteTx, *, holder: str, lease_for: float, limit: int) -> list[OutboxEvent]:
    """Lease due events, of one subscription and job only the oldest."""
    boot, seconds = tx.lease_clock()
    now = tx.now()
    rows = tx.all("due_events", (now, boot, seconds, max(limit, 0)))
    numbers = tx.array(row[0] for row in rows)
    tx.run("lease_events", (holder, seconds + lease_for, boot, numbers))
    return [OutboxEvent(*row) for row in rows]


def settle_events(
    tx: SqliteTx, done: Sequence[int], later: Sequence[tuple[int, float]], holder: str
) -> int:
    """Remove delivered events and put others off, where this holder still has them."""
    settled = tx.all("remove_events", (tx.array(done), holder))
    for number, delay in later:
        settled += tx.all("delay_event", (tx.now() + delay, number, holder))
    return len(settled)


def claim_alert(
    tx: SqliteTx, key: tuple[int, str, str], every: float, more: Mapping[str, object] | None
) -> bool:
    """Note an alert down unless one like it was sent in the last `every` seconds."""
    now = tx.now()
    said = encode(dict(more)) if more else None
    return tx.one("claim_alert", (*key, now, said, now - every)) is not None


def alerts(tx: SqliteTx, group: int | None) -> list[SentAlert]:
    """Return the alerts sent, newest first."""
    return [
        SentAlert(cause, channel, kind, at, json.loads(more) if more else {})
        for cause, channel, kind, at, more in tx.all("alerts", (group,))
    ]


def put_plan(tx: SqliteTx, plan: StoredPlan, chunks: Sequence[Sequence[PlannedJob]]) -> StoredPlan:
    """Store a plan, and remove those that have expired or are too many."""
    now = tx.now()
    drop_plan(tx, plan.id)
    tx.run("drop_old_plans", (now, MOST_PLANS - 1))
    tx.run("drop_stray_chunks")
    stored = StoredPlan(id=plan.id, header=plan.header, created=now, expires=now + PLAN_LASTS)
    tx.run("insert_plan", (plan.id, stored.created, stored.expires, encode(dict(plan.header))))
    rows = [(plan.id, place, encode(chunk)) for place, chunk in enumerate(chunks)]
    tx.many("insert_chunk", rows)
    return stored


def checked_chunks(chunks: Iterable[Sequence[PlannedJob]]) -> list[Sequence[PlannedJob]]:
    """Return the chunks of a plan; UsageError if they are too large."""
    kept: list[Sequence[PlannedJob]] = []
    jobs = 0
    for chunk in chunks:
        jobs += len(chunk)
        if len(chunk) > PLAN_CHUNK or jobs > MOST_PLANNED:
            msg = (
                f"a plan holds at most {MOST_PLANNED:,} jobs, {PLAN_CHUNK:,} in each chunk; "
                "use the command line for more"
            )
            raise UsageError(msg)
        kept.append(chunk)
    return kept


def plan(tx: SqliteTx, plan_id: str) -> StoredPlan | None:
    """Return a plan that has not expired."""
    row = tx.one("plan", (plan_id, tx.now()))
    if row is None:
        return None
    created, expires, header = row
    return StoredPlan(id=plan_id, header=json.loads(header), created=created, expires=expires)


def plan_chunk(tx: SqliteTx, plan_id: str, chunk: int) -> list[PlannedJob]:
    """Return the jobs of one chunk."""
    row = tx.one("plan_chunk", (plan_id, chunk, tx.now()))
    found: list[Any] = json.loads(row[0]) if row else []
    return [PlannedJob(one, edits, State(state)) for one, edits, state in found]


def drop_plan(tx: SqliteTx, plan_id: str) -> None:
    """Remove a plan."""
    tx.run("drop_plan", (plan_id,))
    tx.run("drop_stray_chunks")


def keep_action_jobs(tx: SqliteTx, act: int, changes: Iterable[Changed]) -> None:
    """Keep the changed fields of the jobs that an action took as they were before."""
    tx.many(
        "insert_act_job",
        [(act, one.was.id, fields_to_json(values_before(one))) for one in changes],
    )


def action_jobs(tx: SqliteTx, act: int, after: str) -> list[tuple[str, dict[str, object]]]:
    """Return the next of the jobs that an action took, each with its changed fields before it."""
    return [(one, more_from(was)) for one, was in tx.all("act_jobs", (act, after, 1000))]


def remove_old(tx: SqliteTx) -> None:
    """Remove alerts and jobs of actions beyond their bounds."""
    now = tx.now()
    tx.run("remove_alerts", (now - ALERTS_KEPT,))
    tx.run("remove_act_jobs", (now - ACTIONS_KEPT, ACTION_JOBS_KEPT))
