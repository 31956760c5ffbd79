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
from typing import Any, NamedTuple, assert_never

from redrive.jobs.job import Act, Category, Failure, Job, State


class Put(NamedTuple):
    """A job as it is from now on, with its history."""

    job: Job


class Purged(NamedTuple):
    """Jobs that are gone."""

    ids: tuple[str, ...]


class Grouped(NamedTuple):
    """A cause that was seen for the first time."""

    number: int
    fingerprint: str
    title: str


class Noted(NamedTuple):
    """A note as written; without a value it was removed."""

    name: str
    value: str | None
    version: int
    expires: float | None
    """Wall time."""


Change = Put | Purged | Grouped | Noted | Act


class Lease(NamedTuple):
    """The fence of a running job, and when it falls."""

    number: int
    holder: str | None
    end: float | None
    boot: str | None


@dataclass(slots=True, eq=False)
class Queue:
    """The waiting jobs of one lane and handler, earliest due first."""

    lane: str
    handler: str
    suspect: bool
    heap: list[tuple[float, str]]
    live: int = 0


class Entry:
    """What is kept in memory of a job."""

    __slots__ = (
        "category",
        "due",
        "failed",
        "finished",
        "first_failed",
        "group",
        "id",
        "key",
        "place",
        "queue",
        "run",
        "state",
        "updated",
    )

    id: str
    state: State
    queue: Queue
    due: float
    updated: float
    finished: float | None
    first_failed: float | None
    failed: bool
    category: Category | None
    group: int | None
    run: int | None
    key: str | None
    place: Job | int
    """The job itself, or where the journal has its line: offset and length in one number."""


_STATES: Mapping[str, State] = {state.value: state for state in State}
_CATEGORIES: Mapping[str, Category] = {category.value: category for category in Category}
_OPEN = frozenset({State.PENDING, State.RUNNING})
_SLACK = 1000
"""Leftovers a heap may hold before it is worth building anew."""


class Index:
    """Every job's entry, and the groups, acts and notes."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.running: dict[str, Lease] = {}
        self.queues: dict[tuple[str, str, bool], Queue] = {}
        self.keys: dict[str, str] = {}
        self.runs: dict[int, set[str]] = {}
        self.groups: dict[int, Grouped] = {}
        self.fingerprints: dict[str, int] = {}
        self.acts: list[Act] = []
        self.notes: dict[str, Noted] = {}
        self.note_version = 0
        self.last_group = 0
        self._order: list[str] = []
        self._ordered = True

    def apply(self, change: Change, place: Job | int) -> None:
        """Make a change part of what is known; `place` is where the body of a job lies."""
        match change:
            case Put():
                job = change.job
                lease = _lease_of(job) if job.state is State.RUNNING else None
                self._put(self._from_job(job, place), lease)
            case Purged(ids):
                self.remove(ids)
            case Grouped(number, fingerprint, _):
                self.groups[number] = change
                self.last_group = max(self.last_group, number)
                self.fingerprints[fingerprint] = number
            case Noted():
                self.note_version = max(self.note_version, change.version)
                if change.value is None:
                    self.notes.pop(change.name, None)
                else:
                    self.notes[change.name] = change
            case Act():
                self.acts.append(change)
            case _:
                assert_never(change)

    def apply_head(self, head: Mapping[str, Any], place: int) -> None:
        """Take in a job that was read as a dict, without building the job."""
        get = head.get
        state = _STATES[get("state", "pending")]
        lease = None
        if state is State.RUNNING:
            lease = Lease(get("lease", 0), get("holder"), get("lease_end"), get("boot"))
        entry = Entry()
        entry.id = head["id"]
        entry.state = state
        entry.queue = self._queue(head["lane"], head["handler"], get("crashes", 0) > 0)
        entry.due = head["due"]
        entry.updated = head["updated"]
        entry.finished = get("finished")
        entry.first_failed = get("first_failed")
        entry.failed = bool(get("spent"))
        failure = get("failure")
        entry.category = None
        if failure is not None and (entry.failed or state not in _OPEN):
            entry.category = _CATEGORIES.get(failure.get("category"), Category.UNKNOWN)
        entry.group = get("group")
        entry.run = get("run")
        entry.key = get("key")
        entry.place = place
        self._put(entry, lease)

    def remove(self, ids: tuple[str, ...]) -> None:
        """Forget jobs."""
        for one in ids:
            entry = self.entries.pop(one, None)
            if entry is None:
                continue
            self._leave(entry)
            self._ordered = False
            if entry.key is not None and self.keys.get(entry.key) == one:
                del self.keys[entry.key]

    def ids(self) -> list[str]:
        """Give every id in ascending order. Not to be changed."""
        if not self._ordered:
            # Ids come nearly sorted, which makes this little more than a copy.
            self._order = sorted(self.entries)
            self._ordered = True
        return self._order

    def is_waiting(self, queue: Queue, item: tuple[float, str]) -> bool:
        """Whether this item of a heap still says the truth."""
        entry = self.entries.get(item[1])
        return (
            entry is not None
            and entry.state is State.PENDING
            and entry.queue is queue
            and entry.due == item[0]
        )

    def _from_job(self, job: Job, place: Job | int) -> Entry:
        entry = Entry()
        entry.id = job.id
        entry.state = job.state
        entry.queue = self._queue(job.lane, job.handler, job.crashes > 0)
        entry.due = job.due
        entry.updated = job.updated
        entry.finished = job.finished
        entry.first_failed = job.first_failed
        entry.failed = bool(job.spent)
        entry.category = category_of(job.state, job.failure, failed=entry.failed)
        entry.group = job.group
        entry.run = job.run
        entry.key = job.key
        entry.place = place
        return entry

    def _put(self, entry: Entry, lease: Lease | None) -> None:
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
        self.entries[one] = entry
        if entry.run is not None:
            self.runs.setdefault(entry.run, set()).add(one)
        if lease is not None:
            self.running[one] = lease
        elif entry.state is State.PENDING:
            queue = entry.queue
            queue.live += 1
            heapq.heappush(queue.heap, (entry.due, one))
            if len(queue.heap) > 2 * queue.live + _SLACK:
                self._sweep(queue)

    def _leave(self, entry: Entry) -> None:
        if entry.run is not None:
            self.runs[entry.run].discard(entry.id)
        if entry.state is State.PENDING:
            entry.queue.live -= 1
        elif entry.state is State.RUNNING:
            self.running.pop(entry.id, None)

    def _sweep(self, queue: Queue) -> None:
        queue.heap = sorted({item for item in queue.heap if self.is_waiting(queue, item)})

    def _queue(self, lane: str, handler: str, suspect: bool) -> Queue:
        name = (lane, handler, suspect)
        found = self.queues.get(name)
        if found is None:
            found = self.queues[name] = Queue(lane, handler, suspect, [])
        return found


def category_of(state: State, failure: Failure | None, *, failed: bool) -> Category | None:
    """Give the category a job counts under: an open job's failure of a former life does not."""
    if failure is None or (state in _OPEN and not failed):
        return None
    return failure.category


def _lease_of(job: Job) -> Lease:
    return Lease(job.lease, job.holder, job.lease_end, job.boot)
