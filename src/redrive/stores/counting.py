"""Counts over time: what a settled batch adds, how it waits, and how it reaches buckets and groups.

`counts_of` and `counts_added` say what one write adds. A store appends that as a *tick*, a row of its
own, so no two writers ever wait for one row; `folded` turns ticks into additions to the buckets (minutes
and hours per lane and group) and into the groups' new records. Nothing else knows these rules.

Deaths are always written with the batch that they belong to. Attempts, successes and first failures may
wait in the process (`Backlog`) for up to a second, so that small batches do not pay for a tick each.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from threading import Lock
from typing import Any, NamedTuple, get_args

from redrive.jobs.groups import GroupRecord, LaneCount, Span
from redrive.jobs.job import Job, Settlement, State
from redrive.jobs.reports import is_new_death
from redrive.jobs.transitions import Changed
from redrive.stores._codec import encode

SPANS: tuple[Span, ...] = get_args(Span)
KEPT: Mapping[int, float] = {60: 86400.0, 3600: 30 * 86400.0}
"""For how many seconds the buckets of each span are kept; `fold` removes older ones."""
MOST_LANES, MOST_GROUPS = 500, 1000
"""How many lanes and groups one bucket tells apart; the rest count as OTHER_LANE, OTHER_GROUP."""
OTHER_LANE, OTHER_GROUP = "", 0
FOLD_EVERY = 10.0  # seconds after which the writer of a tick folds
_QUIET = 86400.0  # seconds without a death after which the next death begins a new incident
_MOST_WAITING = 1000  # how many counts wait apart before they are added up
_WRITE_EVERY = 1.0  # seconds for which counts without deaths may wait in the process
_COMPLETED = State.COMPLETED  # a class of enums looks every name up in Python


class GroupCount(NamedTuple):
    """The deaths of one group in a batch."""

    deaths: int
    release: str | None
    """The release of the last of them that is known."""


class Counts(NamedTuple):
    """What one write adds."""

    lanes: Mapping[str, LaneCount]
    groups: Mapping[int, GroupCount]


class Tick(NamedTuple):
    """Counts and the time they belong to."""

    at: float
    counts: Counts


def counts_of(settled: Iterable[tuple[Settlement, Changed]]) -> Counts:
    """Count those settlements of a batch whose fence held; those without an attempt count nothing."""
    lanes: dict[str, list[int]] = {}
    groups: dict[int, GroupCount] = {}
    for result, (was, _, job) in settled:
        attempt = result.attempt
        if attempt is None:
            continue
        lane = lanes.get(job.lane)
        if lane is None:
            lane = lanes[job.lane] = [0, 0, 0, 0]
        lane[0] += 1
        if job.state is _COMPLETED:
            lane[1] += 1
            continue
        if attempt.failure is not None and not was.spent:
            lane[2] += 1
        if job.state is State.DEAD:
            lane[3] += 1
            _count_death(groups, job, attempt.release or job.release)
    return Counts({lane: LaneCount(*numbers) for lane, numbers in lanes.items()}, groups)


def counts_added(jobs: Iterable[Job], now: float) -> Counts:
    """Count the jobs of an `add` that have just died; imported ones died long ago, or elsewhere."""
    lanes: dict[str, int] = {}
    groups: dict[int, GroupCount] = {}
    for job in jobs:
        if is_new_death(job, now):
            lanes[job.lane] = lanes.get(job.lane, 0) + 1
            _count_death(groups, job, last_release(job))
    return Counts({lane: LaneCount(deaths=number) for lane, number in lanes.items()}, groups)


def last_release(job: Job) -> str | None:
    """Return the release that ran the last attempt of a job to be added; else the one it came from."""
    return (job.history[-1].release if job.history else None) or job.release


def _count_death(groups: dict[int, GroupCount], job: Job, release: str | None) -> None:
    if job.group is None:
        return
    deaths, last = groups.get(job.group, GroupCount(0, None))
    groups[job.group] = GroupCount(deaths + 1, release or last)


def added(*some: Counts) -> Counts:
    """Add up counts; the last one is the latest."""
    lanes: dict[str, list[int]] = {}
    groups: dict[int, GroupCount] = {}
    for counts in some:
        for lane, numbers in counts.lanes.items():
            sums = lanes.setdefault(lane, [0, 0, 0, 0])
            for place, number in enumerate(numbers):
                sums[place] += number
        for number, count in counts.groups.items():
            deaths, release = groups.get(number, GroupCount(0, None))
            groups[number] = GroupCount(deaths + count.deaths, count.release or release)
    return Counts({lane: LaneCount(*sums) for lane, sums in lanes.items()}, groups)


def counts_to_json(counts: Counts) -> str:
    """Write counts as a tick keeps them: {"lanes":{"mail":[9,8,1,1]},"groups":{"7":[1,"r2"]}}."""
    return encode({"lanes": counts.lanes, "groups": counts.groups})


def counts_from_json(text: str) -> Counts:
    """Read them back; ValueError, TypeError or KeyError if it is not what Redrive wrote."""
    return counts_from_dict(json.loads(text))


def counts_from_dict(data: dict[str, dict[str, Any]]) -> Counts:
    """Read them from what JSON has; raises in the same way."""
    return Counts(
        {lane: LaneCount(*map(int, numbers)) for lane, numbers in data["lanes"].items()},
        {
            int(number): GroupCount(int(deaths), release)
            for number, (deaths, release) in data["groups"].items()
        },
    )


class Share(NamedTuple):
    """What a transaction does with its counts: write some, leave some in the process."""

    write: list[Tick]
    """For this transaction, which must write all of them; mostly one, often none."""
    later: list[Tick]
    """What waits in the process once the transaction has committed."""
    back: list[Tick]
    """What waits again if the transaction did not commit."""


class Backlog:
    """Counts that wait in this process to be written; safe to use from many threads.

    In the transaction: `share = backlog.share(counts, now)`, and write `share.write`. After it, once:
    `backlog.close(share, committed=…)`. A store that closes writes `rest`; `fold` writes it too, and
    readers of this process add `waiting`.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: list[Tick] = []
        self._written = float("-inf")

    def share(self, counts: Counts, now: float) -> Share:
        """Return what to write with a batch: all that waits too, or nothing before a second is over."""
        own = [Tick(now, counts)] if counts.lanes else []
        with self._lock:
            if not _has_deaths(counts) and 0 <= now - self._written < _WRITE_EVERY:
                return Share([], own, [])
            self._written = now
            waiting = self._take()
        return Share([*waiting, *own], [], waiting)

    def close(self, share: Share, *, committed: bool) -> None:
        """Keep what was not written for later."""
        self._keep(share.later if committed else share.back)

    def rest(self) -> Share:
        """Return all that waits, to be written now."""
        with self._lock:
            waiting = self._take()
        return Share(waiting, [], waiting)

    def waiting(self) -> list[Tick]:
        """Return what waits, for readers; it goes on waiting."""
        with self._lock:
            self._waiting = _by_minute(self._waiting)
            return [*self._waiting]

    def _take(self) -> list[Tick]:
        taken, self._waiting = _by_minute(self._waiting), []
        return taken

    def _keep(self, ticks: list[Tick]) -> None:
        if not ticks:
            return
        with self._lock:
            self._waiting += ticks
            if len(self._waiting) > _MOST_WAITING:
                self._waiting = _by_minute(self._waiting)


