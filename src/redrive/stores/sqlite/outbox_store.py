"""The verbs of a SQLite store about events, alerts, plans and the jobs of an action."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from redrive.jobs.job import Act
from redrive.jobs.reports import EventKind
from redrive.stores.contract import Store
from redrive.stores.outbox_verbs import OutboxEvent, PlannedJob, SentAlert, StoredPlan
from redrive.stores.sql.rows import act_from_row
from redrive.stores.sqlite import outbox
from redrive.stores.sqlite.file import SqliteFile


class SqliteOutbox(Store):
    """A store that keeps what others are to be told."""

    _file: SqliteFile

    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        """Store events for a subscription from now on; see the contract."""
        self._file.write(lambda tx: outbox.subscribe(tx, name, kinds), durable=True)

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events."""
        self._file.write(lambda tx: outbox.unsubscribe(tx, name), durable=True)

    def subscriptions(self) -> dict[str, frozenset[EventKind]]:
        """Return the kinds of each subscription by name."""
        return self._file.read(outbox.subscriptions)

    def take_events(self, *, holder: str, lease_for: float, limit: int) -> list[OutboxEvent]:
        """Lease due events; see the contract."""
        return self._file.write(
            lambda tx: outbox.take_events(tx, holder=holder, lease_for=lease_for, limit=limit),
            durable=False,
        )

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        """Remove delivered events, put others off; see the contract."""
        return self._file.write(
            lambda tx: outbox.settle_events(tx, done, later, holder), durable=False
        )

    def claim_alert(
        self,
        group: int,
        channel: str,
        kind: str,
        *,
        every: float,
        more: Mapping[str, object] | None = None,
    ) -> bool:
        """Return True to whoever may send this alert; see the contract."""
        return self._file.write(
            lambda tx: outbox.claim_alert(tx, (group, channel, kind), every, more), durable=True
        )

    def alerts(self, group: int | None = None) -> list[SentAlert]:
        """Return the alerts that were sent, newest first."""
        return self._file.read(lambda tx: outbox.alerts(tx, group))

    def put_plan(self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]]) -> StoredPlan:
        """Store a plan with its jobs; see the contract."""
        kept = outbox.checked_chunks(chunks)
        return self._file.write(lambda tx: outbox.put_plan(tx, plan, kept), durable=True)

    def plan(self, plan_id: str) -> StoredPlan | None:
        """Return a plan that has not expired."""
        return self._file.read(lambda tx: outbox.plan(tx, plan_id))

    def plan_chunk(self, plan_id: str, chunk: int) -> list[PlannedJob]:
        """Return the jobs of one chunk of a plan."""
        return self._file.read(lambda tx: outbox.plan_chunk(tx, plan_id, chunk))

    def drop_plan(self, plan_id: str) -> None:
        """Remove a plan."""
        self._file.write(lambda tx: outbox.drop_plan(tx, plan_id), durable=False)

    def acts(
        self, *, limit: int = 100, before: int | None = None, job: str | None = None
    ) -> list[Act]:
        """Return acts, newest first, from before that number; with `job` those that took it."""
        args = (2**62 if before is None else before, max(limit, 0))
        return self._file.read(
            lambda tx: [
                act_from_row(row)
                for row in (tx.all("acts_of", (job, *args)) if job else tx.all("acts", args))
            ]
        )

    def action_jobs(self, number: int) -> Iterator[tuple[str, dict[str, object]]]:
        """Return the jobs that an action took; see the contract."""
        last = ""
        while rows := self._file.read(partial(outbox.action_jobs, act=number, after=last)):
            yield from rows
            last = rows[-1][0]
