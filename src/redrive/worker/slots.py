"""Threads for handlers that are plain functions.

They know nothing of jobs: they call `perform`, which runs a task and hands in its result. It says
False when the task was given up meanwhile; then the thread ends, for another has its place.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from redrive._log import log
from redrive.worker.leases import Task


class Slots:
    """Threads that take tasks from one line; started as they are needed, never more than `size`."""

    def __init__(self, size: int, perform: Callable[[Task], bool]) -> None:
        self.size = size
        self._perform = perform
        self._line: SimpleQueue[Task | None] = SimpleQueue()
        self._threads = 0

    @property
    def waiting(self) -> int:
        """How many tasks no thread has taken yet."""
        return self._line.qsize()

    def put(self, tasks: Iterable[Task]) -> None:
        """Hand in tasks."""
        for task in tasks:
            self._line.put(task)
            if self._threads < self.size:
                self._add_thread()

    def refill(self) -> None:
        """Start a thread for what waits, where one could not be started before."""
        if self._threads < self.size and self.waiting:
            self._add_thread()

    def replace_thread(self) -> None:
        """Start one in the place of one that never comes back."""
        self.size += 1
        self._add_thread()

    def _add_thread(self) -> None:
        name = f"redrive-slot-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:  # the system has no more; what waits is looked after later
            log.warning("a thread could not be started, trying again: %s", error)
        else:
            self._threads += 1

    def _work(self) -> None:
        while (task := self._line.get()) is not None:
            if not self._perform(task):
                return

    def take_back(self) -> list[Task]:
        """Give the tasks that no thread has taken."""
        tasks: list[Task] = []
        with contextlib.suppress(Empty):  # a thread may take the last one under our eyes
            while (task := self._line.get_nowait()) is not None:
                tasks.append(task)
        return tasks

    def close(self) -> None:
        """Let idle threads end."""
        for _ in range(self._threads):
            self._line.put(None)
