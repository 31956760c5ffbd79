"""One pass over what is due: claim, run, decide, settle, and first sweep up after the dead.

Used by `app.run_due()`, by `redrive work --once`, and by tests. Jobs run one after the other in the
caller's thread (async ones on a loop of the pass); a heartbeat thread keeps the leases meanwhile.
"""

from __future__ import annotations

import random
import sys
import textwrap
import threading
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from redrive import _duration, redact
from redrive._clock import Clock
from redrive._log import log
from redrive.errors import StoreError, UsageError
from redrive.events import Bus, Event, Kind
from redrive.job import Claim, Completed, Dead, Interrupted, Job, Retry, Settlement, State
from redrive.stores.base import Query, Store, every
from redrive.strategy import Rand
from redrive.worker.context import Current
from redrive.worker.interrupts import Interrupts
from redrive.worker.registry import Entry, Registry
from redrive.worker.run import Execution, awaited, conclude, crash, finished, worker_name

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
        self._running: dict[str, Current] = {}
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
            self.heartbeat() as held,
            self._interrupts,
            # Closed here: an error's traceback would keep it, and what it holds, alive.
            closing(self._claims(held, ignore_waits=ignore_waits, only=only)) as claims,
        ):
            for claim in claims:
                self._run_one(claim, tally, loop)
                del held[claim.job.id]
                if limit and tally.taken >= limit:
                    break
        self._warn_of_strangers()
        return tally

    def _claims(
        self, held: dict[str, Claim], *, ignore_waits: bool, only: Collection[str] | None
    ) -> Generator[Claim]:
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
                    while claim := self._claim(ids, suspects=suspects, ignore_waits=ignore_waits):
                        held[claim.job.id] = claim
                        if claim.job.id in seen:
                            again.append(claim)
                            continue
                        seen.add(claim.job.id)
                        yield claim
                        if ids is not None:
                            break
        finally:
            self._give_back(again)

    def _claim(
        self, only: Collection[str] | None, *, suspects: bool, ignore_waits: bool
    ) -> Claim | None:
        claims = self.store.claim(
            self.registry.names(),
            limit=1,
            holder=self.holder,
            lease_for=self.lease_for,
            only=only,
            suspects=suspects,
            ignore_waits=ignore_waits,
        )
        return claims[0] if claims else None

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
        """Make one verdict true, then tell everybody. A refused one is only written to the log."""
        job = self.store.settle([settlement])[0]
        if job is None:
            claim = settlement.claim
            log.warning(
                "job %s: lease %d of %s was lost; its result (%s) was not taken",
                claim.job.id,
                claim.job.lease,
                claim.job.holder,
                settlement.attempt.outcome if settlement.attempt else "given back",
            )
            self.bus.emit(Event("lease_lost", claim.job))
            return None
        if tally is not None:
            tally.count(settlement)
        self.tell(job, settlement)
        return job

    def execute(self, claim: Claim, entry: Entry, loop: Loop) -> Settlement:
        """Run one claimed job here and decide what becomes of it."""
        execution = Execution(entry, claim.job, self.clock)
        self._running[claim.job.id] = execution.context
        try:
            with execution:
                if entry.is_async:
                    execution.value = loop(_called(entry, execution))
                else:
                    execution.value = finished(entry.function(**execution.arguments))
        except KeyboardInterrupt as error:
            if self._interrupts.seen:
                self.settle(self._conclude(claim, execution, entry))
                raise
            execution.fail(error)  # nobody pressed Ctrl-C: the handler raised it
        return self._conclude(claim, execution, entry)

    def _conclude(self, claim: Claim, execution: Execution, entry: Entry) -> Settlement:
        return conclude(
            claim,
            execution.outcome,
            entry,
            started=execution.started,
            duration=execution.duration,
            worker=self.worker,
            now=self.store.now(),
            rand=self.rand,
        )

    def _run_one(self, claim: Claim, tally: Tally, loop: Loop) -> None:
        entry = self.registry.need(claim.job.handler)
        try:
            self.settle(self.execute(claim, entry, loop), tally)
        finally:
            self._running.pop(claim.job.id, None)

    def _give_back(self, claims: list[Claim]) -> None:
        """Release claims that were never started; nothing is spent."""
        for claim in claims:
            settlement = conclude(
                claim, Interrupted(), None, started=0, duration=0, worker="", now=0
            )
            self.settle(settlement)

    @contextmanager
    def heartbeat(
        self, claim: Claim | None = None, context: Current | None = None
    ) -> Generator[dict[str, Claim]]:
        """Renew the leases of all claims in the dict that comes back, until the end."""
        held = {} if claim is None else {claim.job.id: claim}
        if claim is not None and context is not None:
            self._running[claim.job.id] = context
        stop = threading.Event()

        def beat() -> None:
            while not stop.wait(self.lease_for / 3):
                try:
                    self._renew(list(held.values()))
                except StoreError as error:
                    log.warning("leases could not be renewed, trying again: %s", error)

        thread = threading.Thread(target=beat, name="redrive-heartbeat", daemon=True)
        thread.start()
        try:
            yield held
        finally:
            stop.set()
            thread.join()

    def _renew(self, claims: list[Claim]) -> None:
        """Lengthen leases; a handler whose lease is gone is told, so that it can stop."""
        for claim, ours in zip(
            claims, self.store.renew(claims, lease_for=self.lease_for), strict=True
        ):
            context = self._running.get(claim.job.id)
            if not ours and context is not None:
                context.lose()

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
