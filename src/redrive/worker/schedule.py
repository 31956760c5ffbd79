"""When a worker looks for work again, how much it claims, and what else it does from time to time.

It looks when the store sent a hint, when a job it knows of falls due, when the last claim returned as
much as was asked for, and after `poll` seconds in any case: hints may be lost, so nothing depends on
one.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import select
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, Self

from redrive.attempts import worker_notes
from redrive.attempts.counters import ALERT
from redrive.attempts.runtime import Runtime
from redrive.errors import StoreError
from redrive.jobs.job import Retry, Return, Settlement, State
from redrive.jobs.logger import log, write_line_counts
from redrive.payloads.masking import inert, mask_text
from redrive.stores.contract import Query, Store
from redrive.stores.note_verbs import PAUSE

if TYPE_CHECKING:
    from redrive.stores.listening import HintListener

_KNOWN = 1000
"""How many coming due times are remembered; the other jobs are found after `poll` seconds."""
_LONGEST_WAIT = 2.0
_AHEAD = 0.1  # seconds of work that may wait here for a free slot
_WINDOW = 0.02
_STALE = 1.0
LOG_EVERY = 1.0  # seconds between two checks whether the queue is empty
_SUM_EVERY = 10.0
_QUEUED = frozenset({State.PENDING, State.RUNNING})


def queued(store: Store) -> int:
    """Count the jobs that are pending or running."""
    return sum(count.jobs for count in store.counts() if count.state in _QUEUED)


class Waiter:
    """Where a worker's steering thread waits; inside `with` it can be woken."""

    def __init__(self, store: Store, poll: float) -> None:
        self._store = store
        self._poll = poll
        self._listener: HintListener | None = None
        self._bell: socket.socket | None = None
        self._button: socket.socket | None = None
        self.is_asleep = False
        """True while the steering thread waits and `rouse` would wake it."""
        self._has_hint = True
        self._next_claim = 0.0
        self._dues: list[float] = []
        self._trouble = 0.0

    def __enter__(self) -> Self:
        self._bell, self._button = socket.socketpair()
        self._bell.setblocking(False)
        self._button.setblocking(False)
        self._listener = self._store.listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self._listener is not None:
            self._listener.close()
        for end in (self._bell, self._button):
            if end is not None:
                end.close()

    @property
    def may_claim(self) -> bool:
        """True if a claim may find jobs."""
        now = time.monotonic()
        while self._dues and self._dues[0] <= now:
            heapq.heappop(self._dues)
            self._has_hint = True
        return self._has_hint or now >= self._next_claim

    def claimed(self, number: int, asked: int) -> None:
        """Note the result of a claim: less than asked for means that no more is due now."""
        self._has_hint = number >= asked
        self._next_claim = time.monotonic() + self._poll
        self._trouble = 0.0

    def expect(self, settlements: Iterable[Settlement]) -> None:
        """Remember when jobs that wait fall due."""
        for settlement in settlements:
            verdict = settlement.verdict
            delay = verdict.delay if isinstance(verdict, Retry | Return) else None
            if delay is not None and len(self._dues) < _KNOWN:
                heapq.heappush(self._dues, time.monotonic() + delay)

    def wait(self, timeout: float, *, unless: Callable[[], object]) -> None:
        """Wait until woken, or until the next claim is due; not at all if `unless` returns True."""
        now = time.monotonic()
        # A claim that is due already waits for room, not for time.
        coming = [at - now for at in (self._next_claim, *self._dues[:1]) if at > now]
        self.is_asleep = True
        try:
            if not unless():
                self._sleep(min([timeout, *coming]))
        finally:
            self.is_asleep = False

    def _sleep(self, seconds: float) -> None:
        assert self._bell is not None  # noqa: S101 - made on entering
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        listener = -1 if self._listener is None else self._listener.fileno()
        if listener >= 0 and not self._has_hint:  # with a hint it waits for room
            poller.register(listener, select.POLLIN)
        ready = {number for number, _ in poller.poll(seconds * 1000)}
        if self._bell.fileno() in ready:
            with contextlib.suppress(BlockingIOError):
                while self._bell.recv(4096):
                    pass
        if self._listener is not None and (listener in ready or listener < 0):
            self._listener.drain()  # without a descriptor too: then they connect again
            self._has_hint |= listener in ready

    def wake(self) -> None:
        """End the wait; safe in a signal handler."""
        with contextlib.suppress(OSError):  # full: it is awake already; closed: it is over
            if self._button is not None:
                self._button.send(b"!")

    def rouse(self) -> None:
        """End the wait of a thread that is asleep, once."""
        self.is_asleep = False
        self.wake()

    def back_off(self) -> None:
        """Wait a little after an error, longer each time."""
        self._trouble = min(_LONGEST_WAIT, max(0.05, self._trouble * 2))
        self._sleep(self._trouble)


