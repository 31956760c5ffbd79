"""How things stand: counts, ages, workers, pauses, unserved lanes; `status` adds groups and runs.

`Status.verdict` is the one place that decides if there is an incident.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from redrive.desk import shapes
from redrive.desk.documents import Seen, pause_document, sums, with_trends, worker_document
from redrive.desk.sentences import Sentence
from redrive.jobs.clock import iso
from redrive.jobs.job import HOPELESS, Category, State
from redrive.payloads.masked_jobs import seen_record
from redrive.stores.contract import Query, oldest_by_lane
from redrive.stores.tallies import Tally

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.desk.lanes import LanePause, LiveWorker
    from redrive.runs.run_records import Run
    from redrive.stores.contract import Count

TOP = 5  # how many groups are shown
LATE = 600.0
"""Seconds. What has been due for longer is not only waiting for the next pass of a worker."""
HOUR = 3600.0
FEWEST = 10  # deaths in ten minutes from which on a group grows
_READ, _MANY = 100, 10_000
"""How many failed jobs of a category are read to find those that have been retrying for over an hour,
and beyond how many none is: to find the newest of them takes too long."""
_CHANGED = 20  # how many changed groups are shown
_TITLE = 120  # characters of a title in a sentence

Level = Literal["OK", "DEGRADED", "INCIDENT"]


class Verdict(NamedTuple):
    """How things stand in one word, and why in one sentence."""

    level: Level
    why: Sentence


class Change(NamedTuple):
    """Something that began in the last hour."""

    kind: Literal["new", "regressed", "growing", "release", "paused", "unserved"]
    subject: str
    """A group such as G7, a lane or a release."""
    since: float
    detail: str


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

    def due(self) -> dict[str, float]:
        """Return the lanes with jobs that are due, and since when the oldest is."""
        oldest = oldest_by_lane(self.counts, State.PENDING)
        return {lane: at for lane, at in oldest.items() if at <= self.now}

    def overdue(self) -> list[Overdue]:
        """Return the lanes with jobs that should have run long ago, the oldest first."""
        paused = {pause.lane for pause in self.pauses}
        pending: Counter[str] = Counter()
        for count in self.counts:
            if count.state is State.PENDING:
                pending[count.lane] += count.jobs
        late = sorted((due, lane) for lane, due in self.due().items() if self.now - due > LATE)
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
    active: list[Seen]
    """The groups of which jobs died in the last hour, the last death first."""
    retrying: Mapping[str, tuple[int, float]]
    """The handlers of jobs that have been retrying for over an hour: how many, and since when."""

    def verdict(self) -> Verdict:
        """Return the verdict: the first of the gravest reasons; without any all is well."""
        if reasons := self.reasons():
            return reasons[0]
        return Verdict(
            "OK", Sentence("failing", jobs=self.failed) if self.failed else Sentence("healthy")
        )

    def reasons(self) -> list[Verdict]:
        """Return everything that is wrong, the gravest first."""
        late = self.overdue()
        incidents = [*_growing(self.active), *self._waiting([o for o in late if not o.paused])]
        others = [
            *self._workers(),
            *self._waiting([o for o in late if o.paused]),
            *self._unserved(late),
            *self._news(),
            *self._retrying(),
            *self._dead(),
        ]
        incident, degraded = (_verdicts("INCIDENT", incidents), _verdicts("DEGRADED", others))
        return [*incident, *degraded]

    def changes(self) -> list[Change]:
        """Return what began in the last hour: groups, releases, pauses, lanes that nobody serves."""
        began = [*self._changed_groups(), *self._releases()]
        paused = ((p.lane, p.since, p.reason) for p in self.pauses if p.since is not None)
        began += [Change("paused", *pause) for pause in paused]
        lanes = ((lane, due, self.because.get(lane, "")) for lane, due in self.unserved.items())
        began += [Change("unserved", *lane) for lane in lanes]
        recent = [change for change in began if self.is_recent(change.since)]
        return [change._replace(since=min(change.since, self.now)) for change in recent]

    def is_recent(self, at: float | None) -> bool:
        """Return True if this was in the last hour."""
        return at is not None and self.now - at <= HOUR

    def _changed_groups(self) -> Iterator[Change]:
        for row in self.active:
            kind, since = _kind(self, row)
            if kind is not None:
                title = row.group.title[:_TITLE]
                detail = Sentence("deaths", deaths=row.last_hour, title=title)
                yield Change(kind, row.group.name, since, detail)

    def _releases(self) -> Iterator[Change]:
        started: dict[str, list[float]] = {}
        for worker in self.workers:
            if worker.release and worker.since is not None:
                started.setdefault(worker.release, []).append(worker.since)
        for release, times in sorted(started.items()):
            yield Change("release", release, min(times), Sentence("workers", workers=len(times)))

    def _news(self) -> Iterator[Sentence]:
        """Yield the groups that began or came back, but for those that grow: these are incidents."""
        growing = {row.group.name for row in self.active if row.recent >= FEWEST}
        for change in self._changed_groups():
            if change.kind != "growing" and change.subject not in growing:
                code, ago = (
                    "began" if change.kind == "new" else "came_back",
                    self.now - change.since,
                )
                values = change.detail.values if isinstance(change.detail, Sentence) else {}
                yield Sentence(code, group=change.subject, ago=ago, **values)

    def _workers(self) -> Iterator[Sentence]:
        for worker in self.workers:
            if worker.blocked:
                yield _blocked(worker, self.now)
        for worker in self.workers:
            if worker.is_silent:
                silent = float(worker.silent)
                yield Sentence("silent", pid=str(worker.pid), host=worker.host, silent=silent)

    def _waiting(self, late: list[Overdue]) -> Iterator[Sentence]:
        if late:
            code = "overdue_paused" if late[0].paused else "overdue"
            jobs, since = sum(o.pending for o in late), self.now - late[0].due
            yield Sentence(code, jobs=jobs, lanes=[o.lane for o in late], since=since)

    def _unserved(self, late: list[Overdue]) -> Iterator[Sentence]:
        if lanes := sorted(self.unserved.keys() - {o.lane for o in late}):
            yield Sentence("unserved", lanes=lanes)

    def _retrying(self) -> Iterator[Sentence]:
        if self.retrying:
            jobs = sum(number for number, _ in self.retrying.values())
            longest = self.now - min(since for _, since in self.retrying.values())
            yield Sentence("retrying", jobs=jobs, longest=longest)

    def _dead(self) -> Iterator[Sentence]:
        if dead := self.total(State.DEAD):
            yield Sentence("dead", dead=dead, died=sum(self.minutes))


def _verdicts(level: Level, sentences: Iterable[Sentence]) -> list[Verdict]:
    return [Verdict(level, sentence) for sentence in sentences]


def _kind(at: Status, row: Seen) -> tuple[Literal["new", "regressed", "growing"] | None, float]:
    """Return how a group changed in the last hour, if it did, and since when."""
    record = row.group.record
    if record.first_seen is not None and at.is_recent(record.first_seen):
        return "new", record.first_seen
    if record.regressed is not None and at.is_recent(record.regressed):
        return "regressed", record.regressed
    return ("growing" if row.recent >= FEWEST else None), at.now - LATE


def _growing(active: Iterable[Seen]) -> Iterator[Sentence]:
    for row in sorted(active, key=lambda row: -row.recent):
        if row.recent >= FEWEST:
            ago = float(row.now - (row.group.record.since or row.now))
            title = row.group.title[:_TITLE]
            yield Sentence("grows", group=row.group.name, died=row.recent, ago=ago, title=title)


def _blocked(worker: LiveWorker, now: float) -> Sentence:
    by = worker.blocked or {}
    job = f"job {by['job']} ({by.get('handler')})" if "job" in by else "an unknown job"
    since = by.get("since")
    if not isinstance(since, int | float):
        return Sentence("blocked", worker=worker.name, job=job)
    return Sentence("blocked_for", worker=worker.name, job=job, span=max(0.0, now - since))


def health_of(desk: Desk) -> Health:
    """Read how things stand, by questions that are cheap beside many jobs."""
    return Health(**_facts(desk))


def status_of(desk: Desk, groups: list[Seen] | None = None) -> Status:
    """Read how things stand, with the groups, the runs and the deaths of the last day.

    A caller that has just read the largest groups passes them.
    """
    facts = _facts(desk)
    return Status(
        **facts,
        groups=with_trends(desk, desk.groups.find(limit=TOP)) if groups is None else groups[:TOP],
        runs=desk.runs.live(),
        minutes=sums(desk.lanes.deaths(60, 60), 10),
        day=desk.lanes.deaths(3600, 24),
        active=_active(desk),
        retrying=_retrying(desk, facts["counts"]),
    )


def _active(desk: Desk) -> list[Seen]:
    """Return the groups of which jobs died in the last hour, whatever became of these since."""
    now, records = desk.store.now(), desk.store.group_records().values()
    recent = [one for one in records if one.last_seen is not None and now - one.last_seen <= HOUR]
    recent.sort(key=lambda record: (-(record.last_seen or now), record.number))
    groups = [Tally().group(one.number, one) for one in map(seen_record, recent[:_CHANGED])]
    return with_trends(desk, groups) if groups else []


def _retrying(desk: Desk, counts: Iterable[Count]) -> dict[str, tuple[int, float]]:
    """Return the handlers whose jobs have been failing for over an hour of their present life.

    Of each category _READ jobs are read: where more are retrying, these are the least there are.
    """
    failing: Counter[Category] = Counter()
    for count in counts:
        if count.state is State.PENDING and count.category is not None:
            failing[count.category] += count.jobs
    now, found = desk.store.now(), dict[str, tuple[int, float]]()
    pending = frozenset({State.PENDING})
    for category in [category for category, jobs in failing.items() if jobs <= _MANY]:
        for job in desk.store.find(Query(states=pending, category=category, limit=_READ)).jobs:
            began = max(job.since, now if job.first_failed is None else job.first_failed)
            if now - began > HOUR:
                jobs, since = found.get(job.handler, (0, began))
                found[job.handler] = jobs + 1, min(since, began)
    return found


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
