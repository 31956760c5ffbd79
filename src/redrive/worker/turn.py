"""One pass over what is due: claim, run, decide, settle, and first sweep up after the dead.

Used by `app.run_due()`, by `redrive work --once`, and by tests. Jobs run one after the other in the
caller's thread (async ones on a loop of the pass); a heartbeat thread keeps the leases meanwhile.
"""

from __future__ import annotations

import random
import sys
import textwrap
from collections.abc import Callable, Collection, Coroutine, Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass

from redrive import _duration, redact
from redrive._clock import Clock
from redrive._log import log
from redrive.errors import StoreError, UsageError
from redrive.events import Bus, Event, Kind
from redrive.job import Claim, Completed, Dead, Job, Outcome, Retry, Settlement, State
from redrive.stores.base import Query, Store, every
from redrive.strategy import Rand
from redrive.worker.interrupts import Interrupts
from redrive.worker.leases import Leases, Task
from redrive.worker.pauses import Pauses
from redrive.worker.registry import Entry, Registry, warn_unlimited
from redrive.worker.run import (
    Execution,
    awaited,
    conclude,
    crash,
    finished,
    given_back,
    worker_name,
)

Loop = Callable[[Coroutine[object, object, object]], object]


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did: taken = succeeded + failed; died is part of failed."""

    taken: int = 0
    succeeded: int = 0
    failed: int = 0
    died: int = 0
    purged: int = 0


@dataclass(slots=True)
class Tally:
    """The numbers of a pass while it goes on."""

    taken: int = 0
    succeeded: int = 0
    failed: int = 0
    died: int = 0

    def count(self, settlement: Settlement) -> None:
        """Count one settled claim; a given-back one does not count."""
        match settlement.verdict:
            case Completed():
                self.succeeded += 1
            case Retry():
                self.failed += 1
            case Dead():
                self.failed += 1
                self.died += 1
            case _:
                return
        self.taken += 1


class Turn:
    """Everything a pass needs: where jobs are, who handles them, what time it is."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        holder: str,
        lease_for: float,
        clock: Clock,
        bus: Bus,
        rand: Rand = random.random,
    ) -> None:
        self.store = store
        self.registry = registry
        self.holder = holder
        self.lease_for = lease_for
        self.clock = clock
        self.bus = bus
        self.rand = rand
        self.worker = worker_name()
        self.pauses = Pauses(store, registry, bus)
        self._interrupts = Interrupts()

    def run(
        self, *, ignore_waits: bool = False, only: Collection[str] | None = None, limit: int = 0
    ) -> Tally:
        """Run each due job once; a job that fails without a wait is left for the next pass.

        Jobs are claimed one at a time: if one takes this process down, no other is touched.
        """
        _refuse_running_loop(self.registry)
        tally = Tally()
        self.sweep(tally)
        with (
            _loop(self.registry) as loop,
            self.leases() as leases,
            self._interrupts,
            # Closed here: an error's traceback would keep it, and what it holds, alive.
            closing(self._tasks(leases, ignore_waits=ignore_waits, only=only)) as tasks,
        ):
            for task in tasks:
                self._run_one(task, tally, loop)
                leases.drop(task)
                if limit and tally.taken >= limit:
                    break
        self._warn_of_strangers()
        return tally

    def _tasks(
        self, leases: Leases, *, ignore_waits: bool, only: Collection[str] | None
    ) -> Generator[Task]:
        """Give one claim after the other, each job once; those that crashed before come last."""
        if ignore_waits and only is None:
            pending = Query(states=frozenset({State.PENDING}))
            only = [job.id for job in every(self.store, pending)]
        chosen = [None] if only is None else [[one] for one in only]
        seen: set[str] = set()
        again: list[Claim] = []
        try:
            for suspects in (False, True):
                for ids in chosen:
                    while task := self._claim(leases, ids, suspects, ignore_waits):
                        if task.claim.job.id in seen:
                            again.append(task.claim)
                            continue
                        seen.add(task.claim.job.id)
                        yield task
                        if ids is not None:
                            break
        finally:
            self._give_back(again)

    def _claim(
        self, leases: Leases, only: Collection[str] | None, suspects: bool, ignore_waits: bool
    ) -> Task | None:
        since = leases.now()
        claims = self.store.claim(
            self.registry.names(),
            limit=1,
            holder=self.holder,
            lease_for=self.lease_for,
            only=only,
            suspects=suspects,
            ignore_waits=ignore_waits,
        )
        if not claims:
            return None
        task = Task(claims[0], self.registry.need(claims[0].job.handler))
        leases.hold(task, since)
        return task

    def _warn_of_strangers(self) -> None:
        """Say which due jobs nobody here can run: they wait and spend nothing."""
        now, known = self.store.now(), self.registry.names()
        lanes = {
            count.lane
            for count in self.store.counts()
            if count.state is State.PENDING and count.oldest is not None and count.oldest <= now
        }
        for lane in sorted(lanes - known):
            due = Query(lane=lane, states=frozenset({State.PENDING}))
            names = {job.handler for job in self.store.find(due).jobs} - known
            for name in sorted(names):
                log.warning("jobs are due for %s, but no handler of that name is here", name)

    def sweep(self, tally: Tally | None = None) -> int:
        """Take over jobs whose worker vanished, and decide about each like about any failure.

        Only those this program knows: others have policies that are not ours to guess.
        """
        total = 0
        while claims := self.store.seize(
            by=self.holder, lease_for=self.lease_for, handlers=self.registry.names()
        ):
            for claim in claims:
                self._bury(claim, tally)
            total += len(claims)
        return total

    def _bury(self, claim: Claim, tally: Tally | None) -> None:
        """Settle a job whose worker vanished; whatever goes wrong with it stops no other."""
        why = "worker vanished, lease expired"
        log.warning("job %s: %s (held by %s)", claim.job.id, why, claim.lost_by)
        try:
            settlement = conclude(
                claim,
                crash(why),
                self.registry.need(claim.job.handler),
                started=claim.job.updated,
                duration=max(0.0, self.clock.now() - claim.job.updated),
                worker=claim.lost_by or "",
                now=self.store.now(),
                rand=self.rand,
            )
            self.settle(settlement, tally)
        except StoreError:
            raise
        except Exception:
            log.exception("job %s could not be settled; it stays for the next sweep", claim.job.id)

    def settle(self, settlement: Settlement, tally: Tally | None = None) -> Job | None:
        """Make one verdict true, then tell everybody."""
        job = self.store.settle([settlement])[0]
        if tally is not None and job is not None:
            tally.count(settlement)
        self._told(job, settlement)
        return job

    def settle_all(self, settlements: Sequence[Settlement]) -> None:
        """Make many verdicts true in one write; if one of them is at fault, each in its own."""
        try:
            jobs = self.store.settle(settlements)
        except StoreError:
            raise
        except Exception:
            if len(settlements) == 1:
                raise
            log.exception("settling a batch failed; settling one by one")
            for one in settlements:
                self._settle_alone(one)
            return
        for job, settlement in zip(jobs, settlements, strict=True):
            self._told(job, settlement)

    def _settle_alone(self, settlement: Settlement) -> None:
        try:
            self.settle(settlement)
        except StoreError:
            raise
        except Exception:
            job_id = settlement.claim.job.id
            log.exception("job %s could not be settled; it stays for the next sweep", job_id)

    def _told(self, job: Job | None, settlement: Settlement) -> None:
        """Tell everybody of a verdict. A refused one is only written to the log."""
        if job is not None:
            self.tell(job, settlement)
            self.pauses.seen(settlement)
            return
        claim = settlement.claim
        log.warning(
            "job %s: lease %d of %s was lost; its result (%s) was not taken",
            claim.job.id,
            claim.job.lease,
            claim.job.holder,
            settlement.attempt.outcome if settlement.attempt else "given back",
        )
        self.bus.emit(Event("lease_lost", claim.job))

    def tell_claimed(self, claims: Sequence[Claim]) -> None:
        """Tell the listeners of jobs that were claimed."""
        if self.bus.has_listeners:
            for claim in claims:
                self.bus.emit(Event("claimed", claim.job))

    def execute(self, task: Task, loop: Loop) -> Settlement:
        """Run one claimed job here and decide what becomes of it."""
        claim, entry = task.claim, task.entry
        execution = Execution(entry, claim.job, self.clock)
        task.context = execution.context
        try:
            with execution:
                if entry.is_async:
                    execution.value = loop(_called(entry, execution))
                else:
                    warn_unlimited(entry)
                    execution.value = finished(entry.function(**execution.arguments))
        except KeyboardInterrupt as error:
            if self._interrupts.seen:
                self.settle(self._conclude(claim, execution, entry))
                raise
            execution.fail(error)  # nobody pressed Ctrl-C: the handler raised it
        return self._conclude(claim, execution, entry)

    def _conclude(self, claim: Claim, execution: Execution, entry: Entry) -> Settlement:
        return self.conclude(claim, execution.outcome, entry, execution.started, execution.duration)

    def conclude(
        self, claim: Claim, outcome: Outcome, entry: Entry, started: float, duration: float
    ) -> Settlement:
        """Decide what becomes of a job that ran here."""
        return conclude(
            claim,
            self.pauses.excused(entry, claim.job, outcome),
            entry,
            started=started,
            duration=duration,
            worker=self.worker,
            now=self.store.now(),
            rand=self.rand,
        )

    def _run_one(self, task: Task, tally: Tally, loop: Loop) -> None:
        self.settle(self.execute(task, loop), tally)

    def _give_back(self, claims: list[Claim]) -> None:
        """Release claims that were never started; nothing is spent."""
        for claim in claims:
            self.settle(given_back(claim))

    def leases(self) -> Leases:
        """Give a keeper of leases; inside `with` its heartbeat runs."""
        return Leases(self.store, lease_for=self.lease_for, clock=self.clock)

    def tell(self, job: Job, settlement: Settlement) -> None:
        """Log what became of a job and tell the listeners, once it is true."""
        failure = settlement.attempt.failure if settlement.attempt else None
        kinds: dict[State, Kind] = {State.COMPLETED: "succeeded", State.DEAD: "died"}
        kind = kinds.get(job.state, "failed" if failure else "released")
        if kind == "died":
            log.warning(
                "dead_letter job=%s handler=%s reason=%s attempts=%d cause=%s %s\n%s",
                job.id,
                job.handler,
                job.reason,
                job.attempts,
                f"G{job.group}" if job.group else "-",
                redact.inert(job.detail),
                _indented(failure.traceback if failure else ""),
            )
        elif kind == "failed":
            log.info(
                "job %s (%s) failed: %s; next try in %s",
                job.id,
                job.handler,
                redact.inert(failure.why) if failure else "",
                _duration.words(max(0.0, job.due - job.updated)),
            )
        self.bus.emit(Event(kind, job, failure, job.detail))


def _indented(text: str) -> str:
    """Make many lines safe for a log: none can pass for a line of its own."""
    return textwrap.indent(redact.inert(text, keep_newlines=True), "    ", lambda _: True)


def _refuse_running_loop(registry: Registry) -> None:
    """Say so before any job is claimed: async handlers need a loop that is not taken."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001 - the only one that does not raise
        return
    if any(entry.is_async for entry in registry):
        msg = (
            "run_due() inside a running event loop cannot run async handlers; "
            "use `await app.aio(app.run_due)`"
        )
        raise UsageError(msg)


@contextmanager
def _loop(registry: Registry) -> Generator[Loop]:
    """Give a way to run coroutines to their end; a loop is made only if a handler needs one."""
    if not any(entry.is_async for entry in registry):
        yield _no_loop
        return
    import asyncio  # noqa: PLC0415 - slow to import, and many programs have no async handler

    with asyncio.Runner() as runner:
        yield runner.run


def _no_loop(_: Coroutine[object, object, object]) -> object:
    msg = "no async handler is registered"
    raise UsageError(msg)


async def _called(entry: Entry, execution: Execution) -> object:
    return await awaited(execution, entry.function(**execution.arguments))
