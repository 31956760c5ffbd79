"""News about jobs, told after it is true. Nothing durable depends on a listener.

A listener that raises is logged and ignored; it can neither undo what happened nor stop a worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from redrive import _log
from redrive._transitions import Verb
from redrive.job import Failure, Job

log = _log.log.getChild("events")

Kind = Literal[
    "submitted",
    "claimed",
    "succeeded",
    "failed",
    "died",
    "released",
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

TOLD: Mapping[Verb, Kind] = {
    "retry": "retried",
    "resolve": "resolved",
    "discard": "discarded",
    "reopen": "reopened",
}
"""How each deed of a person is told."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a job (or to a lane: then there is no job)."""

    kind: Kind
    job: Job | None = None
    failure: Failure | None = None
    detail: str = ""


Listener = Callable[[Event], object]


class Bus:
    """Tells listeners, in the order they came."""

    def __init__(self) -> None:
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; call what comes back to remove it."""
        self._listeners = (*self._listeners, listener)

        def remove() -> None:
            self._listeners = tuple(one for one in self._listeners if one is not listener)

        return remove

    @property
    def has_listeners(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def emit(self, event: Event) -> None:
        """Tell everybody; a listener's error is its own."""
        for listener in self._listeners:
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on %s; it was ignored", event.kind)
