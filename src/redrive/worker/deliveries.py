"""Deliver events to the listeners of this program: one at a time, in order for each job.

An event is leased while its function runs. It is removed when the function returned, and put off when
it failed. If the process dies, the lease ends and another process delivers the event: at least once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from redrive.attempts.conclusions import settled_job
from redrive.attempts.executions import crash
from redrive.attempts.leases import Task
from redrive.attempts.listeners import delivery, listeners
from redrive.attempts.runtime import Runtime
from redrive.errors import StoreError
from redrive.jobs import durations, ids
from redrive.jobs.job import Claim, Dead, Retry, Return, Settlement
from redrive.jobs.logger import log
from redrive.jobs.records import evolve
from redrive.payloads.masking import inert
from redrive.policies.policy import CRASH_LIMIT
from redrive.stores.note_verbs import PAUSE
from redrive.stores.outbox_verbs import OutboxEvent
from redrive.worker.passes import PassRunner

EVERY = 0.5  # seconds between two checks of a worker for events
_SOONEST = 0.1  # seconds, at least, until a failed delivery is tried again
_RENEWALS = 3  # renewals in the time of one lease
_VANISHED = "the process that called the listener vanished"


class Deliveries:
    """Delivers the events that are due; `closing` makes it stop after the present one."""

    def __init__(self, runtime: Runtime, program: Callable[[], str | None]) -> None:
        self.closing = False
        self._runtime = runtime
        self._runner = PassRunner(runtime, program)
        self._holder = ids.new_holder()
        self._running: OutboxEvent | None = None

    @property
    def is_busy(self) -> bool:
        """True while a listener runs."""
        return self._running is not None

    def leave(self) -> None:
        """Put off an event whose listener still runs: this process ends, and that is no crash."""
        if (event := self._running) is not None:
            self._put_off(event)

    def deliver(self) -> None:
        """Deliver what is due, one event after the other."""
        event = self._take()
        if event is None:
            return
        with self._runner.executing() as execute:
            while event is not None:
                with self._leased(event):
                    settlement = self._attempt(event, execute)
                self._settle(event, settlement)
                event = None if self.closing else self._take()

    def _take(self) -> OutboxEvent | None:
        """Lease the next event, only one: if it takes this process down, no other is touched."""
        entries, store = listeners(self._runtime.registry), self._runtime.store
        paused = {note.name.removeprefix(PAUSE) for note in store.notes(PAUSE)} if entries else ()
        left_out = {*paused, *self._runtime.registry.withdrawn}
        names = [name for name, entry in entries.items() if entry.name not in left_out]
        if not names:
            return None
        events = store.take_events(
            subscriptions=names, holder=self._holder, lease_for=self._runtime.lease_for, limit=1
        )
        return events[0] if events else None

    @contextmanager
    def _leased(self, event: OutboxEvent) -> Generator[None]:
        """Renew the lease inside `with`; put the event off if the program is being stopped."""
        done = threading.Event()
        thread = threading.Thread(
            target=self._keep_renewing, args=(event.number, done), name="redrive-event", daemon=True
        )
        thread.start()
        self._running = event
        try:
            yield
        except BaseException:
            self._put_off(event)
            raise
        finally:
            self._running = None
            done.set()
            thread.join()

    def _put_off(self, event: OutboxEvent) -> None:
        with suppress(StoreError):  # else it is due when its lease has ended
            later = [(event.number, _SOONEST)]
            self._runtime.store.settle_events([], later, holder=self._holder)

    def _keep_renewing(self, number: int, done: threading.Event) -> None:
        lease_for = self._runtime.lease_for
        while not done.wait(lease_for / _RENEWALS):
            try:
                self._runtime.store.renew_events([number], holder=self._holder, lease_for=lease_for)
            except StoreError as error:
                log.warning("the lease of an event could not be renewed: %s", error)

    def _attempt(self, event: OutboxEvent, execute: Callable[[Task], Settlement]) -> Settlement:
        """Call the listener; one that took too many processes down is not called again."""
        entry = listeners(self._runtime.registry)[event.subscription]
        now = self._runtime.now()
        job = delivery(event, entry, holder=self._holder, now=now)
        if event.lost < CRASH_LIMIT:
            return execute(Task(Claim(job), entry))
        claim = Claim(evolve(job, crashes=event.lost - 1))
        return self._runtime.conclude(claim, crash(_VANISHED), entry, now, 0.0)

    def _settle(self, event: OutboxEvent, settlement: Settlement) -> None:
        verdict, delay = settlement.verdict, None
        if isinstance(verdict, Dead):
            self._bury(settlement)
        elif isinstance(verdict, Retry | Return):
            delay = max(verdict.delay or 0.0, _SOONEST)
            _log_failure(event, settlement, delay)
        done, later = ([event.number], []) if delay is None else ([], [(event.number, delay)])
        self._runtime.store.settle_events(done, later, holder=self._holder)

    def _bury(self, settlement: Settlement) -> None:
        """Store a delivery that is given up as a dead letter; after a crash it is stored already."""
        job = settled_job(settlement, now=self._runtime.now())
        failure = settlement.attempt.failure if settlement.attempt else None
        spent = {failure.category: job.attempts} if failure else {}
        (stored,) = self._runtime.store.add([evolve(job, spent=spent)])
        self._runtime.report(stored, settlement)


def _log_failure(event: OutboxEvent, settlement: Settlement, delay: float) -> None:
    failure = settlement.attempt.failure if settlement.attempt else None
    log.info(
        "listener %s failed on %s of job %s: %s; next attempt in %s",
        event.subscription,
        event.kind,
        event.job_id,
        inert(failure.why) if failure else "it could not be called",
        durations.words(delay),
        extra={"event": "listener_failed", "job": event.job_id, "listener": event.subscription},
    )
