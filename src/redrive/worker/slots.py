"""Threads for handlers that are plain functions.

They know nothing of jobs: they call `perform`, which runs a task and hands in its result. It says
False when the task was given up meanwhile; then the thread ends, for another has its place.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from redrive.attempts.leases import Task
from redrive.jobs.logger import log


class Slots:
    """Threads that take tasks from one line; started as they are needed, never more than `size`."""

    def __init__(self, size: int, perform: Callable[[Task], bool]) -> None:
        self.size = size
        self._perform = perform
        self._line: deque[Task | None] = deque()
        self._idle: deque[None] = deque()
        """One for each thread that sleeps, or is about to; whoever takes it rings the bell once."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._threads = 0

    @property
    def waiting(self) -> int:
        """How many tasks no thread has taken yet."""
        return len(self._line)

    def put(self, tasks: Sequence[Task]) -> None:
        """Hand in tasks; as many threads are woken, or started, as have something to do."""
        self._line.extend(tasks)
        for _ in tasks:
            if not self._wake():
                if self._threads >= self.size:
                    break
                self._add_thread()

    def _wake(self) -> bool:
        """Wake one thread that sleeps; False if none does."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        self._bell.put(None)
        return True

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
        while (task := self._next()) is not None:
            try:
                if not self._perform(task):
                    return
            except BaseException:
                log.exception("a slot failed; it goes on")

    def _next(self) -> Task | None:
        """Take the first task in the line; sleep while there is none.

        Who finds the line empty says so and looks again before it sleeps: a task that came in
        between woke nobody.
        """
        while True:
            try:
                return self._line.popleft()
            except IndexError:
                self._idle.append(None)
            if self._line:
                self._wake()  # ourselves, most likely
            self._bell.get()

    def take_back(self) -> list[Task]:
        """Give the tasks that no thread has taken."""
        tasks: list[Task] = []
        with contextlib.suppress(IndexError):  # a thread may take the last one under our eyes
            while (task := self._line.popleft()) is not None:
                tasks.append(task)
        return tasks

    def close(self) -> None:
        """Let idle threads end."""
        self._line.extend([None] * self._threads)
        while self._wake():
            pass
