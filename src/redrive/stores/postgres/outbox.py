"""Events, alerts that were sent, plans, and the jobs that actions took."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from redrive.errors import UsageError
from redrive.jobs.job import Act, Job, State
from redrive.jobs.reports import EventKind, events_of
from redrive.jobs.transitions import Changed
from redrive.stores._codec import encode
from redrive.stores.outbox_verbs import (
    MOST_PLANNED,
    MOST_PLANS,
    PLAN_CHUNK,
    PLAN_LASTS,
    SUBSCRIBED,
    OutboxEvent,
    PlannedJob,
    SentAlert,
    StoredPlan,
)
from redrive.stores.postgres.adding import EventRow
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import event_body, more_from
from redrive.stores.sql.notes import SqlNotes
from redrive.stores.sql.rows import act_from_row

_EVERY = 2**62
_AT_ONCE = 1000

Subscriptions = dict[str, frozenset[EventKind]]


class Reports:
    """Who is to be told of what; and what there is to tell."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._names: dict[str, list[str]] = {}
        for name, kinds in sorted(subscriptions.items()):
            for kind in kinds:
                self._names.setdefault(kind, []).append(name)

    def wants(self, kind: EventKind) -> bool:
        """Return True if somebody subscribed to this kind."""
        return kind in self._names

    def of(self, was: Job | None, job: Job | None, now: float) -> list[tuple[str, str, str]]:
        """Return subscription, kind and body of each event of one change."""
        if not self._names:
            return []
        kinds = [kind for kind in events_of(was, job, now=now) if kind in self._names]
        told = job or was
        if not kinds or told is None:
            return []
        body = event_body(told)
        return [(name, kind, body) for kind in kinds for name in self._names[kind]]

    def rows(self, changes: Iterable[Changed], now: float) -> list[EventRow]:
        """Return the rows of the events of some changes."""
        return [
            (name, change.job.id, kind, now, body)
            for change in changes
            for name, kind, body in self.of(change.was, change.job, now)
        ]

    def added(self, jobs: Iterable[Job], now: float) -> list[EventRow]:
        """Return the rows of the events of jobs that are added."""
        return [
            (name, job.id, kind, now, body)
            for job in jobs
            for name, kind, body in self.of(None, job, now)
        ]

    def purged(self, jobs: Iterable[Job], now: float) -> list[EventRow]:
        """Return the rows of the events of jobs that are purged."""
        return [
            (name, job.id, kind, now, body)
            for job in jobs
            for name, kind, body in self.of(job, None, now)
        ]


