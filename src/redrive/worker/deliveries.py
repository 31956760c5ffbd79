"""Deliver events to the listeners of this program: one at a time to each, in order for each job.

An event is leased while its function runs. It is removed when the function returned, and put off when
it failed. If the process dies, the lease ends and another process delivers the event: at least once.
A worker has a thread for each listener with due events, so one that hangs delays no other.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial

from redrive.attempts.conclusions import settled_job
from redrive.attempts.executions import crash, late
from redrive.attempts.leases import Task
from redrive.attempts.listeners import delivery, listeners
from redrive.attempts.runtime import Runtime
from redrive.errors import StoreError
from redrive.jobs import durations, ids
from redrive.jobs.job import Claim, Dead, Retry, Return, Settlement
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed
from redrive.jobs.records import evolve
from redrive.payloads.masking import inert
from redrive.policies.policy import CRASH_LIMIT
from redrive.stores.note_verbs import PAUSE
from redrive.stores.outbox_verbs import OutboxEvent
from redrive.worker.passes import PassRunner
from redrive.worker.schedule import log_errors

EVERY = 0.5  # seconds between two checks of a worker for events
_SOONEST = 0.1  # seconds, at least, until a failed delivery is tried again
_RENEWALS = 3  # renewals in the time of one lease
_VANISHED = "the process that called the listener vanished"


class Deliveries:
    """Delivers the events that are due; `closing` makes it take no more."""

    def __init__(self, runtime: Runtime, program: Callable[[], str | None]) -> None:
        self.closing = False
        self._runtime = runtime
        self._program = program
        self._holder = ids.new_holder()
        self._threads: dict[str, threading.Thread] = {}
        self._running: set[OutboxEvent] = set()
        self._late: set[OutboxEvent] = set()

    @property
    def is_busy(self) -> bool:
        """True while a thread delivers; one whose event was settled as late is not waited for."""
        late_ones, threads = {event.subscription for event in tuple(self._late)}, self._threads
        return any(t.is_alive() for name, t in tuple(threads.items()) if name not in late_ones)

    @property
    def is_stuck(self) -> bool:
        """True while a listener runs that ignored its time limit."""
        return bool(self._late)

    def leave(self) -> None:
        """Put off events whose listeners still run: this process ends, and that is no crash."""
        for event in self._running - self._late:
            self._put_off(event)

    def start(self) -> None:
        """Start a thread for each listener with due events that has none."""
        while not self.closing and (event := self._take(is_free=self._has_no_thread)):
            deliver = partial(self.deliver, event, event.subscription.__eq__)
            work = (deliver, f"the delivery to listener {event.subscription}")
            thread = threading.Thread(
                target=log_errors, args=work, name="redrive-listener", daemon=True
            )
            self._threads[event.subscription] = thread
            try:
                thread.start()
            except BaseException:
                self._put_off(event)
                raise

    def _has_no_thread(self, subscription: str) -> bool:
        thread = self._threads.get(subscription)
        return thread is None or not thread.is_alive()

    def deliver(
        self, event: OutboxEvent | None = None, is_own: Callable[[str], bool] = bool
    ) -> None:
        """Deliver what is due in this thread, one event after the other."""
        event = event or self._take(is_own)
        if event is None:
            return
        with PassRunner(self._runtime, self._program).executing() as execute:
            while event is not None:
                self._deliver(event, execute)
                event = None if self.closing else self._take(is_own)

    def _take(self, is_free: Callable[[str], bool]) -> OutboxEvent | None:
        """Lease one event: if it takes this process down, those behind it are not touched."""
        entries, store = listeners(self._runtime.registry), self._runtime.store
        entries = {name: entry for name, entry in entries.items() if is_free(name)}
        paused = {note.name.removeprefix(PAUSE) for note in store.notes(PAUSE)} if entries else ()
        left_out = {*paused, *self._runtime.registry.withdrawn}
        names = [name for name, entry in entries.items() if entry.name not in left_out]
        if not names:
            return None
        events = store.take_events(
            subscriptions=names, holder=self._holder, lease_for=self._runtime.lease_for, limit=1
        )
        for event in events:
            self._running.add(event)
            if not self.closing:
                return event
            self._put_off(event)
        return None

    def _deliver(self, event: OutboxEvent, execute: Callable[[Task], Settlement]) -> None:
        """Call the listener and settle the event, unless that was done when it was late."""
        entry = listeners(self._runtime.registry)[event.subscription]
        now = self._runtime.now()
        task = Task(Claim(delivery(event, entry, holder=self._holder, now=now)), entry)
        try:
            with self._leased(event, task):
                settlement = self._attempt(event, task, execute)
            if event not in self._late:
                self._settle(event, settlement)
        finally:
            self._late.discard(event)

    @contextmanager
    def _leased(self, event: OutboxEvent, task: Task) -> Generator[None]:
        """Renew the lease inside `with`; put the event off if the program is being stopped."""
        done = threading.Event()
        thread = threading.Thread(
            target=self._keep_renewing, args=(event, task, done), name="redrive-event", daemon=True
        )
        task.began = time.monotonic()
        thread.start()
        try:
            yield
        except BaseException:
            self._put_off(event)
            raise
        finally:
            self._running.discard(event)
            done.set()
            thread.join()

    def _put_off(self, event: OutboxEvent) -> None:
        self._running.discard(event)
        with suppress(StoreError):  # else it is due when its lease has ended
            later = [(event.number, _SOONEST)]
            self._runtime.store.settle_events([], later, holder=self._holder)

    def _keep_renewing(self, event: OutboxEvent, task: Task, done: threading.Event) -> None:
        renew, lease_for = self._runtime.store.renew_events, self._runtime.lease_for
        while not done.wait(lease_for / _RENEWALS):
            try:
                if task.is_late:
                    self._give_up(event, task)
                    return
                renew([event.number], holder=self._holder, lease_for=lease_for)
            except StoreError as error:
                log.warning("the lease of an event could not be renewed: %s", error)

    def _give_up(self, event: OutboxEvent, task: Task) -> None:
        """Settle the delivery of a listener that ran past its limit and cannot be ended."""
        entry, started = task.entry, task.claim.job.updated
        failed = Failed(late(entry))
        duration = self._runtime.now() - started
        self._settle(event, self._runtime.conclude(task.claim, failed, entry, started, duration))
        self._late.add(event)
        log.error("listener %s ignored its time limit; its events wait here", event.subscription)

    def _attempt(
        self, event: OutboxEvent, task: Task, execute: Callable[[Task], Settlement]
    ) -> Settlement:
        """Call the listener; one that took too many processes down is not called again."""
        if event.lost < CRASH_LIMIT:
            return execute(task)
        job = task.claim.job
        claim = Claim(evolve(job, crashes=event.lost - 1))
        return self._runtime.conclude(claim, crash(_VANISHED), task.entry, job.updated, 0.0)

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
