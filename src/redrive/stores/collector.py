"""Coroutines that ask at the same time share one hop to a thread.

A batch opens with the first who asks. All that ask in the same turn of the loop join it, and those
after them until a thread takes it: a lone coroutine waits for nobody, and while all threads are
busy the crowd gathers in one batch. The batch belongs to no coroutine, so cancelling one of them
takes nothing from the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from redrive.jobs.threads import Threads

if TYPE_CHECKING:
    import asyncio

A = TypeVar("A")
R = TypeVar("R")

MOST = 256  # how many share a hop at most: enough to share its price, few enough to answer soon


class Batch(Generic[A, R]):
    """What was asked for on one loop, and who waits for each answer."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._asked: list[tuple[A, asyncio.Future[R]]] = []
        self._taken = False

    def join(self, item: A, answer: asyncio.Future[R]) -> bool:
        """Come along, unless it has left or is full."""
        with self._lock:
            if self._taken or len(self._asked) >= MOST:
                return False
            self._asked.append((item, answer))
            return True

    def take(self) -> list[A]:
        """Close it and give the items; who was cancelled before this asks for nothing more."""
        with self._lock:
            self._taken = True
            self._asked = [one for one in self._asked if not one[1].cancelled()]
            return [item for item, _ in self._asked]

    def answer(self, answers: Sequence[R | BaseException]) -> None:
        """Set each caller's own answer, unless the caller was cancelled meanwhile."""
        for (_, future), answer in zip(self._asked, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    def fail(self, error: BaseException) -> None:
        """Set the same error for all callers."""
        self.answer([error] * len(self.take()))


class Collector(Generic[A, R]):
    """Hands what coroutines ask for to `work`, many at a time.

    `work` gives for each item its answer or its error, in order. The loop of each thread has batches
    of its own, and so has one that a forked child starts.
    """

    def __init__(self, work: Callable[[list[A]], Sequence[R | BaseException]]) -> None:
        self._work = work
        self._here = threading.local()

    async def ask(self, threads: Threads, item: A) -> R:
        """Have one item worked on, on another thread."""
        import asyncio  # noqa: PLC0415 - the awaiting program has imported it

        loop = asyncio.get_running_loop()
        answer: asyncio.Future[R] = loop.create_future()
        batch = self._batch
        if batch is None or batch.loop is not loop or not batch.join(item, answer):
            batch = self._here.batch = Batch[A, R](loop)
            batch.join(item, answer)
            loop.call_soon(self._leave, batch, threads)
        return await answer

    @property
    def _batch(self) -> Batch[A, R] | None:
        """The last batch of this thread."""
        batch: Batch[A, R] | None = getattr(self._here, "batch", None)
        return batch

    def _leave(self, batch: Batch[A, R], threads: Threads) -> None:
        """Send a batch to a thread; by now all of this turn have joined it."""
        try:
            going = batch.loop.run_in_executor(threads.pool(), self._run, batch)
        except RuntimeError as error:  # the program is ending
            batch.fail(error)
        else:
            going.add_done_callback(lambda gone: self._arrive(batch, gone))

    def _run(self, batch: Batch[A, R]) -> Sequence[R | BaseException]:
        items = batch.take()
        return self._work(items) if items else ()

    def _arrive(
        self, batch: Batch[A, R], gone: asyncio.Future[Sequence[R | BaseException]]
    ) -> None:
        if self._batch is batch:
            self._here.batch = None  # or it would keep a loop alive that has ended
        error = gone.exception()
        if error is None:
            batch.answer(gone.result())
        else:
            batch.fail(error)