def _by_minute(ticks: Iterable[Tick]) -> list[Tick]:
    """Add up ticks of the same minute."""
    minutes: dict[float, list[Counts]] = {}
    for at, counts in ticks:
        minutes.setdefault(float(start_of(at, 60)), []).append(counts)
    return [Tick(minute, added(*counts)) for minute, counts in minutes.items()]


def _has_deaths(counts: Counts) -> bool:
    return any(one.deaths for one in counts.lanes.values())


def start_of(at: float, span: int) -> int:
    """Return when the bucket of this time begins."""
    return int(at // span * span)


class Folded(NamedTuple):
    """What some ticks come to: additions to buckets, and new records of groups."""

    lanes: Mapping[tuple[int, int, str], LaneCount]
    """To add, by span, start and lane."""
    groups: Mapping[tuple[int, int, int], int]
    """Deaths to add, by span, start and group."""
    records: Mapping[int, GroupRecord]
    """The groups that changed, whole; only fields that deaths write differ."""


def folded(
    records: Mapping[int, GroupRecord],
    ticks: Iterable[Tick],
    now: float,
    *,
    lanes: Mapping[tuple[int, int], Collection[str]] | None = None,
    groups: Mapping[tuple[int, int], Collection[int]] | None = None,
) -> Folded:
    """Add up ticks. `records` has the groups they name; a group that is not there is left out.

    `lanes` and `groups` name what the buckets (by span and start) hold already: beyond MOST_LANES
    and MOST_GROUPS of them, new ones count as OTHER_LANE and OTHER_GROUP. A time after `now`, of a
    clock that was ahead, counts as now.
    """
    lane_sums: dict[tuple[int, int, str], LaneCount] = {}
    group_sums: dict[tuple[int, int, int], int] = {}
    changed: dict[int, GroupRecord] = {}
    lane_limit, group_limit = _Limit(MOST_LANES, lanes), _Limit(MOST_GROUPS, groups)
    for at, counts in sorted(
        (Tick(min(at, now), counts) for at, counts in ticks), key=attrgetter("at")
    ):
        for span in SPANS:
            start = start_of(at, span)
            for lane, numbers in counts.lanes.items():
                key = span, start, lane_limit.of((span, start), lane, OTHER_LANE)
                lane_sums[key] = lane_sums.get(key, LaneCount()).plus(numbers)
            for number, count in counts.groups.items():
                place = span, start, group_limit.of((span, start), number, OTHER_GROUP)
                group_sums[place] = group_sums.get(place, 0) + count.deaths
        for number, count in counts.groups.items():
            record = changed.get(number) or records.get(number)
            if record is not None:
                changed[number] = after_deaths(record, count, at)
    return Folded(lane_sums, group_sums, changed)


def after_deaths(record: GroupRecord, count: GroupCount, at: float) -> GroupRecord:
    """Return a group's record after some of its jobs died at this time.

    The only place that knows when an incident begins and when a group has regressed.
    """
    last = record.last_seen
    after_resolved = (
        record.resolved is not None
        and at > record.resolved
        and (record.regressed is None or record.regressed <= record.resolved)
    )
    begins = after_resolved or record.since is None or last is None or at - last > _QUIET
    return replace(
        record,
        last_seen=at if last is None else max(last, at),
        deaths=record.deaths + count.deaths,
        first_release=record.first_release or count.release,
        last_release=count.release or record.last_release,
        since=at if begins else record.since,
        regressed=at if after_resolved else record.regressed,
    )


class _Limit:
    """Tells apart so many names in each bucket, first come, first served."""

    def __init__(self, most: int, known: Mapping[tuple[int, int], Collection[Any]] | None) -> None:
        self._most = most
        self._names = {place: set(names) for place, names in (known or {}).items()}

    def of(self, place: tuple[int, int], name: Any, other: Any) -> Any:
        """Return the name if the bucket has it or has room for it, else what all others count as."""
        names = self._names.setdefault(place, set())
        if name not in names and len(names) < self._most:
            names.add(name)
        return name if name in names else other
