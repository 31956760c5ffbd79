"""Health: if the store answers, and the state of the queue; read at most every two seconds.

A full dead-letter queue is not an unhealthy process: only a store that does not answer is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from redrive import __version__
from redrive.app import Redrive
from redrive.desk.status import health_of
from redrive.errors import RedriveError
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.web.messages import Counts, Standing, Status
from redrive.web.shared import Shared

FRESH = 2.0  # seconds for which an answer is shared by all callers
PATIENCE = 5.0  # seconds after which a store counts as not answering
READY = "web:ready"  # the note that is written to see that the store takes writes

FAILURES = (RedriveError, OSError)  # what a store that is down or away raises

UNAVAILABLE: Status = {"status": "unavailable"}


class Health:
    """The health of one app's store."""

    def __init__(self, app: Redrive) -> None:
        self._app = app
        self._shared = Shared()

    def standing(self) -> Standing | None:
        """Return counts, ages, workers and pauses; None if the store does not answer."""
        return self._shared.get("standing", FRESH, self._look)

    def answers(self) -> bool:
        """Return True if the store answers at all; asked by a question that is cheap beside many jobs."""
        pauses = self._app.desk.lanes.pauses
        return self._shared.get("answers", FRESH, lambda: self._tried("answer", pauses))

    def is_ready(self) -> bool:
        """Return True if the store takes writes."""
        return self._shared.get("ready", FRESH, lambda: self._tried("take writes", self._write))

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
