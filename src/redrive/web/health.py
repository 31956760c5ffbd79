"""Whether the store answers, and how things stand; asked at most every two seconds.

A full dead-letter queue is not an unhealthy process: only a store that does not answer is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from redrive import __version__
from redrive.app import Count, Note, Redrive
from redrive.desk import worker_notes
from redrive.errors import RedriveError
from redrive.jobs.clock import iso
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.web.call import Document
from redrive.web.shapes import shape

FRESH = 2.0
"""Seconds for which an answer serves everybody."""
PATIENCE = 5.0
"""Seconds after which a store that says nothing does not answer."""
READY = "web:ready"
"""The note that is written to see that the store takes writes."""

FAILURES = (RedriveError, OSError)
"""What a store that is down or away raises."""

UNAVAILABLE: Document = {"status": "unavailable"}

T = TypeVar("T")

_AGES = {"oldest_due_seconds": State.PENDING, "oldest_dead_seconds": State.DEAD}

SHAPE = shape(
    "status:Health counts:Counts oldest_due_seconds:number? oldest_dead_seconds:number? store "
    "durability version workers:Worker[] last_pass:time? unserved:text[] unserved_because:text{} pauses:Pause[] "
    "now:time?",
    needed="status",
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
        self._answers: Cached[bool] = Cached(lambda: self._tried("answer", app.pauses))
        self._ready: Cached[bool] = Cached(lambda: self._tried("take writes", self._write))

    def standing(self) -> Document | None:
        """Say how things stand; None if the store does not answer."""
        return self._standing.get()

    def answers(self) -> bool:
        """Whether the store answers at all; asked by a question that is cheap beside many jobs."""
        return self._answers.get()

    def is_ready(self) -> bool:
        """Whether the store takes writes."""
        return self._ready.get()

    def _look(self) -> Document | None:
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
                "workers": [worker_document(note) for note in app.workers()],
                "last_pass": iso(app.last_pass()),
                "unserved": app.unserved(counts),
                "unserved_because": app.unserved_because(),
                "pauses": [pause_document(note) for note in app.pauses()],
                "now": iso(now),
            }
        except FAILURES as error:
            log.warning("the store does not answer: %s", error)
            return None

    def _write(self) -> None:
        self._app.store.note(READY, "", expires_in=FRESH)

    def _tried(self, what: str, ask: Callable[[], object]) -> bool:
        try:
            ask()
        except FAILURES as error:
            log.warning("the store does not %s: %s", what, error)
            return False
        return True


def _age(counts: list[Count], state: State, now: float) -> float | None:
    """Say for how many seconds the oldest has waited; None when none is late."""
    found = (one.oldest for one in counts if one.state is state and one.oldest is not None)
    oldest = min(found, default=now + 1)
    return now - oldest if oldest <= now else None


def worker_document(note: Note) -> Document:
    """Return who works where, since when, on what, and whether it hangs."""
    said, blocked = note.fields, worker_notes.blocked(note)
    return {
        **{name: said.get(name) for name in ("host", "pid", "version")},
        "since": iso(said.get("since")),
        "lanes": list(said.get("lanes") or ()),
        "silent_seconds": worker_notes.silence(note),
        "blocked": blocked
        and {
            **{name: blocked.get(name) for name in ("job", "handler")},
            "since": iso(blocked.get("since")),
        },
    }


def pause_document(note: Note) -> Document:
    """Say which lane is paused, by whom and why."""
    said = note.fields
    return {
        "lane": note.name.partition(":")[2],
        **{name: said.get(name) for name in ("by", "reason")},
        "seconds_left": note.expires_in,
    }
