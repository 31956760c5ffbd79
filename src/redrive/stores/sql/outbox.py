"""Events for subscriptions."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Sequence

from redrive.jobs.job import Job
from redrive.jobs.reports import EventKind, events_of
from redrive.stores._codec import encode
from redrive.stores.outbox_verbs import (
    SUBSCRIBED,
    OutboxEvent,
    WaitingEvents,
)
from redrive.stores.record_codec import event_body
from redrive.stores.sql.tx import Row, SqlBase, Tx

Subscriptions = dict[str, frozenset[EventKind]]
EventRow = tuple[str, str, str, float, str]
"""Subscription, job, kind, time and body."""
Pair = tuple[Job | None, Job | None]
"""A job before and after a change."""


class Reports:
    """The subscriptions that this process knows of, and the events they want."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._names: dict[str, list[str]] = {}
        for name, kinds in sorted(subscriptions.items()):
            for kind in kinds:
                self._names.setdefault(kind, []).append(name)

    def __bool__(self) -> bool:
        """Return True if there is a subscription."""
        return bool(self._names)

    def wants(self, kind: EventKind) -> bool:
        """Return True if there is a subscription to this kind."""
        return kind in self._names

    def of(self, was: Job | None, job: Job | None, now: float) -> list[tuple[str, str, str]]:
        """Return subscription, kind and body of each event of one change."""
        if not self._names:
            return []
        kinds = [kind for kind in events_of(was, job, now=now) if kind in self._names]
        reported = job or was
        if not kinds or reported is None:
            return []
        body = event_body(reported)
        return [(name, kind, body) for kind in kinds for name in self._names[kind]]

    def rows(self, pairs: Iterable[Pair], now: float) -> list[EventRow]:
        """Return the rows of the events of some changes."""
        if not self._names:
            return []
        return [
            (name, reported.id, kind, now, body)
            for was, job in pairs
            for reported in (job or was,)
            if reported is not None
            for name, kind, body in self.of(was, job, now)
        ]


class SqlOutbox(SqlBase):
    """The verbs about events."""

    _changes = 0  # how often subscriptions were changed here
    _known: tuple[int, float, Reports] = (-1, 0.0, Reports({}))
    """The subscriptions, how many changes that was after, and when they were read."""

    def _reports(self) -> Reports:
        """Return the subscriptions as they were SUBSCRIBED seconds ago at most, with all changes here."""
        changes, (known, read, reports) = self._changes, self._known
        if known != changes or time.monotonic() - read > SUBSCRIBED:
            read = time.monotonic()
            reports = Reports(self.subscriptions())
            self._known = changes, read, reports
        return reports

    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        """Store events of these kinds for this subscription from now on; see the contract."""
        text = encode(sorted(kinds))
        self._write(lambda tx: tx.run("subscribe", (name, text, tx.now())), durable=True)
        self._changes += 1

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events."""

        def work(tx: Tx) -> None:
            tx.run("unsubscribe", (name,))
            tx.run("remove_events_of", (name,))

        self._write(work, durable=True)
        self._changes += 1

    def subscriptions(self) -> Subscriptions:
        """Return the kinds of each subscription by name."""
        rows = self._read(lambda tx: tx.all("subscriptions"))
        return {name: frozenset(json.loads(kinds)) for name, kinds in rows}

    def take_events(
        self, *, subscriptions: Collection[str], holder: str, lease_for: float, limit: int
    ) -> list[OutboxEvent]:
        """Lease due events, longest due first; see the contract."""

        def work(tx: Tx) -> list[Row]:
            tx.run("free_events", (tx.now(),))
            names, until = tx.array(sorted(subscriptions)), tx.now() + lease_for
            return tx.all("take_events", (holder, until, tx.now(), names, max(limit, 0)))

        # If the answer is lost, they are given again when their lease has ended.
        rows = sorted(self._write(work, durable=False), key=lambda row: (row[-1], row[0]))
        return [OutboxEvent(*row[:-1]) for row in rows]

    def renew_events(self, numbers: Sequence[int], *, holder: str, lease_for: float) -> int:
        """Renew the leases that this holder still has; return how many that were."""

        def work(tx: Tx) -> list[Row]:
            return tx.all("renew_events", (tx.now() + lease_for, tx.array(numbers), holder))

        return len(self._write(work, durable=False))

    def waiting_events(self) -> dict[str, WaitingEvents]:
        """Return how many events wait for each subscription that has some."""
        rows = self._read(lambda tx: tx.all("waiting_events"))
        return {name: WaitingEvents(number, oldest) for name, number, oldest in rows}

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        """Remove delivered events, put others off; see the contract."""

        def work(tx: Tx) -> int:
            gone = tx.all("remove_events", (tx.array(done), holder))
            put_off = [(number, tx.now() + delay) for number, delay in later]
            return len(gone) + tx.many("delay_events", put_off, holder)

        return self._write(work, durable=False)


def write_events(tx: Tx, reports: Reports, pairs: Iterable[Pair]) -> None:
    """Store what is reported of these changes, for those who subscribed to it."""
    if reports and (rows := reports.rows(pairs, tx.now())):
        tx.many("add_events", [(*row, row[3]) for row in rows])
