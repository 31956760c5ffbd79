"""Settling beside the steering thread, for stores that are a server.

There whoever asks waits, and most of the wait is somebody else's work: while one batch is settled, the
next is claimed and the one before it runs. Only the store's answer is fetched here. What follows from
it is done by the steering thread, which alone knows what is going on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from redrive.attempts.leases import Task
from redrive.jobs.job import Job, Settlement
from redrive.stores.contract import Store

Batch = list[tuple[Task, Settlement | None]]
Answer = list[Job | None] | BaseException


def verdicts(batch: Batch) -> list[Settlement]:
    """Give what there is to settle in a batch."""
    return [settlement for _, settlement in batch if settlement is not None]


class Settler:
    """Has one batch settled at a time; `tell` is called when the answer is there."""

    def __init__(self, store: Store, tell: Callable[[], None]) -> None:
        self._store = store
        self._tell = tell
        self._line: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._batch: Batch = []
        self._answer: Answer | None = None
        self._is_there = threading.Event()

    @property
    def is_busy(self) -> bool:
        """Whether a batch is being settled; its answer may be there already."""
        return bool(self._batch)

    @property
    def is_ready(self) -> bool:
        """Whether the answer is there."""
        return self._answer is not None

    def start(self) -> None:
        """Start its thread, unless it runs; an error if the system has no more."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="redrive-settler", daemon=True)
            thread.start()
            self._thread = thread

    def begin(self, batch: Batch) -> None:
        """Have a batch settled, while none is."""
        self._batch = batch
        self._is_there.clear()
        self._line.put(batch)

    def taken(self, wait: float = 0.0) -> tuple[Batch, Answer] | None:
        """Give the batch and its answer, once; None while there is no answer."""
        if wait and self._batch:
            self._is_there.wait(wait)
        if self._answer is None:
            return None
        ended = self._batch, self._answer
        self._batch, self._answer = [], None
        return ended

    def _work(self) -> None:
        while (batch := self._line.get()) is not None:
            try:
                self._answer = self._store.settle(verdicts(batch))
            except BaseException as error:  # noqa: BLE001 - told where it is taken: this thread goes on
                self._answer = error
            self._is_there.set()
            self._tell()

    def close(self) -> None:
        """Let the thread end."""
        self._line.put(None)
