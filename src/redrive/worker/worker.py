"""The worker: claims jobs in batches, dispatches them and settles their results.

One thread steers: it settles, claims, calls its periodic tasks, and waits until something happens.
Handlers run elsewhere (`dispatch`), so they cannot stop it; another thread renews the leases.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self, Unpack

from redrive.attempts import presence
from redrive.attempts.leases import Task
from redrive.attempts.runtime import ClaimOptions, Runtime
from redrive.errors import StoreError
from redrive.events import ThreadedBus
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Settlement
from redrive.jobs.logger import log
from redrive.policies.policy import Policy
from redrive.runs import driver
from redrive.stores.counting import FOLD_EVERY
from redrive.worker import health, suspects, sweep
from redrive.worker.deliveries import EVERY as DELIVER_EVERY
from redrive.worker.deliveries import Deliveries
from redrive.worker.dispatch import Dispatcher
from redrive.worker.schedule import (
    LOG_EVERY,
    ClaimPace,
    Periodic,
    PeriodicThread,
    ProgressLog,
    UnservedLog,
    Waiter,
    Watcher,
)
from redrive.worker.threads import Settler

_LINGER = 0.005  # seconds that results of quick jobs may wait for one another
_LEAKS = 3  # handlers that never returned, after which the process should be replaced
_LAST_EVENTS = 2.0  # seconds in which listeners are called with the last events
_PAUSES = 0.2  # seconds between two checks of pauses
_SPARE = 2.0  # seconds of the grace, at most, in which what did not end is returned
_LAST_SETTLE = 1.0
"""Seconds, at least, in which what has ended is settled at the end, whatever the grace."""
_WATCH = 5.0  # seconds between two checks of a watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The settings of one worker."""

    concurrency: int = 8
    """Plain handlers at one time, and as many async ones."""
    batch: int = 100
    """Jobs claimed at once, at most."""
    poll: float = 0.5
    """Seconds between two claims without a hint of the store."""
    grace: float = 30.0
    """Seconds in which a shutdown is over; running jobs may end in most of them."""
    cleanup: float = 60.0
    """Seconds between two removals of old finished jobs."""
    replaced: bool = False
    """True if a supervisor starts another process when this one asks for it."""

    @classmethod
    def of(
        cls, concurrency: int, batch: int, poll: Duration, grace: Duration, *, replaced: bool
    ) -> Self:
        """Return the settings a program gave; UsageError for one that makes no sense."""
        return cls(
            concurrency=checks.whole(concurrency, "concurrency", least=1),
            batch=checks.whole(batch, "batch", least=1),
            poll=durations.seconds(poll, name="poll"),
            grace=durations.seconds(grace, name="grace"),
            replaced=replaced,
        )


