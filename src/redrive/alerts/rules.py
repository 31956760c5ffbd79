"""What is worth telling: what is true now, beside what was told before, gives the changes.

Pure: nothing here looks at a store or a clock. A cause is told when it is new, when it grows, when
nobody touched it for long, when it is back and when it is resolved. Whatever else may be wrong (a
paused lane, a stopped run) is a condition: told when it begins, and when it is over.
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

SPAN = 600.0
"""Seconds in which growth is measured."""
GAPS = (60.0, 600.0, 3600.0)
"""Seconds before a cause's second, third and every later message about growth."""
FEWEST = 10
"""Jobs below which nothing is said to grow."""
KEPT = 30 * 86400.0
"""Seconds for which what is over is remembered: so long a cause that comes back is a regression."""
_TEN = 10
_OVER = frozenset({"paused", "unserved", "idle"})
"""The conditions whose end is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """When to tell. Times are seconds or text such as "30m"; None is never."""

    factor: float = 3.0
    """A cause grows when it has so many times the jobs of ten minutes ago and of the last alert…"""
    threshold: int = 100
    """…or when it passes so many jobs, then ten times as many, and so on."""
    old: Duration | None = 3600.0
    """A cause is old when nobody noted, resolved or drove it for so long."""
    unserved: Duration | None = 60.0
    """A lane is unserved when jobs have been due for so long and no worker knows it."""
    retrying: Duration | None = 3600.0
    """Alert once when jobs of a cause have failed and been retried for so long."""
    idle: Duration | None = None
    """Alert when no job ran for so long."""
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
    """How many jobs died of it in the last ten minutes; 0 where nobody asked."""
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
    """When somebody last did something about it."""

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
    """Causes that are not listed, some of whose jobs are still tried, or dead all the same."""
    closers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Who resolved the causes that have no dead jobs."""
    conditions: Sequence[Condition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was last told about something."""

    state: State
    since: float
    """When it began, as far as was seen."""
    at: float
    """When something was told."""
    jobs: int = 0
    """How many there were then."""
    times: int = 1
    """How often it was told since it began."""
    old: bool = False
    title: str = ""

    @property
    def is_over(self) -> bool:
        """True if the last that was told is that it ended."""
        return self.state in {"resolved", "over"}


@dataclass(frozen=True, slots=True)
class Change:
    """Something to tell."""

    state: State
    subject: str
    about: Cause | Condition | None
    """None for what is no more."""
    before: Told | None = None
    by: str = ""


Memory = Mapping[str, Told]
"""What was told, by subject."""


def judge(world: World, memory: Memory, rules: Rules) -> tuple[list[Change], dict[str, Told]]:
    """Return what to report now, and what to remember then."""
    changes: list[Change] = []
    after = {one: told for one, told in memory.items() if not _is_stale(told, world)}
    steps = [*_begun(world, memory, rules), *_ended(world, memory, rules)]
    for change, subject, told in steps:
        after[subject] = told
        if change is not None:
            changes.append(change)
    return changes, after


_Step = tuple[Change | None, str, Told]
"""What to tell, if anything, about which subject, and what to remember of it."""


def _is_stale(told: Told, world: World) -> bool:
    return told.is_over and world.now - told.at > KEPT


def _begun(world: World, memory: Memory, rules: Rules) -> Iterator[_Step]:
    for cause in world.causes:
        told = memory.get(cause.subject)
        state = None if cause.is_closed else state_of(cause, told, world.now, rules)
        if state is not None:
            change = Change(state, cause.subject, cause, told)
            yield change, cause.subject, _after(cause, told, state, world.now)
    quiet = rules.span("quiet") or 0.0
    for condition in _ripe(world, rules):
        told = memory.get(condition.subject)
        if told is None or (told.is_over and world.now - told.at >= quiet):
            now_told = Told(
                state=condition.state, since=condition.since, at=world.now, title=condition.title
            )
            yield (
                Change(condition.state, condition.subject, condition, told),
                condition.subject,
                now_told,
            )


def _ripe(world: World, rules: Rules) -> list[Condition]:
    """Return the conditions that have lasted long enough to matter."""
    waits = {
        "unserved": rules.span("unserved"),
        "retrying": rules.span("retrying"),
        "idle": rules.span("idle"),
    }
    return [
        condition
        for condition in world.conditions
        if world.now - condition.since >= (waits.get(condition.state) or 0.0)
    ]


def state_of(cause: Cause, told: Told | None, now: float, rules: Rules) -> State | None:
    """Return what to report about a cause that has dead jobs, if anything."""
    since = 0.0 if told is None else told.at if told.is_over else told.since
    came_back = cause.resolved is not None and since < cause.resolved < cause.last
    if told is None:
        return "regressed" if came_back else "new"
    if told.is_over or came_back:
        return "regressed"
    gap = GAPS[min(told.times, len(GAPS)) - 1]
    if now - told.at >= gap and grows(cause, told, rules):
        return "growing"
    old = rules.span("old")
    untouched = max(told.since, cause.touched)
    return "old" if old is not None and not told.old and now - untouched >= old else None


def grows(cause: Cause, told: Told, rules: Rules) -> bool:
    """Return True if a cause has many more jobs than when it was last told."""
    if passes(cause.jobs, rules.threshold) > passes(told.jobs, rules.threshold):
        return True
    had = max(told.jobs, cause.jobs - cause.recent)
    return cause.jobs >= FEWEST and cause.jobs >= rules.factor * had


def passes(jobs: int, threshold: int) -> int:
    """Count the thresholds (100, 1,000, 10,000 …) that a number has passed."""
    number = 0
    while jobs >= threshold:
        threshold, number = threshold * _TEN, number + 1
    return number


def _after(cause: Cause, told: Told | None, state: State, now: float) -> Told:
    if told is None or state in {"new", "regressed"}:
        return Told(state=state, since=now, at=now, jobs=cause.jobs, title=cause.title)
    if state == "old":
        return replace(told, old=True)
    return replace(told, state=state, at=now, jobs=cause.jobs, times=told.times + 1)


def _ended(world: World, memory: Memory, rules: Rules) -> Iterator[_Step]:
    """Return what was reported and is over now."""
    open_now = {one.subject for one in world.causes if not one.is_closed}
    open_now |= world.busy | {one.subject for one in _ripe(world, rules)}
    marked = {one.subject: one.by for one in world.causes}
    for subject, told in memory.items():
        if told.is_over or subject in open_now:
            continue
        is_cause = told.state in {"new", "growing", "old", "regressed"}
        state: State = "resolved" if is_cause else "over"
        by = world.closers.get(subject) or marked.get(subject, "")
        is_told = is_cause or told.state in _OVER
        change = Change(state, subject, None, told, by) if is_told else None
        yield change, subject, replace(told, state=state, at=world.now)
