"""Submit jobs: draft and store them, and store a call that failed in place.

A call that fails in place is treated as any other attempt: the same classifier, the same decision, the
same record; only its first write is an `add` instead of a `settle`.
"""

from __future__ import annotations

import getpass
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from typing import TypeVar
from weakref import WeakSet

from redrive.attempts import counters, listeners
from redrive.attempts.conclusions import conclude, settled_job
from redrive.attempts.executions import Execution, worker_name
from redrive.attempts.leases import Task
from redrive.attempts.runtime import Runtime, Settings
from redrive.errors import StoreError, StoreFull, UsageError
from redrive.events import Bus, Event
from redrive.jobs import ids, transitions
from redrive.jobs.clock import LATEST
from redrive.jobs.job import Claim, Job, Retry, Settlement, State
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed, Returned
from redrive.jobs.records import BLANK, evolve, shifted
from redrive.jobs.threads import Threads, hop
from redrive.policies.policy import Policy
from redrive.registry import Entry, Registry
from redrive.stores._keys import check_same
from redrive.stores.collector import Collector
from redrive.stores.contract import Query, Store

OneJob = TypeVar("OneJob", Job, Job | None)
_SAME_TIME = 0.5
"""Seconds by which our clock and the store's may differ without mattering."""
submitters: WeakSet[Submitter] = WeakSet()
"""Those of all apps of this process, for `redrive.testing`."""
on_new: list[Callable[[Submitter], None]] = []
"""Called with each new one, for `redrive.testing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one submit; see `Handler.options`."""

    delay: float = 0.0
    key: str | None = None
    tags: tuple[str, ...] = ()
    attempts: int | None = None
    within: object = None
    durable: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A job that a coroutine submits, and the context in which its listeners are called."""

    entry: Entry
    job: Job
    context: Context = field(default_factory=copy_context)


Opened = tuple[Store | None, Callable[[], Store], Settings]
"""An open store, if there is one, the function that opens it, and the settings."""


def who() -> str:
    """Return the name of the user who runs this program, for the audit log."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):  # ImportError: Windows, when nothing names the user
        return "unknown"


