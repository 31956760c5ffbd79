"""Claims that this process holds, and the heartbeat that keeps them.

One thread renews all leases at once. Who loses one is told, so that the handler can stop; who could
not renew for most of a lease is told before it ends, for then another may start the job any moment.
A second thread sees to that: the first may hang in the store.
"""

from __future__ import annotations

import threading
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

_BEATS = 3
"""Renewals in the time of one lease."""
_WATCHES = 8
"""Looks at what could not be renewed, in the time of one lease."""
_SAFE = 0.75
"""The part of a lease in which its holder may rely on it without having renewed it."""


ALONE = 10.0
"""Seconds for which nothing is begun beside a job that must be alone, or for which it waits to be."""


class Task:
    """One claim on its way: from the store to whoever runs it, and back."""

    until = 0.0
    """The boot clock's second up to which the lease is ours for certain."""
    began = 0.0
    lost = False
    alone = False
    """Whether it is to run alone on its event loop: another job, or it, broke the one before."""
    alone_by = 0.0
    """The second of the monotonic clock at which it begins even if it is not alone."""
    detoured = False
    """Whether it runs in a child because the event loop stands still."""
    execution: Execution | None = None
    context: Current | None = None
    child: Child | None = None

    def __init__(self, claim: Claim, entry: Entry) -> None:
        self.claim = claim
        self.entry = entry

    def lose(self) -> None:
        """Tell whoever runs it that the lease is gone."""
        self.lost = True
        if self.context is not None:
            self.context.lose()
        if self.child is not None:
            self.child.lose(self.claim.job.id)  # by now it may run another


class Leases:
    """Keeps the leases of all tasks it holds, inside `with`."""

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
            threading.Thread(target=self._beat, name="redrive-heartbeat", daemon=True),
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

    def hold(self, task: Task, since: float) -> None:
        """Keep a lease that was asked for at that second of the boot clock."""
        self.hold_all([task], since)

    def hold_all(self, tasks: Iterable[Task], since: float) -> None:
        """Do the same for many.

        Who has an older one of the same job, and did not know that it was lost, learns it now.
        """
        until, held = since + self._lease_for * _SAFE, self._held
        for task in tasks:
            task.until = until
            job_id = task.claim.job.id
            if (older := held.get(job_id)) is not None:
                older.lose()
            held[job_id] = task

    def drop(self, task: Task) -> None:
        """Let a lease be; it was settled, or is left to whoever finds it."""
        self.drop_all([task])

    def drop_all(self, tasks: Iterable[Task]) -> None:
        """Do the same for many."""
        held = self._held
        for task in tasks:
            job_id = task.claim.job.id
            if held.get(job_id) is task:
                del held[job_id]

    def now(self) -> float:
        """Give the second of the clock that leases are measured with."""
        return self._clock.boot()[1]

    def is_safe(self, task: Task) -> bool:
        """Whether the lease is ours for certain: not after a suspend, nor after a long silence."""
        return not task.lost and self.now() < task.until

    def _beat(self) -> None:
        while not self._stop.wait(self._lease_for / _BEATS):
            try:
                self.renew()
            except StoreError as error:
                log.warning("leases could not be renewed, trying again: %s", error)
            except Exception:
                log.exception("renewing leases failed; trying again")

    def renew(self) -> None:
        """Lengthen every lease; a handler whose lease is gone is told."""
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
        """Tell those whose lease may end before it can be renewed."""
        now = self.now()
        for task in list(self._held.values()):
            if now >= task.until and not task.lost:
                log.warning("job %s: its lease could not be renewed in time", task.claim.job.id)
                task.lose()
