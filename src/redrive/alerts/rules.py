"""Decide which alerts to send: compare the present state with the last alert about each subject.

Pure: nothing here reads a store or a clock. A group is reported when it is new, when it grows, when it is
back and when it is resolved. Other problems (a paused lane, a silent worker) are conditions, which are
reported when they begin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from redrive.errors import UsageError
from redrive.jobs import durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Group
from redrive.payloads.masking import inert

State = Literal["new", "growing", "regressed", "resolved", "paused", "unserved", "silent"]
"""What a message is about."""

SPAN = 600.0  # seconds in which growth is measured
GAPS = (60.0, 600.0, 3600.0)
"""Seconds before a group's second, third and every later message about growth."""
FEWEST = 10  # a group with fewer jobs is never reported as growing
KEPT = 30 * 86400.0
"""Seconds for which an ended subject is kept: a group that comes back in this time is a regression."""
OPEN: frozenset[State] = frozenset({"new", "growing", "regressed"})
"""The states of a group that is not resolved."""
_TEN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to send alerts. Times are seconds or text such as "30m"."""

    factor: float = 3.0
    """A group grows when its jobs are this many times those of ten minutes ago and of the last alert…"""
    threshold: int = 100
    """…or when it reaches this number of jobs, then ten times as many, and so on."""
    unserved: Duration | None = 60.0
    """A lane is unserved when jobs have been due for this long and no worker serves it; None is never."""
    quiet: Duration = 600.0
    """A condition that comes back sooner than this sends no second alert."""

    def __post_init__(self) -> None:
        for name in ("unserved", "quiet"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, durations.seconds(value, name=name))
        if not self.factor > 1 or self.threshold < 1:
            msg = f"factor must be above 1 and threshold 1 or more; found {self.factor}, {self.threshold}"
            raise UsageError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something else that is wrong now."""

    subject: str
    """Such as `lane mail`."""
    state: State
    title: str
    since: float
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is true now."""

    now: float
    groups: Sequence[Group] = ()
    """The groups of dead jobs."""
    recent: Mapping[int, int] = field(default_factory=dict[int, int])
    """How many jobs died of a group in the last ten minutes, where they were counted."""
    busy: frozenset[str] = frozenset()
    """Groups that are not in `groups` but still have pending, running or dead jobs."""
    closers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who resolved the groups that have no dead jobs."""
    conditions: Sequence[Condition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAlert:
    """The last alert about one subject."""

    state: State
    """Resolved if the problem is over, also for conditions, whose end is not reported."""
    since: float
    """When the problem was first reported."""
    at: float
    """When the alert was decided."""
    jobs: int = 0
    """How many jobs the group had then."""
    times: int = 1
    """How many alerts about it there were since it began."""
    title: str = ""

    @property
    def is_over(self) -> bool:
        """True if the problem is over."""
        return self.state == "resolved"


@dataclass(frozen=True, slots=True)
class Change:
    """A change to report."""

    state: State
    subject: str
    about: Group | Condition | None
    """None if it has ended."""
    before: LastAlert | None = None
    recent: int = 0
    by: str = ""


Memory = Mapping[str, LastAlert]
"""The last alert of each subject."""


def judge(world: World, memory: Memory, rules: Rules) -> tuple[list[Change], dict[str, LastAlert]]:
    """Return what to report now, and what to remember then."""
    now, changes = world.now, list[Change]()
    after = {
        subject: last
        for subject, last in memory.items()
        if not last.is_over or now - last.at <= KEPT
    }
    for group in world.groups:
        last, recent = memory.get(group.name), world.recent.get(group.number, 0)
        if state := state_of(group, recent, last, now, rules):
            changes.append(Change(state, group.name, group, last, recent))
            told = LastAlert(
                state=state, since=now, at=now, jobs=group.jobs, title=inert(group.title)[:200]
            )
            if state == "growing" and last is not None:
                told = replace(told, since=last.since, times=last.times + 1)
            after[group.name] = told
    wait, quiet = durations.seconds(rules.unserved or 0), durations.seconds(rules.quiet)
    ripe = [c for c in world.conditions if c.state != "unserved" or now - c.since >= wait]
    for one in ripe:
        last = memory.get(one.subject)
        if last is None or (last.is_over and now - last.at >= quiet):
            changes.append(Change(one.state, one.subject, one, last))
            after[one.subject] = LastAlert(
                state=one.state, since=one.since, at=now, title=one.title
            )
    there = world.busy | {one.subject for one in ripe}
    there |= {group.name for group in world.groups if group.record.status != "resolved"}
    marked = {group.name: group.record.resolved_by for group in world.groups}
    closers = {**marked, **world.closers}
    for subject, last in memory.items():
        if not last.is_over and subject not in there:
            after[subject] = replace(last, state="resolved", at=now)
            if last.state in OPEN:
                by = closers.get(subject, "")
                changes.append(Change("resolved", subject, None, last, by=by))
    return changes, after


def state_of(
    group: Group, recent: int, last: LastAlert | None, now: float, rules: Rules
) -> State | None:
    """Return what to report about a group that has dead jobs, if anything."""
    record = group.record
    if record.status == "resolved":
        return None
    since = 0.0 if last is None else last.at if last.is_over else last.since
    came_back = record.status == "regressed" and since < (record.resolved or 0.0)
    if last is None:
        return "regressed" if came_back else "new"
    if last.is_over or came_back:
        return "regressed"
    gap = GAPS[min(last.times, len(GAPS)) - 1]
    return "growing" if now - last.at >= gap and grows(group, recent, last, rules) else None


def grows(group: Group, recent: int, last: LastAlert, rules: Rules) -> bool:
    """Return True if a group has many more jobs than at the last alert."""
    if passes(group.jobs, rules.threshold) > passes(last.jobs, rules.threshold):
        return True
    had = max(last.jobs, group.jobs - recent)
    return group.jobs >= FEWEST and group.jobs >= rules.factor * had


def passes(jobs: int, threshold: int) -> int:
    """Count the thresholds (100, 1,000, 10,000 …) that a number has passed."""
    number = 0
    while jobs >= threshold:
        threshold, number = threshold * _TEN, number + 1
    return number
