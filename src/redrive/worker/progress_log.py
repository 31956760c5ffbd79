"""What a worker says of its work in the log: how many wait, what came of them, when none is left."""

from __future__ import annotations

import logging
import time
from collections import Counter

from redrive.attempts.runtime import Runtime
from redrive.jobs.job import State
from redrive.jobs.logger import log
from redrive.stores.contract import Query

EVERY = 1.0
"""Seconds between two looks whether the queue is empty."""
_SUM_EVERY = 10.0
_QUEUED = frozenset({State.PENDING, State.RUNNING})


class Chronicle:
    """Writes down what the workers of this process do."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._said = runtime.counters.ever()
        self._next = 0.0
        self._empty_at = self._said["taken"]
        """How many had been taken when the queue was last found empty."""
        self._seen = self._empty_at
        """How many had been taken at the last look."""

    def begin(self) -> None:
        """Say how many wait, before any is taken."""
        if not log.isEnabledFor(logging.INFO):
            return  # a million finished jobs make it a quarter of a second
        queued = sum(one.jobs for one in self._runtime.store.counts() if one.state in _QUEUED)
        log.info("worker begins: %d queued", queued, extra={"event": "begins", "queued": queued})

    def tick(self) -> None:
        """Say what came of them since the last time, and whether none is left."""
        ever = self._runtime.counters.ever()
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _SUM_EVERY
            self._sum_up(ever - self._said)
            self._said = ever
        taken, before = ever["taken"], self._seen
        self._seen = taken
        # Who still takes jobs need not ask, which costs the more the longer the queue is.
        if before == taken != self._empty_at and self._is_empty():
            self._empty_at = taken
            log.info("the queue is empty", extra={"event": "empty"})

    def leave(self) -> None:
        """Say the rest."""
        self._next = 0.0
        self._seen = self._runtime.counters.ever()["taken"]
        self.tick()

    def _sum_up(self, done: Counter[str]) -> None:
        if not done:
            return
        said = {word: done[word] for word in ("taken", "succeeded", "failed", "died", "returned")}
        text = "%d taken, %d succeeded, %d failed, %d died, %d returned"
        log.info(text, *said.values(), extra={"event": "worked", **said})

    def _is_empty(self) -> bool:
        return not self._runtime.store.find(Query(states=_QUEUED, limit=1)).jobs
