"""One thread with an event loop, for async handlers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable, Coroutine

from redrive.worker.leases import Task

_BEAT = 0.5
"""Seconds between two signs of life."""


class Loop:
    """One thread with an event loop; started when the first async task comes."""

    def __init__(
        self, size: int, perform: Callable[[Task], Coroutine[object, object, object]]
    ) -> None:
        self.size = size
        self._perform = perform
        self._line: deque[Task] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[object]] = set()
        self._beaten = 0.0
        self._doubted = 0.0
        self._thread: threading.Thread | None = None

    def put(self, tasks: list[Task]) -> None:
        """Hand in tasks."""
        if tasks:
            self._line.extend(tasks)
            self._running().call_soon_threadsafe(self._start)

    @property
    def waiting(self) -> int:
        """How many tasks were not begun yet."""
        return len(self._line)

    def take_back(self) -> list[Task]:
        """Give the tasks that were not begun."""
        tasks: list[Task] = []
        with contextlib.suppress(IndexError):
            while True:
                tasks.append(self._line.popleft())
        return tasks

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._loop.call_soon(self._beat)
            self._thread = threading.Thread(target=self._work, name="redrive-loop", daemon=True)
            self._thread.start()
        return self._loop

    def _work(self) -> None:
        assert self._loop is not None  # noqa: S101 - made just before this thread
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _beat(self) -> None:
        assert self._loop is not None  # noqa: S101
        self._beaten = self._loop.time()
        self._loop.call_later(_BEAT, self._beat)

    def _start(self) -> None:
        assert self._loop is not None  # noqa: S101
        with contextlib.suppress(IndexError):
            while len(self._tasks) < self.size:
                task = self._loop.create_task(self._perform(self._line.popleft()))
                self._tasks.add(task)
                task.add_done_callback(self._next)

    def _next(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        self._start()

    def add_slot(self) -> None:
        """Make room for one more, in the place of one that never ends; who waits may have it."""
        self.size += 1
        self._running().call_soon_threadsafe(self._start)

    def stood_still(self, seconds: float) -> bool:
        """Whether nothing moved for so long; a handler that blocks stops all the others.

        Asked again and again: the whole process may have stood still, and then the loop has a second
        to show that it goes on.
        """
        if self._loop is None or self._beaten == 0.0:
            return False
        now = self._loop.time()
        if now - self._beaten < seconds + _BEAT:
            self._doubted = 0.0
        elif not self._doubted:
            self._doubted = now
        return bool(self._doubted) and now - self._doubted > 2 * _BEAT

    def cancel(self) -> None:
        """Ask every running task to stop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(lambda: [task.cancel() for task in self._tasks])

    def close(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join(_BEAT)  # a handler that blocks it is left to the end of the process
