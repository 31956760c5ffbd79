"""Group commit: the thread that finds the store idle does the work of all that wait.

Threads hand in operations. The first one there becomes the leader, takes all that wait, and commits
them together; the others sleep until theirs is done, or until one of them is made the next leader.
A lone caller pays no hand-over; many callers share one fsync. No thread of our own is needed.
"""

from __future__ import annotations

from _thread import LockType, allocate_lock, get_ident
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from redrive.errors import StoreError, StoreLost

Tx = TypeVar("Tx")
R = TypeVar("R")


class Operation(Generic[Tx]):
    """One thing to do inside a transaction, and later its result or error."""

    __slots__ = ("durable", "error", "leads", "result", "wake", "work")

    def __init__(self, work: Callable[[Tx], object], *, durable: bool) -> None:
        self.work = work
        self.durable = durable
        self.result: Any = None
        self.error: BaseException | None = None
        self.leads = False
        self.wake: LockType | None = None

    def run(self, tx: Tx) -> None:
        """Do the work and keep its result."""
        self.result = self.work(tx)

    def queue(self) -> None:
        """Get ready to sleep until another one has done it."""
        self.wake = allocate_lock()
        self.wake.acquire()


class Combiner(Generic[Tx]):
    """Collects operations and gives them in batches to `commit`.

    `commit(batch)` must run every operation, make the result durable, and set `error` on those that
    failed. If it raises, the whole batch failed with that error.
    """

    def __init__(self, commit: Callable[[list[Operation[Tx]]], None], most: int = 256) -> None:
        self._commit = commit
        self._most = most
        self._mutex = allocate_lock()
        self._waiting: list[Operation[Tx]] = []
        self._busy = False
        self._inside: set[int] = set()
        """The threads that are in a call; a signal handler may run in the middle of one."""

    def run(self, work: Callable[[Tx], R], *, durable: bool) -> R:
        """Have `work` done in a transaction of its own or a shared one; gives its result."""
        me = self.caller()
        mine = Operation(work, durable=durable)
        try:
            self._inside.add(me)
            with self._mutex:
                if self._busy:
                    mine.queue()
                    self._waiting.append(mine)
                else:  # then nobody waits
                    self._busy = mine.leads = True
            if mine.wake is None:
                self._lead(mine, [mine])
            else:
                self._wait(mine, mine.wake)
        finally:
            self._inside.discard(me)
        if mine.error is not None:
            raise mine.error
        result: R = mine.result
        return result

    def caller(self) -> int:
        """Return the calling thread; StoreError if it is in the middle of a call already."""
        me = get_ident()
        if me in self._inside:
            raise within_itself()
        return me

    def _wait(self, mine: Operation[Tx], wake: LockType) -> None:
        """Sleep until it is done, or until we lead; a Ctrl-C must not leave the others waiting."""
        try:
            wake.acquire()
        except BaseException:
            with self._mutex:
                if not mine.leads and mine in self._waiting:
                    self._waiting.remove(mine)
            raise
        finally:
            if mine.leads:
                with self._mutex:
                    batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                self._lead(mine, batch)

    def _lead(self, mine: Operation[Tx], batch: list[Operation[Tx]]) -> None:
        try:
            self._commit(batch)
        except BaseException as error:  # noqa: BLE001 - handed to each caller, who raises it
            for one in batch:
                one.error = error if one is mine else _for_others(error)
        with self._mutex:
            following = self._waiting[0] if self._waiting else None
            self._busy = following is not None
            if following is not None:
                following.leads = True
        for one in batch:
            if (
                one is not mine and one.wake is not None
            ):  # ours was released when we were made to lead
                one.wake.release()
        if following is not None and following.wake is not None:
            following.wake.release()


def within_itself() -> StoreError:
    """Return the error for a call in the middle of the same thread's call, which it would wait for."""
    return StoreError(
        "a store cannot be used from a signal handler that interrupts the same thread's own call "
        "to it; let the handler set a flag, or hand the work to a thread"
    )


def _for_others(error: BaseException) -> BaseException:
    """Return the error for the others of a batch: Ctrl-C was meant for one thread only."""
    if isinstance(error, Exception):
        return error
    return StoreLost(
        "another thread was interrupted while it wrote this; it is not known "
        "if it was stored: repeat the call, which is safe"
    )
