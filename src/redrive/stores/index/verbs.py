"""The contract's verbs as operations of the engine, for the stores that have one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

from redrive.errors import UsageError
from redrive.jobs.clock import Clock
from redrive.jobs.groups import GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act, Claim, Group, Job, Settlement, State
from redrive.jobs.reports import EventKind
from redrive.jobs.transitions import Verb
from redrive.stores.contract import Count, Members, Moved, Page, PurgeRule, Query, Store
from redrive.stores.counting import Backlog
from redrive.stores.index.engine import Engine
from redrive.stores.index.keeper import Drafted
from redrive.stores.index.outbox import Plans
from redrive.stores.note_verbs import PAUSE, Note
from redrive.stores.outbox_verbs import OutboxEvent, PlannedJob, SentAlert, StoredPlan

R = TypeVar("R")


class EngineStore(Store):
    """A store whose verbs the engine evaluates; the two kinds below say how and where."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backlog = Backlog()
        self._plans = Plans()

    @abstractmethod
    def _write(self, work: Callable[[Engine], Drafted[R]], *, durable: bool) -> R:
        """Run an operation and keep what it drafts before giving its result."""

    @abstractmethod
    def _read(self, work: Callable[[Engine], R]) -> R:
        """Run an operation that changes nothing."""

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, whole; see the contract."""
        if within is not None:
            msg = f"`within` needs PostgreSQL; {self.url} has no transactions of yours to join"
            raise UsageError(msg)
        stored = self._write(lambda engine: engine.add(jobs), durable=True)
        self._hint_of(stored)
        return stored

    def claim(
        self,
        handlers: Collection[str],
        *,
        limit: int,
        holder: str,
        lease_for: float,
        lanes: Collection[str] | None = None,
        only: Collection[str] | None = None,
        suspects: bool = False,
        ignore_waits: bool = False,
        past_pauses: bool = False,
    ) -> list[Claim]:
        """Lease due jobs, earliest due first; see the contract."""
        return self._write(
            lambda engine: engine.claim(
                handlers,
                limit=limit,
                holder=holder,
                lease_for=lease_for,
                lanes=lanes,
                only=only,
                suspects=suspects,
                ignore_waits=ignore_waits,
                past_pauses=past_pauses,
            ),
            durable=False,
        )

    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> list[bool]:
        """Lengthen leases from now; see the contract."""
        return self._write(lambda engine: engine.renew(claims, lease_for=lease_for), durable=False)

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        return self._write(lambda engine: engine.settle(results), durable=False)

    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None = None,
        handlers: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[Claim]:
        """Take over running jobs whose lease has ended; see the contract."""
        return self._write(
            lambda engine: engine.seize(
                by=by, lease_for=lease_for, holder=holder, handlers=handlers, limit=limit
            ),
            durable=False,
        )

    def get(self, job_id: str) -> Job | None:
        """Give one job with its history."""
        return self._read(lambda engine: engine.get(job_id))

    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first; see the contract."""
        return self._read(lambda engine: engine.find(query))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._read(lambda engine: engine.counts())

    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group; see the contract."""
        return self._read(lambda engine: engine.groups(query))

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count when jobs died; see the contract."""
        return self._read(lambda engine: engine.deaths(width, number, groups))

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""
        return self._read(lambda engine: engine.members(run, limit))

    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        act: Act,
        *,
        delays: Sequence[float] | None = None,
        run: int | None = None,
    ) -> Moved:
        """Apply a person's deed to exactly these jobs; see the contract."""
        moved = self._write(
            lambda engine: engine.move(ids, verb, act, delays=delays, run=run), durable=True
        )
        self._hint_of(moved.done)
        return moved

    def amend(self, job_id: str, payload: str, act: Act, *, expected: int) -> Job:
        """Give a job another payload; see the contract."""
        return self._write(
            lambda engine: engine.amend(job_id, payload, act, expected=expected), durable=True
        )

    def purge(self, rules: Sequence[PurgeRule], *, limit: int = 10_000) -> list[tuple[str, State]]:
        """Remove finished jobs by rule; see the contract."""
        return self._write(lambda engine: engine.purge(rules, limit=limit), durable=False)

    def notes(self, prefix: str = "") -> list[Note]:
        """Give the live notes whose name starts so, by name."""
        return self._read(lambda engine: engine.notes(prefix))

    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None = None,
        expires_in: float | None = None,
        durable: bool = False,
    ) -> Note | None:
        """Write a note, or remove it; see the contract."""
        written = self._write(
            lambda engine: engine.note(name, value, expected=expected, expires_in=expires_in),
            durable=durable,
        )
        if value is None and name.startswith(PAUSE):
            self._hint()
        return written

    def record(self, act: Act) -> Act:
        """Keep an act that moved no job; gives it with its number and time."""
        return self._write(lambda engine: engine.record(act), durable=True)

    def acts(
        self, *, limit: int = 100, before: int | None = None, job: str | None = None
    ) -> list[Act]:
        """Return acts, newest first; see the contract."""
        return self._read(lambda engine: engine.acts(limit=limit, before=before, job=job))

    def action_jobs(self, number: int) -> Iterator[tuple[str, dict[str, object]]]:
        """Return the jobs that an action took; see the contract."""
        return iter(self._read(lambda engine: engine.action_jobs(number)))

    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return the records of groups; see the contract."""
        return self._read(lambda engine: engine.group_records(numbers))

    def variants(self, group: int) -> list[Variant]:
        """Return the variants of a group; see the contract."""
        return self._read(lambda engine: engine.variants(group))

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane; see the contract."""
        return self._read(lambda engine: engine.lane_curve(span, number))

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of groups; see the contract."""
        return self._read(lambda engine: engine.group_curve(span, number, groups))

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Act, *, expected: int
    ) -> GroupRecord | None:
        """Change what people say of a group; see the contract."""
        return self._write(
            lambda engine: engine.change_group(number, changes, action, expected=expected),
            durable=True,
        )

    def fold(self) -> bool:
        """Add what was counted to buckets and groups; see the contract."""
        return self._write(lambda engine: engine.fold(), durable=False)

    def subscribe(self, name: str, kinds: Collection[EventKind]) -> None:
        """Store events of these kinds from now on; see the contract."""
        self._write(lambda engine: engine.subscribe(name, kinds), durable=True)

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription and its events."""
        self._write(lambda engine: engine.subscribe(name, ()), durable=True)

    def subscriptions(self) -> dict[str, frozenset[EventKind]]:
        """Return the kinds of each subscription by name."""
        found = self._read(lambda engine: dict(engine.index.subscriptions))
        return cast("dict[str, frozenset[EventKind]]", found)

    def take_events(self, *, holder: str, lease_for: float, limit: int) -> list[OutboxEvent]:
        """Lease due events; see the contract."""
        return self._write(
            lambda engine: engine.take_events(holder=holder, lease_for=lease_for, limit=limit),
            durable=False,
        )

    def settle_events(
        self, done: Sequence[int], later: Sequence[tuple[int, float]], *, holder: str
    ) -> int:
        """Remove delivered events, put others off; see the contract."""
        return self._write(
            lambda engine: engine.settle_events(done, later, holder=holder), durable=False
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
        """Take the turn to send an alert; see the contract."""
        return self._write(
            lambda engine: engine.claim_alert(group, channel, kind, every=every, more=more or {}),
            durable=True,
        )

    def alerts(self, group: int | None = None) -> list[SentAlert]:
        """Return the alerts sent for a group, or for all, newest first."""
        return self._read(lambda engine: engine.alerts(group))

    def put_plan(self, plan: StoredPlan, chunks: Iterable[Sequence[PlannedJob]]) -> StoredPlan:
        """Keep a plan in this process; see the contract."""
        return self._plans.put(plan, chunks, self.now())

    def plan(self, plan_id: str) -> StoredPlan | None:
        """Return a plan, unless it has expired."""
        found = self._plans.get(plan_id, self.now())
        return None if found is None else found[0]

    def plan_chunk(self, plan_id: str, chunk: int) -> list[PlannedJob]:
        """Return the jobs of one chunk of a plan."""
        found = self._plans.get(plan_id, self.now())
        chunks = [] if found is None else found[1]
        return list(chunks[chunk]) if 0 <= chunk < len(chunks) else []

    def drop_plan(self, plan_id: str) -> None:
        """Remove a plan, if it is there."""
        self._plans.drop(plan_id)

    def now(self) -> float:
        """Give the store's wall time."""
        return self._clock.now()
