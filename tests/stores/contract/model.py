"""What a store should have become, said again in the simplest way: a dict of what is believed.

It shares no code with the library but its words; the memory store would share its bugs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from redrive.jobs.job import Completed, Dead, Job, Retry, Return, Verdict
from redrive.stores.contract import ALONE
from redrive.testing import ManualClock

Fence = tuple[str, int, str | None]


@dataclass
class Belief:
    """What must be true of one job."""

    id: str
    handler: str
    lane: str
    payload: str
    key: str | None
    due: float
    state: str = "pending"
    reason: str | None = None
    attempts: int = 0
    spent: Counter[str] = field(default_factory=Counter)
    crashes: int = 0
    redrives: int = 0
    lease: int = 0
    holder: str | None = None
    ends: float = 0.0
    finished: float | None = None
    changed: float = 0.0
    """When it last changed, for the ends that are purged by it."""
    died_at: float | None = None
    category: str | None = None
    was: str | None = None
    edits: int = 0
    original: str | None = None
    run: int | None = None
    claimed: float = 0.0
    ended: int = 0
    """How many claims ended with a record."""

    def shown(self) -> tuple[object, ...]:
        """The fields that a store must show exactly so."""
        return (
            *(self.state, self.reason, self.attempts, dict(self.spent), self.crashes),
            *(self.redrives, self.lease, self.holder, self.due, self.finished, self.category),
            *(self.payload, self.original, self.edits, self.key, self.handler, self.lane),
            *(self.run, self.died_at),
        )


@dataclass
class Cause:
    """What must be true of one group."""

    first_seen: float
    deaths: int = 0
    last_seen: float | None = None
    resolved: float | None = None
    regressed: bool = False

    @property
    def status(self) -> str:
        return "open" if self.resolved is None else "regressed" if self.regressed else "resolved"


def shown(job: Job) -> tuple[object, ...]:
    """The same fields of a job that a store gave."""
    category = None if job.failure is None else job.failure.category.value
    return (
        *(job.state.value, job.reason and job.reason.value, job.attempts, dict(job.spent)),
        *(job.crashes, job.redrives, job.lease, job.holder, job.due, job.finished, category),
        *(job.payload, job.original, job.edits, job.key, job.handler, job.lane),
        *(job.run, job.died_at),
    )


class Model:
    """Every job, every note, and the rules that change them."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.jobs: dict[str, Belief] = {}
        self.notes: dict[str, tuple[str, float | None]] = {}
        self.causes: dict[str, Cause] = {}
        self.ends: list[tuple[float, str, tuple[int, int, int, int]]] = []
        """When which lane had an attempt, and whether it was a success, first failure and death."""
        self.jumped = False
        """Whether the wall clock was set: then times of counts are not compared."""
        self.left_open = False
        """Whether a store was left without closing it: counts but deaths may wait there."""

    def live_notes(self) -> dict[str, str]:
        now = self.clock.now()
        return {n: v for n, (v, end) in self.notes.items() if end is None or end > now}

    def claimable(
        self,
        handlers: Collection[str],
        lanes: Collection[str] | None,
        *,
        suspects: bool,
        ignore_waits: bool,
    ) -> list[Belief]:
        now, notes = self.clock.now(), self.live_notes()
        if suspects and not ignore_waits and self.suspect_runs():
            return []
        fits = [
            job
            for job in self.jobs.values()
            if job.state == "pending"
            and job.handler in handlers
            and (lanes is None or job.lane in lanes)
            and bool(job.crashes) == suspects
            and (ignore_waits or (job.due <= now and f"pause:{job.lane}" not in notes))
        ]
        return sorted(fits, key=lambda job: job.due)

    def suspect_runs(self) -> bool:
        now = self.clock.now()
        running = (job for job in self.jobs.values() if job.state == "running" and job.crashes)
        return any(abs(now - job.claimed) < ALONE for job in running)

    def lease(self, job: Belief, holder: str, lease_for: float) -> None:
        job.lease, job.holder, job.ends = job.lease + 1, holder, self.clock.now() + lease_for

    def claim(self, job: Belief, holder: str, lease_for: float) -> None:
        job.state, job.attempts = "running", job.attempts + 1
        job.claimed = self.clock.now()
        self.lease(job, holder, lease_for)

    def held(self, fence: Fence) -> Belief | None:
        """The job that this claim still holds, if any."""
        job = self.jobs.get(fence[0])
        ours = job is not None and job.state == "running" and fence[1:] == (job.lease, job.holder)
        return job if ours else None

    def expired(self, holder: str | None) -> list[str]:
        now = self.clock.now()
        return [
            job.id
            for job in self.jobs.values()
            if job.state == "running" and (job.holder == holder if holder else job.ends <= now)
        ]

    def settle(self, job: Belief, verdict: Verdict, category: str | None) -> None:
        job.holder, now = None, self.clock.now()
        match verdict:
            case Return(delay):
                job.state, job.attempts = "pending", job.attempts - 1
                job.due = job.due if delay is None else now + delay
                return
            case Retry(delay):
                job.state, job.due = "pending", now + delay
            case Dead(reason):
                job.state, job.reason, job.finished = "dead", reason.value, now
                job.changed = job.died_at = now
            case Completed(reason):
                job.state, job.reason, job.finished = "completed", reason.value, now
                job.changed = now
        job.ended += 1
        success, death = job.state == "completed", job.state == "dead"
        first = bool(category) and not job.spent
        self.ends.append((now, job.lane, (1, int(success), int(first), int(death))))
        if category:
            self.count_failure(category, now, death=death)
            job.spent[category] += 1
            job.crashes += category == "crash"
            job.category = category

    def count_failure(self, category: str, now: float, *, death: bool) -> None:
        cause = self.causes.setdefault(f"print-{category}", Cause(now))
        if death:
            cause.deaths += 1
            cause.last_seen = now
            cause.regressed = cause.regressed or (
                cause.resolved is not None and now > cause.resolved
            )

    def curve(self, span: int, number: int) -> dict[str, list[tuple[int, ...]]]:
        """What happened in each lane in the last buckets."""
        last = self.clock.now() // span
        found: dict[str, list[list[int]]] = {}
        for at, lane, counts in self.ends:
            place = number - 1 - int(last - at // span)
            if place >= 0:
                rows = found.setdefault(lane, [[0] * 4 for _ in range(number)])
                rows[place] = [one + more for one, more in zip(rows[place], counts, strict=True)]
        return {lane: [tuple(row) for row in rows] for lane, rows in found.items()}

    def move(self, verb: str, job: Belief | None, delay: float) -> bool:
        """Apply a deed; whether the state allowed it."""
        now = self.clock.now()
        if job is None or job.state == "completed":
            return False
        if verb == "retry" and job.state == "pending":
            job.due = now + delay
        elif verb == "retry" and job.state in {"dead", "resolved"}:
            job.state, job.reason, job.finished, job.due = "pending", None, None, now + delay
            job.attempts, job.spent, job.crashes = 0, Counter(), 0
            job.redrives += 1
        elif verb in {"resolve", "discard"} and job.state != "resolved":
            job.was = job.reason if job.state == "dead" else None
            job.state, job.reason = "resolved", f"{verb}ed".replace("ee", "e")
            job.finished, job.holder, job.changed = now, None, now
        elif verb == "reopen" and job.state == "resolved":
            job.state, job.reason, job.finished = "dead", job.was or "manual", now
            job.changed, job.died_at = now, job.died_at or now
        else:
            return False
        self.leave_run(job)
        return True

    def leave_run(self, job: Belief) -> None:
        """Take a job out of the run it waits for, if it waits for one."""
        job.run = None if (job.run or 0) < 0 else job.run

    def drive(self, deed: str, job: Belief | None, run: int) -> bool:
        """Apply a step of a run; whether the job allowed it."""
        tag = 0 if job is None else job.run or 0
        if job is None or (deed == "release" and tag != -run):
            return False
        if deed == "leave":
            self.leave_run(job)
        elif deed == "enlist":
            if job.state in {"running", "completed"} or (tag < 0 and tag != -run):
                return False
            job.run = -run
        elif self.move("retry", job, 0.0):
            job.run = run
        else:
            return False
        return True

    def members(self, run: int) -> Counter[str]:
        """How many jobs are tagged so, by state."""
        return Counter(job.state for job in self.jobs.values() if job.run == run)

    def counts(self) -> Counter[tuple[str, str, str | None]]:
        return Counter((job.state, job.lane, self._category(job)) for job in self.jobs.values())

    def _category(self, job: Belief) -> str | None:
        waits = job.state in {"pending", "running"}
        return None if waits and not job.spent else job.category
