"""Events of jobs, sent to listeners after each change. Nothing durable depends on a listener.

A listener that raises is logged and ignored; it can neither undo what happened nor stop a worker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Literal

from redrive.jobs import logger
from redrive.jobs.interrupts import may_be_ctrl_c
from redrive.jobs.job import Failure, Job
from redrive.jobs.transitions import Verb
from redrive.payloads.masked_jobs import seen

log = logger.log.getChild("events")

Kind = Literal[
    "submitted",
    "claimed",
    "succeeded",
    "completed",
    "recovered",
    "failed",
    "died",
    "returned",
    "lease_lost",
    "retried",
    "resolved",
    "discarded",
    "reopened",
    "edited",
    "paused",
    "resumed",
    "purged",
]

EVENT_OF: Mapping[Verb, Kind] = {
    "retry": "retried",
    "resolve": "resolved",
    "discard": "discarded",
    "reopen": "reopened",
}
"""The event of each action; that a job is to wait for its run is none."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job (or to a lane: then there is no job)."""

    kind: Kind
    job: Job | None = None
    failure: Failure | None = None
    detail: str = field(default="", repr=False)
    number: int = 0
    """With `app.on`: grows from event to event of one job."""
    at: float = 0.0
    """With `app.on`: when it happened."""


Listener = Callable[[Event], object]


def _masked(event: Event) -> Event:
    """Hide the secrets of a job: events go on to logs and to people. A store has it as given."""
    return event if event.job is None else replace(event, job=seen(event.job))


class Bus:
    """Calls listeners, in the order in which they were added."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; call what comes back to remove it."""
        self._listeners = (*self._listeners, listener)

        def remove() -> None:
            self._listeners = tuple(known for known in self._listeners if known is not listener)

        return remove

    @property
    def has_listeners(self) -> bool:
        """True if there is a listener."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Call every listener; an error of one is logged and ignored."""
        if self._listeners:
            event = _masked(event)
        for listener in self._listeners:
            try:
                listener(event)
            except BaseException as error:  # a CancelledError, say
                if may_be_ctrl_c(error):
                    raise
                log.exception("a listener failed on %s; it was ignored", event.kind)


class ThreadedBus(Bus):
    """Calls the listeners of another bus in a thread of its own, so that a slow one delays no job.

    Events are dropped and counted if the listeners are too slow.
    """

    MOST = 10_000

    def __init__(self, bus: Bus) -> None:
        super().__init__()
        self._bus = bus
        self._line: SimpleQueue[Event | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._dropped = 0

    @property
    def has_listeners(self) -> bool:
        """True if there is a listener."""
        return self._bus.has_listeners

    def emit(self, event: Event) -> None:
        """Queue an event for the listeners."""
        if not self._bus.has_listeners:
            return
        if self._line.qsize() >= self.MOST:
            if self._dropped % self.MOST == 0:
                log.error("the listeners are too slow; events are dropped")
            self._dropped += 1
            return
        self._line.put(event)
        if self._thread is None:
            self._thread = threading.Thread(target=self._tell, name="redrive-news", daemon=True)
            self._thread.start()

    def _tell(self) -> None:
        while (event := self._line.get()) is not None:
            self._bus.emit(event)

    def close(self, timeout: float) -> None:
        """Call the listeners with the remaining events, for so many seconds at most."""
        if self._thread is not None:
            self._line.put(None)
            self._thread.join(timeout)
