"""How things stand: counts, ages, workers, pauses, unserved lanes; `status` adds groups and runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redrive.desk import shapes
from redrive.desk.documents import Seen, pause_document, sums, with_trends, worker_document
from redrive.jobs.clock import iso
from redrive.jobs.job import HOPELESS, Category, State

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.desk.lanes import LanePause, LiveWorker
    from redrive.runs.run_records import Run
    from redrive.stores.contract import Count

TOP = 5
"""How many groups are shown."""
LATE = 600.0
"""Seconds. What has been due for longer is not only waiting for the next pass of a worker."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A lane whose jobs nobody takes."""

    lane: str
    pending: int
    due: float
    """Since when the oldest has been due."""
    paused: bool


@dataclass(frozen=True, slots=True)
class Health:
    """What one look at the store costs little to know."""

    url: str
    durability: str
    now: float
    counts: list[Count]
    pauses: list[LanePause]
    unserved: dict[str, float]
    """Lanes that nobody serves, and since when jobs are due."""
    because: dict[str, str]
    """Why workers cannot serve a lane, where one said so."""
    workers: list[LiveWorker]
    last_pass: float | None

    def total(self, state: State) -> int:
        """Count the jobs of a state."""
        return sum(count.jobs for count in self.counts if count.state is state)

    @property
    def failed(self) -> int:
        """Pending jobs that have failed in this life."""
        return sum(c.jobs for c in self.counts if c.state is State.PENDING and c.category)

    @property
    def candidates(self) -> int:
        """Dead letters that another attempt may help."""
        dead = (count for count in self.counts if count.state is State.DEAD)
        return sum(count.jobs for count in dead if count.category not in HOPELESS)

    def oldest(self, state: State) -> float | None:
        """Return the earliest due time of pending jobs, or time of death of dead ones."""
        times = (c.oldest for c in self.counts if c.state is state and c.oldest is not None)
        return min(times, default=None)

    def age(self, state: State) -> float | None:
        """Return for how many seconds the oldest has waited; None when none is late."""
        oldest = self.oldest(state)
        return None if oldest is None or oldest > self.now else self.now - oldest

    @property
    def healthy(self) -> bool:
        """True if nothing failed, nothing is dead and nothing waits for a missing worker."""
        bad = self.failed or self.total(State.DEAD) or self.overdue() or self.unserved
        return not (bad or any(worker.is_silent or worker.blocked for worker in self.workers))

    def overdue(self) -> list[Overdue]:
        """Return the lanes with jobs that should have run long ago, the oldest first."""
        paused = {pause.lane for pause in self.pauses}
        oldest: dict[str, float] = {}
        pending: Counter[str] = Counter()
        for count in self.counts:
            if count.state is State.PENDING and count.oldest is not None:
                pending[count.lane] += count.jobs
                oldest[count.lane] = min(count.oldest, oldest.get(count.lane, count.oldest))
        late = sorted((due, lane) for lane, due in oldest.items() if self.now - due > LATE)
        return [Overdue(lane, pending[lane], due, lane in paused) for due, lane in late]

    def categories(self) -> list[tuple[Category | None, int, int]]:
        """Count failed and dead jobs by category, most first."""
        failed: Counter[Category | None] = Counter()
        dead: Counter[Category | None] = Counter()
        for count in self.counts:
            if count.state is State.DEAD:
                dead[count.category] += count.jobs
            elif count.state is State.PENDING and count.category:
                failed[count.category] += count.jobs
        both = failed + dead
        names = sorted(both, key=lambda name: (-both[name], name or ""))
        return [(name, failed[name], dead[name]) for name in names]

    def document(self) -> shapes.Health:
        """Return what the server's health and `status --json` share."""
        return {
            "oldest_due_seconds": self.age(State.PENDING),
            "oldest_dead_seconds": self.age(State.DEAD),
            "workers": [worker_document(worker) for worker in self.workers],
            "last_pass": iso(self.last_pass),
            "unserved": list(self.unserved),
            "unserved_because": self.because,
            "pauses": [pause_document(pause) for pause in self.pauses],
            "store": self.url,
            "durability": self.durability,
            "now": iso(self.now),
        }


@dataclass(frozen=True, slots=True)
class Status(Health):
    """Everything `redrive status` shows."""

    groups: list[Seen]
    runs: list[Run]
    minutes: list[int]
    """How many died in each ten minutes of the last hour."""
    day: list[int]
    """How many died in each hour of the last day."""


def health_of(desk: Desk) -> Health:
    """Read how things stand, by questions that are cheap beside many jobs."""
    return Health(**_facts(desk))


def status_of(desk: Desk) -> Status:
    """Read how things stand, with the groups, the runs and the deaths of the last day."""
    return Status(
        **_facts(desk),
        groups=with_trends(desk, desk.groups.find(limit=TOP)),
        runs=desk.runs.live(),
        minutes=sums(desk.lanes.deaths(60, 60), 10),
        day=desk.lanes.deaths(3600, 24),
    )


def _facts(desk: Desk) -> dict[str, Any]:
    counts, because = desk.jobs.counts(), desk.lanes.unserved_because()
    unserved = desk.lanes.unserved(counts)
    return {
        "url": desk.store.url,
        "durability": desk.store.durability,
        "now": desk.store.now(),
        "counts": counts,
        "pauses": desk.lanes.pauses(),
        "unserved": unserved,
        "because": {lane: because[lane] for lane in unserved if lane in because},
        "workers": desk.lanes.workers(),
        "last_pass": desk.lanes.last_pass(),
    }
