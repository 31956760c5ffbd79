"""Whether the store answers, and how things stand; asked at most every two seconds.

A full dead-letter queue is not an unhealthy process: only a store that does not answer is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from redrive._log import log
from redrive.app import Count, Redrive
from redrive.errors import RedriveError
from redrive.job import State
from redrive.web.resources import PAUSE, WORKER, Document, iso
from redrive.web.schema import Schema, array, integer, maybe, named, record

FRESH = 2.0
"""Seconds for which an answer serves everybody."""
READY = "web:ready"
"""The note that is written to see that the store takes writes."""

T = TypeVar("T")

_TEXT: Schema = {"type": "string"}
_AGES = {"oldest_due_seconds": State.PENDING, "oldest_dead_seconds": State.DEAD}

SHAPE: Schema = record(
    {
        "status": {"type": "string", "enum": ["ok", "unavailable"]},
        "counts": record({state.value: integer() for state in State}),
        **{name: maybe({"type": "number"}) for name in _AGES},
        "store": _TEXT,
        "durability": _TEXT,
        "version": _TEXT,
        "workers": array(named("Worker")),
        "unserved": array(_TEXT),
        "pauses": array(named("Pause")),
        "now": {"type": ["string", "null"]},
    },
    needed=["status"],
)


class Cached(Generic[T]):
    """An answer that is asked for once in a while, by one at a time, for all who wait."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._found: tuple[float, T] | None = None

    def get(self) -> T:
        """Give the answer of the last two seconds, or ask; an error is nobody's answer but ours."""
        if (found := self._fresh()) is None:
            with self._lock:
                if (found := self._fresh()) is None:
                    found = time.monotonic(), self._ask()
                    self._found = found
        return found[1]

    def _fresh(self) -> tuple[float, T] | None:
        found = self._found
        return found if found and time.monotonic() - found[0] < FRESH else None


class Health:
    """How one app's store fares."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._standing: Cached[Document | None] = Cached(self._look)
        self._ready: Cached[bool] = Cached(self._try_write)

    def standing(self) -> Document | None:
        """Say how things stand; None if the store does not answer."""
        return self._standing.get()

    def is_ready(self) -> bool:
        """Whether the store takes writes."""
        return self._ready.get()

    def _look(self) -> Document | None:
        from redrive import __version__  # noqa: PLC0415 - the package is whole by now

        app = self._app
        try:
            counts, now = app.counts(), app.store.now()
            return {
                "status": "ok",
                "counts": {
                    state.value: sum(one.jobs for one in counts if one.state is state)
                    for state in State
                },
                **{name: _age(counts, state, now) for name, state in _AGES.items()},
                "store": app.store.url,
                "durability": app.store.durability,
                "version": __version__,
                "workers": [WORKER(note) for note in app.workers()],
                "unserved": app.unserved(counts),
                "pauses": [PAUSE(note) for note in app.pauses()],
                "now": iso(now),
            }
        except (RedriveError, OSError) as error:
            log.warning("the store does not answer: %s", error)
            return None

    def _try_write(self) -> bool:
        try:
            self._app.store.note(READY, "", expires_in=FRESH)
        except (RedriveError, OSError) as error:
            log.warning("the store takes no writes: %s", error)
            return False
        return True


def _age(counts: list[Count], state: State, now: float) -> float | None:
    """Say for how many seconds the oldest has waited; None when none is late."""
    found = (one.oldest for one in counts if one.state is state and one.oldest is not None)
    oldest = min(found, default=now + 1)
    return now - oldest if oldest <= now else None