class ClaimPace:
    """Measures how quickly jobs end, to claim only as many as will soon begin."""

    def __init__(self, concurrency: int, batch: int) -> None:
        self._concurrency = concurrency
        self._batch = batch
        self._counted = 0
        self._since = time.monotonic()
        self._ahead = 0

    @property
    def ahead(self) -> int:
        """How many jobs may wait here; none once nothing has ended for a while."""
        return self._ahead if time.monotonic() - self._since < _STALE else 0

    @property
    def low(self) -> int:
        """The number of waiting jobs at which more are claimed; 0 while none are claimed ahead."""
        return self.ahead // 2

    def room(self, busy: int, waiting: int) -> int:
        """Return how many jobs to claim now; none while enough are waiting."""
        ahead = self.ahead
        if waiting > ahead // 2:
            return 0
        room = min(self._batch, self._concurrency + ahead - busy)
        # A small claim costs the store nearly as much as a large one, and can wait while others do.
        return 0 if room < self._batch // 2 and waiting > self._concurrency else room

    def count(self, ended: int) -> None:
        """Count jobs that ended."""
        self._counted += ended
        now = time.monotonic()
        passed = now - self._since
        # A few that end together show no rate.
        few = self._counted < 2 * self._concurrency and passed < _STALE
        if passed < _WINDOW or few:
            return
        rate = self._counted / passed if passed < _STALE else 0.0
        # Room for a whole batch: one may be being settled while one runs and one waits.
        self._ahead = min(4 * self._batch, int(rate * _AHEAD))
        self._counted, self._since = 0, now


class Periodic:
    """A function that the steering thread calls every so many seconds."""

    def __init__(self, every: float, work: Callable[[], object]) -> None:
        self._every = every
        self._work = work
        self._next = 0.0

    def tick(self, now: float) -> None:
        """Call it if it is time."""
        if now >= self._next:
            self._next = now + self._every
            self._work()

    def join(self, timeout: float) -> None:
        """Wait until it has returned; here it always has."""


def log_errors(work: Callable[[], object], name: str = "a periodic task of the worker") -> None:
    """Call a function in a thread of its own; log what it raises."""
    try:
        work()
    except StoreError as error:
        log.warning("the store cannot be used now, trying again: %s", error)
    except BaseException:
        log.exception("%s failed; trying again", name)


class PeriodicThread(Periodic):
    """The same in a thread, for a function that may take long or calls code of the user."""

    _thread: threading.Thread | None = None

    def tick(self, now: float) -> None:
        """Start it if it is time and it does not run."""
        if now < self._next or (self._thread is not None and self._thread.is_alive()):
            return
        self._next = now + self._every
        self._thread = threading.Thread(
            target=log_errors, args=(self._work,), name="redrive-duty", daemon=True
        )
        self._thread.start()

    def join(self, timeout: float) -> None:
        """Wait until it has returned."""
        if self._thread is not None:
            self._thread.join(timeout)


class Watcher(Protocol):
    """Checks a store every few seconds beside the work on its jobs."""

    def tick(self) -> None:
        """Check if it is time; it never raises."""
        ...

    def leave(self) -> None:
        """Stop checking."""
        ...


class Alerting(Protocol):
    """Makes the watcher of an app; `redrive.alerts.Alerts` is one."""

    def watch(self, app: Any) -> Watcher:
        """Return the watcher over an app's store."""
        ...


class UnservedLog:
    """Logs each lane with due jobs that nobody serves, once until it is served again."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logged: set[str] = set()

    def tick(self) -> None:
        """Log the lanes that are unserved now and were not the last time."""
        served = {ALERT, *self._runtime.registry.served_lanes()}
        lanes = worker_notes.unserved(self._runtime.store).keys() - served
        for lane in sorted(lanes - self._logged):
            log.warning(
                "unserved lane %s: jobs are due and no worker serves it; redrive list 'lane:%s'",
                inert(lane),
                inert(lane),
                extra={"event": "unserved", "lane": lane},
            )
        self._logged = set(lanes)


class ProgressLog:
    """Logs what the workers of this process do: jobs queued, their ends, and an empty queue."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._logged = runtime.counters.ever()
        self._next = 0.0
        self._empty_at = self._logged["taken"]
        """How many had been taken when the queue was last empty."""
        self._last_taken = self._empty_at  # how many had been taken at the last tick

    def begin(self) -> None:
        """Log which lanes are paused and how many jobs wait, before any is taken."""
        for note in self._runtime.store.notes(PAUSE):
            lane = note.name.removeprefix(PAUSE)
            if lane in self._runtime.registry.served_lanes():
                by = inert(mask_text(str(note.fields.get("by") or "unknown")))
                why = inert(mask_text(str(note.fields.get("reason") or "no reason given")))
                text = "lane %s is paused by %s (%s): its jobs wait; `redrive resume %s` ends the pause"
                log.warning(text, lane, by, why, lane)
        if not log.isEnabledFor(logging.INFO):
            return  # a million finished jobs make it a quarter of a second
        number = queued(self._runtime.store)
        log.info("worker begins: %d queued", number, extra={"event": "begins", "queued": number})

    def tick(self) -> None:
        """Log the ends since the last time, and an empty queue."""
        ever = self._runtime.counters.ever()
        write_line_counts()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SUM_EVERY
            self._log_ends(ever - self._logged)
            self._logged = ever
        taken, before = ever["taken"], self._last_taken
        self._last_taken = taken
        # A worker that still takes jobs need not ask, which costs more the longer the queue is.
        if before != taken or taken == self._empty_at:
            return
        if not self._runtime.store.find(Query(states=_QUEUED, limit=1)).jobs:
            self._empty_at = taken
            log.info("the queue is empty", extra={"event": "empty"})

    def leave(self) -> None:
        """Log the rest."""
        self._next = 0.0
        self._last_taken = self._runtime.counters.ever()["taken"]
        self.tick()

    def _log_ends(self, ended: Counter[str]) -> None:
        if not ended:
            return
        fields = {
            name: ended[name] for name in ("taken", "succeeded", "failed", "died", "returned")
        }
        text = "%d taken, %d succeeded, %d failed, %d died, %d returned"
        log.info(text, *fields.values(), extra={"event": "worked", **fields})