class PostgresOutbox(SqlNotes):
    """The verbs about events, alerts, plans and the jobs of an action."""

    _database: Database
    _check_writable: Callable[[], None]
    _known: tuple[float, Reports] = (float("-inf"), Reports({}))

    def _reports(self) -> Reports:
        """Return who is to be told of what, as it was known a few seconds ago at most."""
        read, reports = self._known
        if time.monotonic() - read > SUBSCRIBED:
            reports = Reports(self._database.direct(_subscriptions))
            self._known = time.monotonic(), reports
        return reports

    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        """Store events of these kinds for this subscription from now on; see the contract."""
        text = encode(sorted(kinds))
        self._write(lambda tx: tx.run("subscribe", (name, text, tx.now())), durable=True)
        self._known = float("-inf"), Reports({})

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events."""
        self._write(lambda tx: tx.run("unsubscribe", (name, name)), durable=True)
        self._known = float("-inf"), Reports({})

    def subscriptions(self) -> Subscriptions:
        """Return the kinds of each subscription by name."""
        return self._database.read(_subscriptions)

    def take_events(self, *, holder: str, lease_for: float, limit: int) -> list[OutboxEvent]:
        """Lease due events, longest due first; see the contract."""

        def work(tx: PostgresTx) -> list[OutboxEvent]:
            now = tx.now()
            rows = tx.all("take_events", (holder, now + lease_for, now, now, max(limit, 0)))
            rows.sort(key=lambda row: (row[-1], row[0]))
            return [OutboxEvent(*row[:-1]) for row in rows]

        # A lost answer leaves them leased to nobody who knows: they are given again when that is over.
        self._check_writable()
        return self._database.write(work, synced=True)

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        """Remove delivered events, put others off; see the contract."""

        def work(tx: PostgresTx) -> int:
            gone = tx.all("done_events", (list(done), holder))
            put_off = [(number, tx.now() + delay) for number, delay in later]
            cursor = tx.batch("later_events", put_off, holder)
            return len(gone) + (len(cursor.fetchall()) if cursor else 0)

        self._check_writable()
        return self._database.write(work, synced=False)

    def claim_alert(
        self,
        group: int,
        channel: str,
        kind: str,
        *,
        every: float,
        more: Mapping[str, object] | None = None,
    ) -> bool:
        """Return True to exactly one caller in `every` seconds; see the contract."""
        text = encode(more) if more else None

        def work(tx: PostgresTx) -> bool:
            now = tx.now()
            return tx.one("claim_alert", (group, channel, kind, now, text, now - every)) is not None

        self._check_writable()
        return self._database.write(work, synced=True)

    def alerts(self, group: int | None = None) -> list[SentAlert]:
        """Return the alerts sent for a group, or for all, newest first."""
        rows = self._database.read(lambda tx: tx.all("alerts", (group, group)))
        return [
            SentAlert(of, channel, kind, at, json.loads(more) if more else {})
            for of, channel, kind, at, more in rows
        ]

    def put_plan(self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]]) -> StoredPlan:
        """Store a plan with its jobs; see the contract."""
        texts = list(_chunks(chunks))

        def work(tx: PostgresTx) -> StoredPlan:
            now = tx.now()
            stored = StoredPlan(
                id=plan.id, header=plan.header, created=now, expires=now + PLAN_LASTS
            )
            tx.run("drop_plan", (plan.id, plan.id))
            tx.run("put_plan", (plan.id, now, stored.expires, encode(plan.header)))
            for number, text in enumerate(texts):
                tx.run("put_chunk", (plan.id, number, text))
            tx.run("drop_plans", (now, now, MOST_PLANS))
            return stored

        self._check_writable()
        return self._database.write(work, synced=False)

    def plan(self, plan_id: str) -> StoredPlan | None:
        """Return a plan; None if there is none, or it has expired."""
        row = self._database.read(lambda tx: tx.one("plan", (plan_id, tx.now())))
        if row is None:
            return None
        name, created, expires, header = row
        return StoredPlan(id=name, header=json.loads(header), created=created, expires=expires)

    def plan_chunk(self, plan_id: str, chunk: int) -> list[PlannedJob]:
        """Return the jobs of one chunk; see the contract."""
        row = self._database.read(lambda tx: tx.one("plan_chunk", (plan_id, chunk, tx.now())))
        jobs = cast("list[tuple[str, int, str]]", json.loads(row[0]) if row else [])
        return [PlannedJob(job_id, edits, State(state)) for job_id, edits, state in jobs]

    def drop_plan(self, plan_id: str) -> None:
        """Remove a plan; nothing happens if there is none."""
        self._write(lambda tx: tx.run("drop_plan", (plan_id, plan_id)), durable=False)

    def action_jobs(self, number: int) -> Iterator[tuple[str, dict[str, object]]]:
        """Return the jobs that an action took, each with its changed fields before it."""
        last = ""
        while rows := self._some_action_jobs(number, last):
            for job_id, was in rows:
                yield job_id, more_from(was)
            last = rows[-1][0]

    def _some_action_jobs(self, number: int, last: str) -> list[Any]:
        return self._database.read(lambda tx: tx.all("action_jobs", (number, last, _AT_ONCE)))

    def acts(
        self, *, limit: int = 100, before: int | None = None, job: str | None = None
    ) -> list[Act]:
        """Return acts, newest first, from before that number; with `job` those that took it."""
        if job is None:
            return super().acts(limit=limit, before=before)
        args = (job, _EVERY if before is None else before, max(limit, 0))
        return self._read(lambda tx: [act_from_row(row) for row in tx.all("acts_of", args)])


def _subscriptions(tx: PostgresTx) -> Subscriptions:
    return {name: frozenset(json.loads(kinds)) for name, kinds in tx.all("subscriptions")}


def _chunks(chunks: Iterable[Sequence[PlannedJob]]) -> Iterator[str]:
    planned = 0
    for chunk in chunks:
        planned += len(chunk)
        if len(chunk) > PLAN_CHUNK or planned > MOST_PLANNED:
            msg = (
                f"a plan has at most {MOST_PLANNED:,} jobs, {PLAN_CHUNK:,} in a chunk; "
                "found more: use the command line for so many"
            )
            raise UsageError(msg)
        yield encode([(job.id, job.edits, job.state.value) for job in chunk])
