"""Threads of a worker beside the steering thread: a pool for plain handlers, and one that settles.

On a store that is a server, a settle mostly waits for the answer: while one batch is settled, the next
is claimed and the one before it runs. Only the store is called there; the steering thread does
everything else, because it alone knows what is going on.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from redrive.attempts.leases import Task
from redrive.attempts.runtime import Runtime
from redrive.errors import StoreError
from redrive.jobs.job import Job, Settlement
from redrive.jobs.logger import log

Batch = list[tuple[Task, Settlement | None]]
Answer = list[Job | None] | BaseException


class ThreadPool:
    """Threads that take tasks from one queue; started as they are needed, never more than `size`.

    `perform` runs a task and hands in its result. It returns False if the task was given up meanwhile:
    then the thread ends, because another has its place.
    """

    def __init__(self, size: int, perform: Callable[[Task], bool]) -> None:
        self.size = size
        self._perform = perform
        self._queue: deque[Task | None] = deque()
        self._idle: deque[None] = deque()
        """One for each thread that sleeps, or is about to; the one that takes it rings the bell once."""
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._threads = 0

    @property
    def waiting(self) -> int:
        """How many tasks no thread has taken yet."""
        return len(self._queue)

    def put(self, tasks: Sequence[Task]) -> None:
        """Queue tasks; wake or start as many threads as have something to do."""
        self._queue.extend(tasks)
        for _ in tasks:
            if not self._wake():
                if self._threads >= self.size:
                    break
                self._add_thread()

    def _wake(self) -> bool:
        """Wake one thread that sleeps; return False if none does."""
        try:
            self._idle.pop()
        except IndexError:
            return False
        self._bell.put(None)
        return True

    def refill(self) -> None:
        """Start a thread for waiting tasks, where one could not be started before."""
        if self._threads < self.size and self.waiting:
            self._add_thread()

    def replace_thread(self) -> None:
        """Start a thread in the place of one that never returns."""
        self.size += 1
        self._add_thread()

    def _add_thread(self) -> None:
        name = f"redrive-slot-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError as error:  # the system has no more; `refill` tries again
            log.warning("a thread could not be started, trying again: %s", error)
        else:
            self._threads += 1

    def _work(self) -> None:
        while (task := self._next()) is not None:
            try:
                if not self._perform(task):
                    return
            except BaseException:
                log.exception("a worker thread failed; it continues")

    def _next(self) -> Task | None:
        """Take the first task of the queue; sleep while there is none.

        A thread that finds the queue empty marks itself idle and checks again before it sleeps: a
        task that came in between woke nobody.
        """
        while True:
            try:
                return self._queue.popleft()
            except IndexError:
                self._idle.append(None)
            if self._queue:
                self._wake()  # ourselves, most likely
            self._bell.get()

    def take_back(self) -> list[Task]:
        """Return the tasks that no thread has taken, and remove them."""
        tasks: list[Task] = []
        with contextlib.suppress(IndexError):  # a thread may take the last one first
            while (task := self._queue.popleft()) is not None:
                tasks.append(task)
        return tasks

    def close(self) -> None:
        """Let idle threads end."""
        self._queue.extend([None] * self._threads)
        while self._wake():
            pass


class Settler:
    """Settles what is in `ended`, in batches: here, or on a server in a thread of its own.

    `wake` is called by that thread when an answer has come, `forget` with each batch that is settled.
    """

    def __init__(
        self,
        runtime: Runtime,
        ended: deque[tuple[Task, Settlement | None]],
        size: int,
        *,
        wake: Callable[[], None],
        forget: Callable[[list[Task], list[Settlement]], None],
    ) -> None:
        self._runtime = runtime
        self._ended = ended
        self._size = size
        self._wake = wake
        self._forget = forget
        self._queue: SimpleQueue[Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._batch: Batch = []  # what the thread settles now; its answer may have come already
        self._answer: Answer | None = None
        self._has_answered = threading.Event()

    @property
    def is_due(self) -> bool:
        """True if `settle` has something to do."""
        return self._answer is not None if self._batch else bool(self._ended)

    @property
    def has_work(self) -> bool:
        """True if something that ended is not settled."""
        return bool(self._ended or self._batch)

    def settle(self, wait: float = 0.0) -> None:
        """Settle what ended; with a thread of its own, wait so long for the answer of the last batch."""
        if self._runtime.store.is_server:
            self._settle_beside(wait)
            return
        while self._ended:
            self._finish(self._next(1), self._runtime.settle_all)

    def _settle_beside(self, wait: float) -> None:
        """Take the answer for one batch, and have the next one settled."""
        if wait and self._batch:
            self._has_answered.wait(wait)
        if self._answer is not None:
            batch, answer = self._batch, self._answer
            self._batch, self._answer = [], None
            self._finish(batch, lambda settlements: self._report(answer, settlements))
        if self._ended and not self._batch:
            self._start()
            self._batch = self._next(4)  # of one claim no more than a part may have ended
            self._has_answered.clear()
            self._queue.put(self._batch)

    def _next(self, batches: int) -> Batch:
        return [self._ended.popleft() for _ in range(min(len(self._ended), batches * self._size))]

    def _finish(self, batch: Batch, settle: Callable[[list[Settlement]], None]) -> None:
        """Settle a batch and forget it; if the store fails it is settled later."""
        settlements = _settlements(batch)
        try:
            settle(settlements)
        except StoreError:
            self._ended.extendleft(reversed(batch))
            raise
        self._forget([task for task, _ in batch], settlements)

    def _report(self, answer: Answer, settlements: list[Settlement]) -> None:
        """Report what was settled; settle one by one what could not be settled in one write."""
        if isinstance(answer, StoreError):
            raise answer
        if isinstance(answer, BaseException):
            self._runtime.settle_each(settlements, answer)
        else:
            self._runtime.report_all(answer, settlements)

    def _start(self) -> None:
        """Start the thread, unless it runs; RuntimeError if the system has no more."""
        if self._thread is None:
            thread = threading.Thread(target=self._work, name="redrive-settler", daemon=True)
            thread.start()
            self._thread = thread

    def _work(self) -> None:
        while (batch := self._queue.get()) is not None:
            try:
                self._answer = self._runtime.store.settle(_settlements(batch))
            except BaseException as error:  # noqa: BLE001 - raised in _report: this thread goes on
                self._answer = error
            self._has_answered.set()
            self._wake()

    def close(self) -> None:
        """Let the thread end."""
        self._queue.put(None)


def _settlements(batch: Batch) -> list[Settlement]:
    return [settlement for _, settlement in batch if settlement is not None]
