"""The leases of claimed jobs, and the thread that renews them.

One thread renews all leases in one call. If a lease is lost, its handler is notified, so that it
can stop. If a lease could not be renewed for most of its time, its handler is notified before it
ends, by a second thread, because the first may hang in the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from redrive.errors import StoreError
from redrive.jobs.clock import Clock
from redrive.jobs.job import Claim
from redrive.jobs.logger import log
from redrive.stores.contract import Store

if TYPE_CHECKING:
    from redrive.attempts.executions import Execution
    from redrive.context import Current
    from redrive.registry import Entry
    from redrive.worker.children import Child

_RENEWALS = 3  # renewals in the time of one lease
_DEAF = 5.0  # seconds after its time limit in which an async handler may still end by itself
_WATCHES = 8  # checks for leases that could not be renewed, in the time of one lease
_SAFE = 0.75  # the part of a lease in which its holder may rely on it without having renewed it


ALONE = 10.0
"""Seconds for which nothing is begun beside a job that must be alone, or for which it waits to be."""


class Task:
    """One claim on its way: from the store to the thread, loop or child that runs it, and back."""

    until = 0.0
    """The time up to which the lease is ours for certain."""
    began = 0.0
    lost = False
    alone = False
    """True if it must run alone on its event loop: another job, or it, broke the one before."""
    alone_by = 0.0
    """The second of the monotonic clock at which it begins even if it is not alone."""
    detoured = False
    """True if it runs in a child because the event loop is blocked."""
    execution: Execution | None = None
    context: Current | None = None
    child: Child | None = None

    def __init__(self, claim: Claim, entry: Entry) -> None:
        self.claim = claim
        self.entry = entry

    @property
    def is_late(self) -> bool:
        """True if it ran past its time limit in this process, where nothing can end it."""
        limit = self.entry.timeout
        if limit is None or self.child is not None or not self.began:
            return False
        return time.monotonic() - self.began >= limit + (_DEAF if self.entry.is_async else 0.0)

    def lose(self) -> None:
        """Mark the lease as lost, for the handler and for the child that runs it."""
        self.lost = True
        if self.context is not None:
            self.context.lose()
        if self.child is not None:
            self.child.lose(self.claim.job.id)  # by now it may run another


class Leases:
    """Renews the leases of all tasks it holds, inside `with`."""

    def __init__(self, store: Store, *, lease_for: float, clock: Clock) -> None:
        self._store = store
        self._lease_for = lease_for
        self._clock = clock
        self._held: dict[str, Task] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._stop.clear()
        self._threads = [
            threading.Thread(target=self._keep_renewing, name="redrive-leases", daemon=True),
            threading.Thread(target=self._watch, name="redrive-watch", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, tasks: Iterable[Task], since: float) -> None:
        """Hold leases that were asked for at that time.

        An older lease of the same job that was not known to be lost is marked as lost.
        """
        until, held = since + self._lease_for * _SAFE, self._held
        for task in tasks:
            task.until = until
            job_id = task.claim.job.id
            if (older := held.get(job_id)) is not None:
                older.lose()
            held[job_id] = task

    def drop(self, tasks: Iterable[Task]) -> None:
        """Stop renewing leases: their jobs are settled, or left to a sweep."""
        held = self._held
        for task in tasks:
            job_id = task.claim.job.id
            if held.get(job_id) is task:
                del held[job_id]

    def now(self) -> float:
        """Return the time, by which leases are measured."""
        return self._clock.now()

    def is_safe(self, task: Task) -> bool:
        """Return True if the lease is ours for certain: not after a suspend, nor if renewals failed."""
        return not task.lost and self.now() < task.until

    def _keep_renewing(self) -> None:
        while not self._stop.wait(self._lease_for / _RENEWALS):
            try:
                self.renew()
            except StoreError as error:
                log.warning("leases could not be renewed, trying again: %s", error)
            except Exception:
                log.exception("renewing leases failed; trying again")

    def renew(self) -> None:
        """Renew every lease; mark those that are lost."""
        tasks = list(self._held.values())
        since = self.now()
        claims = [task.claim for task in tasks]
        for task, ours in zip(
            tasks, self._store.renew(claims, lease_for=self._lease_for), strict=True
        ):
            if ours:
                task.until = since + self._lease_for * _SAFE
            elif self._held.get(task.claim.job.id) is task:
                task.lose()

    def _watch(self) -> None:
        while not self._stop.wait(self._lease_for / _WATCHES):
            self._warn_late()

    def _warn_late(self) -> None:
        """Mark leases as lost that may end before they can be renewed."""
        now = self.now()
        for task in list(self._held.values()):
            if now >= task.until and not task.lost:
                log.warning("job %s: its lease could not be renewed in time", task.claim.job.id)
                task.lose()
