"""Counters for metrics: attempts and how long they took, dead letters, first failures.

Each process counts for itself and adds its new counts to one note of the store every few seconds, by
compare-and-set. So the total is right with any number of processes and never goes back; a process
that is killed loses what it counted since its last addition. The note also holds the number of each
process's last addition: one whose answer was lost is found there, and not made twice.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import threading
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, cast
from weakref import WeakKeyDictionary

from redrive.errors import StoreError
from redrive.jobs.job import Attempt, Completed, Dead, Job, Retry, Return, Settlement
from redrive.jobs.logger import log
from redrive.stores.contract import Store
from redrive.stores.note_verbs import note_named

EVERY = 10.0  # seconds between two additions
BUCKETS = (0.01, 0.1, 1.0, 10.0, 60.0, 600.0)
"""Seconds; an attempt is counted under the first that is not less than it took."""
LE = (*map(str, BUCKETS), "+Inf")
_NOTE = "counters"
_TRIES = 20
_REMEMBERED = 200
"""How many processes the note remembers; an addition in doubt is looked up within seconds."""
ALERT = "redrive.alert"

Key = tuple[str, ...]
"""What is counted, then the values of its labels."""
Counts = dict[Key, float]


class Counters:
    """The counters of one process for one store."""

    def __init__(self) -> None:
        self._forget()

    def _mind_fork(self) -> None:
        """Start afresh in a forked child: it must not add what its parent counted."""
        if self._pid != os.getpid():
            self._forget()

    def _forget(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._new: Counts = defaultdict(float)
        self._batch: Counts = {}  # being added, and perhaps added already
        self._name = secrets.token_hex(8)
        self._number = 0
        self._next = time.monotonic() + EVERY
        self._ever: Counter[type] = Counter()

    def count(self, job: Job, settlement: Settlement) -> None:
        """Count a stored settlement; a returned claim is no attempt."""
        self.count_all([job], [settlement])

    def count_all(self, jobs: Sequence[Job | None], settlements: Sequence[Settlement]) -> None:
        """Do the same for many; None stands for a job whose settlement was refused."""
        self._mind_fork()
        kinds: dict[tuple[str, str, type], list[float]] = {}
        rarer: list[Key] = []
        returned = 0
        for job, settlement in zip(jobs, settlements, strict=True):
            attempt = settlement.attempt
            if job is None or attempt is None:
                returned += job is not None
                continue
            lane, outcome = job.lane, attempt.outcome
            kind = lane, outcome, type(settlement.verdict)
            try:
                kinds[kind].append(attempt.duration)
            except KeyError:
                kinds[kind] = [attempt.duration]
            if outcome != "done" or lane == ALERT or job.run is not None:
                rarer += _rarer(job, settlement, attempt)
        with self._lock:
            for (lane, outcome, verdict), durations in kinds.items():
                self._count_alike(lane, outcome, durations)
                self._ever[verdict] += len(durations)
            self._ever[Return] += returned
            for key in rarer:
                self._new[key] += 1.0

    def _count_alike(self, lane: str, outcome: str, durations: list[float]) -> None:
        new = self._new
        new["attempts", lane, outcome] += len(durations)
        if outcome == "crashed":  # nobody saw when that ended
            return
        new["seconds", lane] += sum(took for took in durations if took > 0.0)
        durations.sort()
        below = 0
        for le, bound in zip(LE, (*BUCKETS, math.inf), strict=True):
            upto = bisect_right(durations, bound)
            if upto > below:
                new["bucket", lane, le] += upto - below
            below = upto

    def ever(self) -> Counter[str]:
        """Return the ends of jobs that this process counted since it began, for the log."""
        return totals(self._ever)

    def write(self, store: Store) -> None:
        """Add the new counts to the note; what could not be added is kept for the next time."""
        self._mind_fork()
        with self._writing:
            self._next = time.monotonic() + EVERY
            if not self._batch:
                with self._lock:
                    self._batch, self._new = self._new, defaultdict(float)
                self._number += 1
            if self._batch and not any(self._add(store) for _ in range(_TRIES)):
                log.debug("other processes are writing the counters; adding ours later")

    def write_if_due(self, store: Store) -> None:
        """Do the same if it is time; an error of the store is ignored."""
        if time.monotonic() >= self._next:
            self.write_last(store)

    def write_last(self, store: Store) -> None:
        """Do the same now; an error of the store is ignored."""
        with contextlib.suppress(StoreError):
            self.write(store)

    def _add(self, store: Store) -> bool:
        version, total, last = _read(store)
        if last.pop(self._name, 0) != self._number:
            for key, value in self._batch.items():
                total[key] = total.get(key, 0.0) + value
            last[self._name] = self._number
            while len(last) > _REMEMBERED:
                del last[next(iter(last))]
            counts = [[*key, round(value, 6)] for key, value in sorted(total.items())]
            text = json.dumps({"counts": counts, "last": last}, ensure_ascii=False)
            if store.note(_NOTE, text, expected=version) is None:
                return False
        self._batch = {}
        return True


def totals(ended: Counter[type]) -> Counter[str]:
    """Sum up how many claims ended with which verdict; a returned one was not taken."""
    succeeded, retried, died, returned = (ended[kind] for kind in (Completed, Retry, Dead, Return))
    failed = retried + died
    taken = succeeded + failed
    return Counter(taken=taken, succeeded=succeeded, failed=failed, died=died, returned=returned)


_known: WeakKeyDictionary[Store, Counters] = WeakKeyDictionary()


def of(store: Store) -> Counters:
    """Return this process's counters for a store."""
    return _known.get(store) or _known.setdefault(store, Counters())


def finish(store: Store) -> None:
    """Add what is left before a store is closed."""
    if counters := _known.get(store):
        counters.write_last(store)


def total(store: Store) -> Counts:
    """Return the total of all processes up to their last additions."""
    return _read(store)[1]


def _rarer(job: Job, settlement: Settlement, attempt: Attempt) -> Iterator[Key]:
    """Yield what else is counted: failures, jobs of a run, and alerts."""
    before, verdict, lane = settlement.claim.job, settlement.verdict, job.lane
    if attempt.failure is not None and before.first_failed is None:
        yield "captured", lane
    if isinstance(verdict, Dead):
        yield "dead", lane, str(job.reason)
    if before.run is not None and before.run > 0 and isinstance(verdict, Completed | Dead):
        yield "run_jobs", "failed" if isinstance(verdict, Dead) else "succeeded"
    if lane == ALERT:
        yield "alerts", _channel(job), "failed" if attempt.failure else "sent"


def _channel(job: Job) -> str:
    try:
        return str(json.loads(job.payload)["channel"])
    except (ValueError, TypeError, KeyError):
        return ""


def _read(store: Store) -> tuple[int, Counts, dict[str, int]]:
    """Return the version of the note, its counts, and the number of each process's last addition."""
    note = note_named(store, _NOTE)
    if note is None:
        return 0, {}, {}
    try:
        value = cast("dict[str, Any]", json.loads(note.value))
        counts = {tuple(row[:-1]): float(row[-1]) for row in value["counts"]}
        return note.version, counts, dict(value["last"])
    except (ValueError, TypeError, KeyError):
        log.exception("the stored counters cannot be read; counting restarts at 0")
        return note.version, {}, {}