class Worker:
    """Runs jobs until it is stopped: in a thread of its own inside `with`, or by `run()`."""

    wants_replacement = False
    """True if it stopped because its process should be replaced by a new one."""
    lost_store = False
    """True if it stopped because its store is gone: a new process has to open it again."""
    _busy = 0
    _noted, _complained = False, ""
    _alive = False
    _stopping: float | None = None
    _spare = _SPARE
    _thread: threading.Thread | None = None

    def __init__(
        self,
        runtime: Runtime,
        settings: WorkerSettings,
        *,
        policy: Policy,
        program: str | None = None,
        parent: int = 0,
        cleanup: Callable[[], object] = lambda: None,
        watcher: Watcher | None = None,
    ) -> None:
        runtime.pauses.burst = 1.5 * _PAUSES
        self.runtime = runtime
        self.settings = settings
        self.policy = policy
        self.dead_holders: list[str] = []
        """Holders whose process has ended for certain; their jobs need not wait for their lease."""
        self._loss = health.StoreLoss(is_server=runtime.store.is_server)
        self._process = health.ProcessCheck()
        self._cleanup = cleanup
        self._watcher = watcher
        self._parent = parent
        self._leases = runtime.leases()
        self._waiter = Waiter(runtime.store, settings.poll)
        self._pace = ClaimPace(settings.concurrency, settings.batch)
        self._dispatcher = Dispatcher(
            runtime, self._leases, settings.concurrency, program, notify=self._on_result
        )
        wake, ended = self._waiter.wake, self._dispatcher.ended
        self._settler = Settler(runtime, ended, settings.batch, wake=wake, forget=self._forget)
        claim_suspects = partial(self._claimed, suspects=True)
        self._suspects = suspects.Suspects(self._dispatcher, claim_suspects, lambda: self._busy)
        self._watch = health.LoopWatch(self._dispatcher, runtime, settings.replaced)
        self._steering = health.Steering()
        self._driver = driver.Driver(runtime.store, runtime.bus, runtime.holder)
        self._deliveries = Deliveries(runtime, lambda: program)
        self._progress = ProgressLog(runtime)
        self._unserved = UnservedLog(runtime)
        self._heartbeat = Periodic(presence.SIGN_EVERY, self._watch.sign)
        self._periodic = self._make_periodic()

    def _make_periodic(self) -> list[Periodic]:
        lease = self.runtime.lease_for
        has_listeners = any(entry.kinds for entry in self.runtime.registry)
        return [
            Periodic(_PAUSES, self._pass_pauses),
            Periodic(suspects.EVERY, self._suspects.take),
            PeriodicThread(lease / 2, self._sweep),
            self._heartbeat,
            PeriodicThread(self.settings.cleanup, self._clean_up),
            PeriodicThread(FOLD_EVERY, self.runtime.store.fold),
            PeriodicThread(driver.EVERY, self._driver.tick),
            PeriodicThread(LOG_EVERY, self._progress.tick),
            *([PeriodicThread(_WATCH, self._watcher.tick)] if self._watcher else []),
            *([PeriodicThread(DELIVER_EVERY, self._deliveries.start)] if has_listeners else []),
        ]

    def _sweep(self) -> None:
        sweep.sweep(self.runtime)
        while self.dead_holders:
            sweep.sweep_holder(self.runtime, self.dead_holders[0])
            del self.dead_holders[0]

    def _clean_up(self) -> None:
        self._cleanup()
        sweep.bury_unserved(self.runtime, self.policy)
        self._unserved.tick()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name="redrive-worker", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def stop(self, grace: float | None = None) -> None:
        """Claim nothing more, let what runs end, return the rest. Signal handlers may call it."""
        grace = self.settings.grace if grace is None else grace
        self._spare = min(self._spare, grace / 4)
        end = time.monotonic() + grace - self._spare
        self._stopping = end if self._stopping is None else min(self._stopping, end)
        self._waiter.wake()

    @property
    def is_stopping(self) -> bool:
        """True if it was asked to stop."""
        return self._stopping is not None

    @property
    def drained_by(self) -> float | None:
        """The second of the monotonic clock by which all has ended; None while it works."""
        return None if self._stopping is None else self._stopping + self._spare

    @property
    def is_alive(self) -> bool:
        """True while it works or drains."""
        return self._alive

    @property
    def is_moving(self) -> bool:
        """True if the steering thread waits, drains, or is not too long in one round."""
        return self.is_stopping or self._waiter.is_asleep or self._steering.is_moving

    def run(self) -> None:
        """Work until stopped, then drain."""
        self._alive = True
        try:
            self._run()
        finally:
            self._alive = False

    def _run(self) -> None:
        with self._waiter, self._leases:
            self._try(self._progress.begin)
            while self._stopping is None:
                self._try(self._steer)
                self._check_parent()
                self._check_health()
            self._dispatcher.closing = self._deliveries.closing = True
            if self._busy:
                self._try(self._watch.sign)  # it takes no more jobs
            while (self._busy or self._deliveries.is_busy) and time.monotonic() < self._stopping:
                self._try(self._drain)
            self._dispatcher.end(self._spare / 2)
            self._settle_last()
            for task in self._periodic:
                task.join(self._spare)
            self._try(self._leave)
        self._dispatcher.close()
        self._settler.close()
        if isinstance(self.runtime.bus, ThreadedBus):
            self.runtime.bus.close(_LAST_EVENTS)

    def _try(self, work: Callable[[], None]) -> None:
        """Do one round; an error in it does not prevent the next one."""
        self._steering.begin_round()
        try:
            work()
            self._loss.worked()
            self._process.worked()
        except StoreError as error:
            log.warning("the store cannot be used now, trying again: %s", error)
            if self._loss.failed(error):
                self._leave_store(error)
            self._waiter.back_off()
        except Exception:
            self._process.failed()
            log.exception("a round of the worker failed; trying again")
            self._waiter.back_off()

    def _steer(self) -> None:
        if not self._noted:
            suspects.note_begun(self.runtime.store, self.runtime.holder, ())
            self._noted = True
        if self._loss.is_suspected:  # reading may still work, so try a write
            self._watch.sign()
        self._settler.settle()
        self._dispatcher.begin_lasts()
        self._claim()
        self._do_periodic()
        self._waiter.wait(self._patience(), unless=lambda: self._settler.is_due)

    def _on_result(self) -> None:
        """Wake the steering thread if few tasks are left to run."""
        if self._waiter.is_asleep and self._dispatcher.in_line <= self._pace.low:
            self._waiter.rouse()

    def _patience(self) -> float:
        if self._pace.ahead:
            return _LINGER
        longest = _PAUSES / 4 if self.runtime.pauses.is_releasing else self.settings.poll
        return min(longest, 0.05) if self._dispatcher.has_limits else longest

    def _settle_last(self) -> None:
        """Settle what ended last; try again if the store fails."""
        until = time.monotonic() + max(self._spare, _LAST_SETTLE)
        self._try(self._settler.settle)
        while self._settler.has_work and (left := until - time.monotonic()) > 0:
            self._try(partial(self._settler.settle, left))

    def _leave(self) -> None:
        self._deliveries.leave()
        presence.leave(self.runtime)
        self._driver.leave()
        self._progress.leave()
        if self._watcher:
            self._watcher.leave()
        if not self._settler.has_work:
            suspects.remove_begun(self.runtime.store, self.runtime.holder)

    def _forget(self, tasks: list[Task], settlements: list[Settlement]) -> None:
        """Drop tasks that are settled."""
        self._waiter.expect(settlements)
        self._leases.drop(tasks)
        self._dispatcher.forget(tasks)
        self._busy -= len(tasks)
        self._pace.count(len(tasks))
        self._suspects.settled(tasks)

    def _claim(self) -> None:
        if self._suspects.must_be_alone or not self._waiter.may_claim:
            return
        room = self._pace.room(self._busy, self._dispatcher.waiting)
        if room > 0:
            tasks = self._claimed(room)
            self._waiter.claimed(len(tasks), room)
            self._dispatcher.put(tasks)

    def _pass_pauses(self) -> None:
        """Claim what may run past a pause: a probe, or a share of a backlog that is released."""
        if self._suspects.must_be_alone:
            return
        room = self._pace.room(self._busy, self._dispatcher.waiting)
        for grant in self.runtime.pauses.grants(room):
            tasks = self._claimed(grant.jobs, lanes=[grant.lane], past_pauses=True)
            self.runtime.pauses.used(grant, len(tasks))
            self._dispatcher.put(tasks)

    def _claimed(self, limit: int, **options: Unpack[ClaimOptions]) -> list[Task]:
        tasks = self.runtime.claim(self._leases, limit, **options)
        self._busy += len(tasks)
        return tasks

    def _do_periodic(self) -> None:
        self._dispatcher.give_up_late()
        if self._suspects.is_pressing:
            self._suspects.take()
        if self.runtime.pauses.is_held_up:
            self._pass_pauses()
        now = time.monotonic()
        for task in self._periodic:
            task.tick(now)

    def _check_health(self) -> None:
        if len(self._dispatcher.leaked) >= _LEAKS:
            self._replace(f"{len(self._dispatcher.leaked)} handlers ignored their time limit")
        elif self._dispatcher.is_refusing:
            self._replace("a job is due again whose handler ignored its time limit and still runs")
        elif self._deliveries.is_stuck:
            self._replace("a listener ignored its time limit and still runs")
        elif self._process.is_ruined():
            self._replace(
                f"this process cannot work any more ({self._process.why})", health.RUINED_GRACE
            )
        if self._watch.is_given_up():
            self._replace("the event loop of the async handlers was blocked or broken")

    def _leave_store(self, error: StoreError) -> None:
        """Stop because the store is gone and a supervisor starts another process."""
        if self.settings.replaced and not self.is_stopping:
            log.error("the store is gone; this worker drains, and should be replaced: %s", error)
            self.lost_store = True
            self.stop()

    def _check_parent(self) -> None:
        """Stop if the supervisor that started us is gone: nobody would ever end this process."""
        if self._parent and os.getppid() != self._parent:
            log.error("the supervisor is gone; this worker drains")
            self.stop()

    def _replace(self, why: str, grace: float | None = None) -> None:
        """Stop, to be replaced by a new process; without a supervisor log it and go on."""
        if not self.settings.replaced:
            if why != self._complained:
                log.error("%s; the program should be started again", why)
            self._complained = why
            return
        log.error("%s; this worker drains, and should be replaced", why)
        self.wants_replacement = True
        self.stop(grace)

    def _drain(self) -> None:
        self._dispatcher.take_back()
        self._suspects.drain()
        self._settler.settle()
        self._dispatcher.give_up_late()
        self._heartbeat.tick(time.monotonic())
        if self._busy or self._deliveries.is_busy:
            self._waiter.wait(0.05, unless=lambda: self._settler.is_due)
