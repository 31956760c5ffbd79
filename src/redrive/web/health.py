"""Health: if the store answers, and the state of the queue; read at most every two seconds.

A full dead-letter queue is not an unhealthy process: only a store that does not answer is.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from redrive import __version__
from redrive.app import Redrive
from redrive.desk.status import health_of
from redrive.errors import RedriveError
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.web.messages import Counts, Standing, Status

FRESH = 2.0  # seconds for which an answer is shared by all callers
PATIENCE = 5.0  # seconds after which a store counts as not answering
READY = "web:ready"  # the note that is written to see that the store takes writes

FAILURES = (RedriveError, OSError)  # what a store that is down or away raises

UNAVAILABLE: Status = {"status": "unavailable"}

T = TypeVar("T")


class Cached(Generic[T]):
    """An answer that one caller at a time reads, and that all callers share for a while."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._last: tuple[float, T] | None = None

    def get(self) -> T:
        """Return the answer of the last two seconds, or ask; errors are not kept."""
        if (answer := self._fresh()) is None:
            with self._lock:
                if (answer := self._fresh()) is None:
                    answer = time.monotonic(), self._ask()
                    self._last = answer
        return answer[1]

    def _fresh(self) -> tuple[float, T] | None:
        last = self._last
        return last if last and time.monotonic() - last[0] < FRESH else None


class Health:
    """The health of one app's store."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._standing: Cached[Standing | None] = Cached(self._look)
        self._answers: Cached[bool] = Cached(lambda: self._tried("answer", app.desk.lanes.pauses))
        self._ready: Cached[bool] = Cached(lambda: self._tried("take writes", self._write))

    def standing(self) -> Standing | None:
        """Return counts, ages, workers and pauses; None if the store does not answer."""
        return self._standing.get()

    def answers(self) -> bool:
        """Return True if the store answers at all; asked by a question that is cheap beside many jobs."""
        return self._answers.get()

    def is_ready(self) -> bool:
        """Return True if the store takes writes."""
        return self._ready.get()

    def _look(self) -> Standing | None:
        try:
            health = health_of(self._app.desk)
            return {
                **health.document(),
                "status": "ok",
                "counts": cast("Counts", {state.value: health.total(state) for state in State}),
                "version": __version__,
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
