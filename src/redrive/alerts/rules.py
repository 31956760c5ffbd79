"""Decide which alerts to send: compare the present state with the last alert about each subject.

Pure: nothing here reads a store or a clock. A cause is reported when it is new, when it grows, when
nobody has acted on it for long, when it is back and when it is resolved. Other problems (a paused
lane, a stopped run) are conditions: reported when they begin, some also when they end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from redrive.errors import UsageError
from redrive.jobs import durations
from redrive.jobs.durations import Duration

State = Literal[
    "new", "growing", "old", "regressed", "resolved",
    "paused", "unserved", "retrying", "stopped", "silent", "idle", "over",
]  # fmt: skip
"""What a message is about."""

SPAN = 600.0  # seconds in which growth is measured
GAPS = (60.0, 600.0, 3600.0)
"""Seconds before a cause's second, third and every later message about growth."""
FEWEST = 10  # a cause with fewer jobs is never reported as growing
KEPT = 30 * 86400.0
"""Seconds for which an ended subject is kept: a cause that comes back in this time is a regression."""
_TEN = 10
_OVER = frozenset({"paused", "unserved", "idle"})  # the conditions whose end is reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to send alerts. Times are seconds or text such as "30m"; None is never."""

    factor: float = 3.0
    """A cause grows when its jobs are this many times those of ten minutes ago and of the last alert…"""
    threshold: int = 100
    """…or when it reaches this number of jobs, then ten times as many, and so on."""
    old: Duration | None = 3600.0
    """A cause is old when nobody noted, resolved or retried it for this long."""
    unserved: Duration | None = 60.0
    """A lane is unserved when jobs have been due for this long and no worker serves it."""
    retrying: Duration | None = 3600.0
    """Alert once when jobs of a cause have failed and been retried for this long."""
    idle: Duration | None = None
    """Alert when no job ran for this long."""
    quiet: Duration = 600.0
    """A condition that comes back sooner than this sends no second alert."""

    def __post_init__(self) -> None:
        for name in ("old", "unserved", "retrying", "idle", "quiet"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, durations.seconds(value, name=name))
        if not self.factor > 1 or self.threshold < 1:
            msg = f"factor must be above 1 and threshold 1 or more; found {self.factor}, {self.threshold}"
            raise UsageError(msg)

    def span(self, name: Literal["old", "unserved", "retrying", "idle", "quiet"]) -> float | None:
        """Return one of the times, in seconds."""
        value: float | None = getattr(self, name)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A group of dead jobs as it is now."""

    number: int
    title: str
    jobs: int
    recent: int = 0
    """How many jobs died of it in the last ten minutes; 0 if they were not counted."""
    deaths: int = 0
    """How many jobs ever died of it."""
    first: float = 0.0
    """When it was first seen."""
    since: float = 0.0
    """When the present incident began."""
    last: float = 0.0
    category: str = ""
    handlers: tuple[str, ...] = ()
    resolved: float | None = None
    """When somebody marked it as resolved, and who."""
    by: str = ""
    touched: float = 0.0
    """When a person last acted on it."""

    @property
    def subject(self) -> str:
        """G7, as people type it."""
        return f"G{self.number}"

    @property
    def is_closed(self) -> bool:
        """True if it was marked as resolved and nothing died since."""
        return self.resolved is not None and self.last <= self.resolved


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something else that is wrong now."""

    subject: str
    """Such as `lane mail` or `R12`."""
    state: State
    title: str
    since: float
    command: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is true now."""

    now: float
    causes: Sequence[Cause] = ()
    busy: frozenset[str] = frozenset()
    """Causes that are not in `causes` but still have pending, running or dead jobs."""
    closers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who resolved the causes that have no dead jobs."""
    conditions: Sequence[Condition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAlert:
    """The last alert about one subject."""

    state: State
    since: float
    """When the problem was first seen."""
    at: float
    """When the alert was decided."""
    jobs: int = 0
    """How many jobs the cause had then."""
    times: int = 1
    """How many alerts about it there were since it began."""
    old: bool = False
    title: str = ""

    @property
    def is_over(self) -> bool:
        """True if the last alert reported the end."""
        return self.state in {"resolved", "over"}


@dataclass(frozen=True, slots=True)
class Change:
    """A change to report."""

    state: State
    subject: str
    about: Cause | Condition | None
    """None if it has ended."""
    before: LastAlert | None = None
    by: str = ""


Memory = Mapping[str, LastAlert]
"""The last alert of each subject."""


def judge(world: World, memory: Memory, rules: Rules) -> tuple[list[Change], dict[str, LastAlert]]:
    """Return what to report now, and what to remember then."""
    changes: list[Change] = []
    after = {
        subject: last
        for subject, last in memory.items()
        if not last.is_over or world.now - last.at <= KEPT
    }
    for change, subject, last in (*_begun(world, memory, rules), *_ended(world, memory, rules)):
        after[subject] = last
        if change is not None:
            changes.append(change)
    return changes, after


_Step = tuple[Change | None, str, LastAlert]
"""The change to report, if any, its subject, and the alert to remember."""


def _begun(world: World, memory: Memory, rules: Rules) -> Iterator[_Step]:
    for cause in world.causes:
        last = memory.get(cause.subject)
        state = None if cause.is_closed else state_of(cause, last, world.now, rules)
        if state is not None:
            change = Change(state, cause.subject, cause, last)
            yield change, cause.subject, _after(cause, last, state, world.now)
    quiet = rules.span("quiet") or 0.0
    for condition in _ripe(world, rules):
        last = memory.get(condition.subject)
        if last is None or (last.is_over and world.now - last.at >= quiet):
            state, since, title = condition.state, condition.since, condition.title
            change = Change(state, condition.subject, condition, last)
            alert = LastAlert(state=state, since=since, at=world.now, title=title)
            yield change, condition.subject, alert


def _ripe(world: World, rules: Rules) -> list[Condition]:
    """Return the conditions that have lasted long enough to matter."""
    spans: tuple[Literal["unserved", "retrying", "idle"], ...] = ("unserved", "retrying", "idle")
    waits: dict[str, float] = {name: rules.span(name) or 0.0 for name in spans}
    now, conditions = world.now, world.conditions
    return [one for one in conditions if now - one.since >= waits.get(one.state, 0.0)]


def state_of(cause: Cause, last: LastAlert | None, now: float, rules: Rules) -> State | None:
    """Return what to report about a cause that has dead jobs, if anything."""
    since = 0.0 if last is None else last.at if last.is_over else last.since
    came_back = cause.resolved is not None and since < cause.resolved < cause.last
    if last is None:
        return "regressed" if came_back else "new"
    if last.is_over or came_back:
        return "regressed"
    gap = GAPS[min(last.times, len(GAPS)) - 1]
    if now - last.at >= gap and grows(cause, last, rules):
        return "growing"
    old = rules.span("old")
    untouched = max(last.since, cause.touched)
    return "old" if old is not None and not last.old and now - untouched >= old else None


def grows(cause: Cause, last: LastAlert, rules: Rules) -> bool:
    """Return True if a cause has many more jobs than at the last alert."""
    if passes(cause.jobs, rules.threshold) > passes(last.jobs, rules.threshold):
        return True
    had = max(last.jobs, cause.jobs - cause.recent)
    return cause.jobs >= FEWEST and cause.jobs >= rules.factor * had


def passes(jobs: int, threshold: int) -> int:
    """Count the thresholds (100, 1,000, 10,000 …) that a number has passed."""
    number = 0
    while jobs >= threshold:
        threshold, number = threshold * _TEN, number + 1
    return number


def _after(cause: Cause, last: LastAlert | None, state: State, now: float) -> LastAlert:
    if last is None or state in {"new", "regressed"}:
        return LastAlert(state=state, since=now, at=now, jobs=cause.jobs, title=cause.title)
    if state == "old":
        return replace(last, old=True)
    return replace(last, state=state, at=now, jobs=cause.jobs, times=last.times + 1)


def _ended(world: World, memory: Memory, rules: Rules) -> Iterator[_Step]:
    """Yield the ends of subjects that were reported and are over now."""
    open_now = {cause.subject for cause in world.causes if not cause.is_closed}
    open_now |= world.busy | {condition.subject for condition in _ripe(world, rules)}
    marked = {cause.subject: cause.by for cause in world.causes}
    for subject, last in memory.items():
        if last.is_over or subject in open_now:
            continue
        is_cause = last.state in {"new", "growing", "old", "regressed"}
        state: State = "resolved" if is_cause else "over"
        by = world.closers.get(subject) or marked.get(subject, "")
        is_reported = is_cause or last.state in _OVER
        change = Change(state, subject, None, last, by) if is_reported else None
        yield change, subject, replace(last, state=state, at=world.now)
