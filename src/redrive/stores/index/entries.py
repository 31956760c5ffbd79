"""What the engine knows about every job without its body, and how to find the next one.

A job's entry holds the few fields that claims, filters and counts look at; its body stays where
`place` says, so memory does not grow with payloads. Waiting jobs lie in one heap for each lane and
handler (suspects apart). A heap is never searched: what changed since it was pushed is dropped when
it comes to the top, and a heap that is mostly leftovers is built anew.

Changes go in by `apply` only. It cannot fail, so an operation either raised before or happened.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from redrive.jobs.job import Category, Job, State
from redrive.stores.index.changes import Change, Purged, Put
from redrive.stores.index.ledger import Ledger
from redrive.stores.index.outbox import Place
from redrive.stores.record_codec import category_from, category_of


class Lease(NamedTuple):
    """The fence of a running job, and when it falls."""

    number: int
    holder: str | None
    end: float | None
    since: float
    """When it was claimed."""


@dataclass(slots=True, eq=False)
class Queue:
    """The jobs of one state, lane, handler and category."""

    state: State
    lane: str
    handler: str
    suspect: bool
    category: Category | None
    heap: list[tuple[float, str]]
    """Pending jobs, earliest due first."""
    number: int = 0
    oldest: float | None = None
    """When the first of its jobs ended; None if it has to be looked for."""


@dataclass(slots=True, eq=False)
class Entry:
    """What is kept in memory of a job."""

    id: str
    state: State
    queue: Queue
    due: float
    died: float | None
    updated: float
    failed: bool
    failed_in_run: bool
    group: int | None
    run: int | None
    action: int | None
    """The last one on it."""
    key: str | None
    place: Place

    @property
    def ended(self) -> float:
        """Since when it counts as ended: a dead letter from its death on, else its last change."""
        if self.state is State.DEAD and self.died is not None:
            return min(self.died, self.updated)
        return self.updated


_STATES: Mapping[str, State] = {state.value: state for state in State}
_CATEGORIES: Mapping[str, Category] = {category.value: category for category in Category}
_OPEN = frozenset({State.PENDING, State.RUNNING})
_SLACK = 1000  # leftovers a heap may hold before it is worth building anew


class Index(Ledger):
    """Every job's entry, and all else that is known."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, Entry] = {}
        self.running: dict[str, Lease] = {}
        self.queues: dict[tuple[State, str, str, bool, Category | None], Queue] = {}
        self.keys: dict[str, str] = {}
        self.runs: dict[int, set[str]] = {}
        self.events: dict[str, str] = {}
        """The event of each job that was submitted for one."""
        self.by_event: dict[str, set[str]] = {}
        self._order: list[str] = []
        self._ordered = True

    def apply(self, change: Change, place: Place) -> None:
        """Make a change part of what is known; `place` is where its body lies."""
        if isinstance(change, Put):
            job = change.job
            lease = None
            if job.state is State.RUNNING:
                lease = Lease(job.lease, job.holder, job.lease_end, job.updated)
            self._put(self._from_job(job, place), lease, job.event)
        elif isinstance(change, Purged):
            self.remove(change.ids)
        else:
            super().apply(change, place)

    def apply_head(self, head: Mapping[str, Any], place: int) -> None:
        """Take in a job that was read as a dict, without building the job."""
        get = head.get
        state = _STATES[get("state", "pending")]
        lease = None
        if state is State.RUNNING:
            number, holder = get("lease", 0), get("holder")
            lease = Lease(number, holder, get("lease_end"), head["updated"])
        failed, failure, category = bool(get("spent")), get("failure"), None
        if failure is not None and (failed or state not in _OPEN):
            category = _CATEGORIES.get(failure.get("category"), Category.UNKNOWN)
        suspect, fails = get("crashes", 0) > 0, get("failed_in_run", False)
        queue = self._queue(state, head["lane"], head["handler"], suspect, category)
        times = (head["due"], get("died_at"), head["updated"])
        action = (None, *get("actions", ()))[-1]
        links = (get("group"), get("run"), action, get("key"))
        entry = Entry(head["id"], state, queue, *times, failed, fails, *links, place)
        self._put(entry, lease, get("event"))

    def remove(self, ids: tuple[str, ...]) -> None:
        """Forget jobs."""
        for one in ids:
            entry = self.entries.pop(one, None)
            if entry is None:
                continue
            self._leave(entry)
            self._ordered = False
            event = self.events.pop(one, None)
            if event is not None:
                self.by_event[event].discard(one)
            if entry.key is not None and self.keys.get(entry.key) == one:
                del self.keys[entry.key]

    def ids(self) -> list[str]:
        """Return every id in ascending order; do not change the list."""
        if not self._ordered:
            # Ids come nearly sorted, which makes this little more than a copy.
            self._order = sorted(self.entries)
            self._ordered = True
        return self._order

    def is_waiting(self, queue: Queue, item: tuple[float, str]) -> bool:
        """Return True if this item of a heap is still true."""
        entry = self.entries.get(item[1])
        return entry is not None and entry.queue is queue and entry.due == item[0]

    def _from_job(self, job: Job, place: Place) -> Entry:
        category = category_from(category_of(job))
        queue = self._queue(job.state, job.lane, job.handler, job.crashes > 0, category)
        times = (job.due, job.died_at, job.updated)
        fails, links = (bool(job.spent), job.failed_in_run), (job.group, job.run)
        action = job.actions[-1] if job.actions else None
        return Entry(job.id, job.state, queue, *times, *fails, *links, action, job.key, place)

    def _put(self, entry: Entry, lease: Lease | None, event: str | None) -> None:
        one = entry.id
        old = self.entries.get(one)
        if old is not None:
            self._leave(old)
        else:
            if self._ordered:
                self._ordered = not self._order or self._order[-1] < one
                self._order.append(one)
            if entry.key is not None:
                self.keys[entry.key] = one
            if event is not None:
                self.events[one] = event
                self.by_event.setdefault(event, set()).add(one)
        self.entries[one] = entry
        if entry.run is not None:
            self.runs.setdefault(entry.run, set()).add(one)
        queue = entry.queue
        queue.number += 1
        if lease is not None:
            self.running[one] = lease
        elif entry.state is State.PENDING:
            heapq.heappush(queue.heap, (entry.due, one))
            if len(queue.heap) > 2 * queue.number + _SLACK:
                queue.heap = sorted({item for item in queue.heap if self.is_waiting(queue, item)})
        elif queue.number == 1 or (queue.oldest is not None and entry.ended < queue.oldest):
            queue.oldest = entry.ended

    def _leave(self, entry: Entry) -> None:
        if entry.run is not None:
            self.runs[entry.run].discard(entry.id)
        queue = entry.queue
        queue.number -= 1
        if entry.state is State.RUNNING:
            self.running.pop(entry.id, None)
        elif queue.oldest == entry.ended:
            queue.oldest = None

    def look_for_oldest(self) -> None:
        """Look once for the oldest of all ends whose oldest job has gone."""
        lost = {
            queue
            for queue in self.queues.values()
            if queue.number and queue.oldest is None and queue.state not in _OPEN
        }
        for entry in self.entries.values() if lost else ():
            queue = entry.queue
            if queue in lost and (queue.oldest is None or entry.ended < queue.oldest):
                queue.oldest = entry.ended

    def first_waiting(self, queue: Queue) -> tuple[float, str] | None:
        """Return the first item that still waits; drops the leftovers above it."""
        heap = queue.heap
        while heap:
            if self.is_waiting(queue, heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _queue(
        self, state: State, lane: str, handler: str, suspect: bool, category: Category | None
    ) -> Queue:
        name = (state, lane, handler, suspect, category)
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue(*name, [])
        return found