class Submitter:
    """Stores calls as jobs. The store is opened on first use."""

    def __init__(
        self, opener: Callable[[], Store], settings: Settings, *, read_only: bool = False
    ) -> None:
        self.must_exist = False
        """True if a missing store is an error, whatever the program says."""
        self._opener, self._read_only = opener, read_only
        self._store: Store | None = None
        self._lock = threading.Lock()
        self.settings = settings
        self.registry = Registry()
        self.bus = Bus()
        self._held_by = (0, "")
        self._plain = Collector(self.submit_all)
        self._keyed = Collector(self.submit_all)
        submitters.add(self)
        for call in on_new:
            call(self)

    @property
    def holder(self) -> str:
        """The name that our leases are held under; a forked child has its own."""
        pid, name = self._held_by
        if pid != os.getpid():
            name = ids.new_holder()
            self._held_by = (os.getpid(), name)
        return name

    @property
    def store(self) -> Store:
        """The open store."""
        store = self._store  # read once: another thread may close it meanwhile
        if store is None:
            with self._lock:
                store = self._store = self._store or self._record(self._opener())
        return store

    def register(self, entry: Entry) -> None:
        """Add a handler or a listener."""
        self.registry.add(entry)
        if self._store is not None:
            self._record(self._store)

    def _record(self, store: Store) -> Store:
        """Store the subscriptions of the listeners."""
        if not self._read_only:
            listeners.record(store, self.registry)
        return store

    def runtime(self, bus: Bus | None = None, holder: str | None = None) -> Runtime:
        """Return what running jobs here needs; with a bus or a holder instead of our own."""
        return Runtime(
            self.store, self.registry, bus or self.bus, self.settings, holder or self.holder
        )

    def swap(self, opened: Opened) -> Opened:
        """Use another store and settings from now on; return those used before. For tests."""
        before = self._store, self._opener, self.settings
        self._store, self._opener, self.settings = opened
        return before

    def close(self) -> None:
        """Close the store; the next use opens it again."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            counters.finish(store)
            store.close()

    def named(self, name: str, payload: Mapping[str, object], policy: Policy) -> tuple[Entry, str]:
        """Return the handler of that name, or an entry that stands for it, and the payload as text."""
        return self.registry.call_of(name, payload, policy, self.settings.payload_limit)

    def draft(self, entry: Entry, payload: str, options: Options) -> Job:
        """Return the record of a new job; nothing is stored."""
        return evolve(self.blank(entry, options), id=ids.new_id(), payload=payload)

    def blank(self, entry: Entry, options: Options) -> Job:
        """Return the record of a new job but for its id and payload."""
        now = self.settings.clock.now()
        due = min(now + options.delay, LATEST)
        return evolve(
            BLANK,
            handler=entry.name,
            lane=entry.lane,
            key=options.key,
            created=now,
            updated=now,
            due=due,
            since=due,
            tags=options.tags,
            own_max_attempts=options.attempts,
            max_attempts=entry.policy.limited(options.attempts).max_attempts,
            release=self.settings.release,
        )

    def submit(self, entry: Entry, payload: str, options: Options) -> Job:
        """Store a new pending job, or return the one that its key already has."""
        job = self.draft(entry, payload, options)
        return self._add(self._named(job, entry), options.within)

    async def asubmit(self, threads: Threads, entry: Entry, payload: str, options: Options) -> Job:
        """Do the same from async code, in one write with all that are submitted at the same time.

        Jobs with a key are written apart: the key is looked up, and one that an open transaction
        holds must not stop jobs without a key.
        """
        if options.within is not None:
            job = self.draft(entry, payload, options)
            (stored,) = await self.aadd(threads, entry, [job], options.within)
            return stored
        draft = Draft(entry, self.draft(entry, payload, options))
        collector = self._plain if options.key is None else self._keyed
        return await collector.ask(threads, draft)

    def submit_all(self, drafts: Sequence[Draft]) -> list[Job | BaseException]:
        """Store jobs in one write; return each job, or its error.

        If one job may be at fault the halves are tried, so that few bad ones cost few more writes;
        if the store fails, all get its error.
        """
        try:
            stored = self._store_all([self._named(draft.job, draft.entry) for draft in drafts])
        except (UsageError, StoreFull) as error:
            if len(drafts) == 1:
                return [error]
            half = len(drafts) // 2
            return self.submit_all(drafts[:half]) + self.submit_all(drafts[half:])
        except StoreError as error:
            return [error] * len(drafts)
        pairs = zip(drafts, stored, strict=True)
        return [draft.context.run(self.reported, job) for draft, job in pairs]

    def existing(self, key: str) -> Job | None:
        """Return the job of an idempotency key."""
        jobs = self.store.find(Query(key=key, limit=1)).jobs
        return replace(jobs[0], is_new=False) if jobs else None

    def begin(self, entry: Entry, payload: str, options: Options) -> Execution | Job:
        """Return the execution of a call in place, or the job that its key already has."""
        job = self.draft(entry, payload, options)
        known = None if options.key is None else self.existing(options.key)
        if known is not None:
            check_same(known, _named_as(known, job, entry))
            self._warn_if_closed(known)
            return known
        if options.durable:
            stored = self._stored_and_claimed(job)
            if isinstance(stored, Job):
                return stored
            job = stored.job
        else:
            job = self.take(job)
        return Execution(entry, job, self.settings.clock, lambda: self.store)

    def take(self, job: Job) -> Job:
        """Return a job with its next attempt counted; nothing is stored."""
        now = self.settings.clock.now()
        return transitions.claimed(job, holder=self.holder, now=now, lease_end=now)

    def end(self, execution: Execution, options: Options) -> Job | None:
        """Store a call that failed in place, or settle one that was stored before it ran."""
        settlement = self._concluded(execution)
        if options.durable:
            job = execution.job  # if the lease was lost, another holder has changed it
            return self.runtime().settle(settlement) or self.store.get(job.id) or job
        if not isinstance(execution.outcome, Failed | Returned):
            return None
        return self.keep_failed(settlement, options)

    async def aend(self, threads: Threads, execution: Execution, options: Options) -> Job | None:
        """Do the same from async code."""
        failed = isinstance(execution.outcome, Failed | Returned)
        if options.within is None or options.durable or not failed:
            return await hop(threads, self.end, execution, options)
        settlement = await hop(threads, self._concluded, execution)
        jobs = [self.settled(settlement)]
        (job,) = await self.aadd(threads, execution.entry, jobs, options.within)
        return await hop(threads, self._report, job, settlement)

    def _concluded(self, execution: Execution) -> Settlement:
        if isinstance(outcome := execution.outcome, Returned) and outcome.missing:
            self.registry.withdraw(execution.entry.name, outcome.missing)
        return self.conclude(execution)

    def holding(self, execution: Execution, options: Options) -> AbstractContextManager[object]:
        """Renew the lease, inside `with`, of a call that was stored before it runs in place."""
        if not options.durable:
            return nullcontext()
        leases = self.runtime().leases()
        task = Task(Claim(execution.job), execution.entry)
        task.context = execution.context
        leases.hold([task], leases.now())
        return leases

    def capture(self, name: str, payload: str, error: Exception, options: Options) -> Job:
        """Store work that failed in ordinary code; without a handler it is dead at once."""
        entry = self.registry.get(name)
        execution = self.begin(entry or Entry.unregistered(name), payload, options)
        if isinstance(execution, Job):
            return execution
        execution.fail(error, captured=entry is None)
        return self.keep_failed(self.conclude(execution), options)

    def keep_failed(self, settlement: Settlement, options: Options) -> Job:
        """Store a job whose attempts were made in place, as its last one left it."""
        return self._report(self._add(self.settled(settlement), options.within), settlement)

    def _report(self, job: OneJob, settlement: Settlement) -> OneJob:
        runtime = self.runtime()
        runtime.report(job, settlement)
        runtime.counters.write_if_due(runtime.store)
        return job

    def keep_attempt(
        self, settlement: Settlement, *, is_stored: bool, reserve: float
    ) -> Job | None:
        """Store an attempt of a job that is retried in place; None if its lease was lost.

        While the job waits, workers leave it alone for `reserve` seconds after its due time.
        """
        verdict, held = settlement.verdict, settlement
        if isinstance(verdict, Retry):
            held = replace(settlement, verdict=replace(verdict, delay=verdict.delay + reserve))
        job = self.store.settle([held])[0] if is_stored else self._add(self.settled(held), None)
        if job is not None and held is not settlement:
            job = replace(job, due=job.due - reserve)
        return self._report(job, settlement)

    def settled(self, settlement: Settlement) -> Job:
        """Return the job after a settlement, the attempt in its history; nothing is stored."""
        return settled_job(settlement, now=self.settings.clock.now())

    def conclude(self, execution: Execution) -> Settlement:
        """Decide the next state of a job that ran in place."""
        return conclude(
            Claim(execution.job),
            execution.outcome,
            execution.entry,
            started=execution.started,
            duration=execution.duration,
            worker=worker_name(),
            release=self.settings.release,
            now=self.settings.clock.now(),
            rand=self.settings.rand,
        )

    def _stored_and_claimed(self, job: Job) -> Claim | Job:
        """Store a job and claim it; its delay keeps workers from claiming it first."""
        lease = self.settings.lease
        stored = self._add(replace(job, due=job.due + lease), None)
        if not stored.is_new:
            return stored
        claims = self.store.claim(
            [job.handler],
            limit=1,
            holder=self.holder,
            lease_for=lease,
            only=[stored.id],
            ignore_waits=True,
        )
        return claims[0] if claims else stored

    def _named(self, job: Job, entry: Entry) -> Job:
        may_differ = bool(entry.formerly or entry.arguments.renamed)
        known = self.existing(job.key) if job.key is not None and may_differ else None
        return _named_as(known, job, entry)

    def _add(self, job: Job, within: object) -> Job:
        return self.reported(self._store_all([job], within)[0])

    async def aadd(
        self, threads: Threads, entry: Entry, jobs: list[Job], within: object
    ) -> list[Job]:
        """Add jobs in the caller's transaction; all that may block runs on another thread."""
        ready = await hop(threads, self.ready, entry, jobs)
        stored = await self.store.aadd(threads, ready, within=within)
        return await hop(threads, lambda: [self.reported(job) for job in stored])

    def ready(self, entry: Entry, jobs: Iterable[Job]) -> list[Job]:
        """Return jobs as they are to be stored: by the store's clock, under the names of their keys."""
        return self._timed([self._named(job, entry) for job in jobs])

    def _store_all(self, jobs: list[Job], within: object = None) -> list[Job]:
        return self.store.add(self._timed(jobs), within=within)

    def _timed(self, jobs: list[Job]) -> list[Job]:
        """Return jobs with the times of the store's clock, if ours is another."""
        ahead = self.store.now() - self.settings.clock.now()
        return [shifted(job, ahead) for job in jobs] if abs(ahead) > _SAME_TIME else jobs

    def reported(self, stored: Job) -> Job:
        """Call the listeners for a new job; return it."""
        if not stored.is_new:
            self._warn_if_closed(stored)
        elif self.bus.has_listeners:
            self.bus.emit(Event("submitted", stored))
        return stored

    def _warn_if_closed(self, job: Job) -> None:
        if job.state in {State.DEAD, State.RESOLVED}:
            text = "key %s belongs to job %s, which is %s; to run it again: redrive retry %s"
            log.warning(text, job.key, job.id, job.state, job.id)


def _named_as(known: Job | None, job: Job, entry: Entry) -> Job:
    """Return a job as the job its key already has, where the handler or parameters were renamed."""
    if known is None:
        return job
    if known.handler in entry.formerly:
        job = replace(job, handler=known.handler)
    first = known.payload if known.original is None else known.original
    if entry.arguments.renamed and entry.arguments.is_same(first, job.payload):
        job = replace(job, payload=first)
    return job
