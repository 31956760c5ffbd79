"""A1: what is told of a cause and of conditions, as tables; no store, no clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.alerts.rules import (
    KEPT,
    Cause,
    Condition,
    LastAlert,
    Memory,
    Rules,
    State,
    World,
    judge,
    passes,
)
from redrive.errors import UsageError

NOW = 1_750_000_000.0
HOUR = 3600.0
CAUSE = Cause(number=7, title="KeyError: 'vat_id'", jobs=1, recent=1, first=NOW, last=NOW)
PAUSE = Condition(subject="lane mail", state="paused", title="paused", since=NOW)


def told(state: State = "new", *, ago: float = 0.0, **more: object) -> LastAlert:
    at = NOW - ago
    return LastAlert(**{"state": state, "since": at, "at": at, "jobs": 1, "title": "x", **more})  # type: ignore[arg-type]


def states(world: World, memory: Memory, rules: Rules | None = None) -> list[State]:
    return [change.state for change in judge(world, memory, rules or Rules())[0]]


@pytest.mark.parametrize(
    ("before", "cause", "expected"),
    [
        (None, CAUSE, ["new"]),
        (told(), CAUSE, []),
        # growth: three times as many, ten at least, a minute after it was told
        (told(ago=60), replace(CAUSE, jobs=10, recent=10), ["growing"]),
        (told(ago=59), replace(CAUSE, jobs=10, recent=10), []),
        (told(ago=60), replace(CAUSE, jobs=9, recent=9), []),
        (told(ago=60, jobs=4), replace(CAUSE, jobs=11, recent=11), []),
        (told(ago=60, jobs=4), replace(CAUSE, jobs=12, recent=12), ["growing"]),
        # not if most of them are old: three times in ten minutes
        (told(ago=60), replace(CAUSE, jobs=30, recent=19), []),
        (told(ago=60), replace(CAUSE, jobs=30, recent=20), ["growing"]),
        # a threshold, however slowly it came
        (told(ago=60, jobs=99), replace(CAUSE, jobs=100, recent=0), ["growing"]),
        (told(ago=60, jobs=100), replace(CAUSE, jobs=299, recent=0), []),
        (told(ago=60, jobs=999), replace(CAUSE, jobs=1000, recent=0), ["growing"]),
        # each further message waits longer
        (told("growing", ago=599, times=2), replace(CAUSE, jobs=100, recent=100), []),
        (told("growing", ago=600, times=2), replace(CAUSE, jobs=100, recent=100), ["growing"]),
        (told("growing", ago=3599, times=3, since=NOW - 60), replace(CAUSE, jobs=100), []),
        (told("growing", ago=3600, times=9, since=NOW - 60), replace(CAUSE, jobs=100), ["growing"]),
        # old, once, if nobody touched it
        (told(ago=HOUR), CAUSE, ["old"]),
        (told(ago=HOUR - 1), CAUSE, []),
        (told(ago=2 * HOUR, old=True), CAUSE, []),
        (told(ago=2 * HOUR), replace(CAUSE, touched=NOW - 10), []),
        # back again: after it was told to be resolved, or marked by somebody
        (told("resolved", ago=5), CAUSE, ["regressed"]),
        (told(ago=50), replace(CAUSE, resolved=NOW - 20, last=NOW - 10), ["regressed"]),
        (told("regressed", ago=5), replace(CAUSE, resolved=NOW - 20, last=NOW - 10), []),
        (None, replace(CAUSE, resolved=NOW - 20, last=NOW - 10), ["regressed"]),
        # marked as resolved with dead jobs left: closed
        (None, replace(CAUSE, resolved=NOW, last=NOW - 10), []),
        (told(ago=50), replace(CAUSE, resolved=NOW, last=NOW - 10), ["resolved"]),
        (told("resolved", ago=50), replace(CAUSE, resolved=NOW, last=NOW - 10), []),
    ],
)
def test_what_is_told_of_a_cause(
    before: LastAlert | None, cause: Cause, expected: list[State]
) -> None:
    memory = {} if before is None else {"G7": before}
    world = World(now=NOW, causes=[cause])
    assert states(world, memory) == expected
    assert states(world, judge(world, memory, Rules())[1]) == [], "the same again is not told again"


@pytest.mark.parametrize(
    ("before", "busy", "expected"),
    [
        (told(), False, ["resolved"]),
        (told(), True, []),
        (told("resolved"), False, []),
        (told("growing"), False, ["resolved"]),
    ],
)
def test_a_cause_without_dead_jobs_is_resolved_once_nothing_of_it_is_tried(
    before: LastAlert, busy: bool, expected: list[State]
) -> None:
    world = World(now=NOW, busy=frozenset({"G7"} if busy else ()), closers={"G7": "mira"})
    changes, _ = judge(world, {"G7": before}, Rules())
    assert [one.state for one in changes] == expected
    assert all(one.by == "mira" for one in changes)


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (None, [PAUSE], ["paused"]),
        (told("paused"), [PAUSE], []),
        (told("paused"), [], ["over"]),
        (told("over"), [], []),
        (told("over", ago=599), [PAUSE], []),
        (told("over", ago=600), [PAUSE], ["paused"]),
        (None, [replace(PAUSE, state="unserved", since=NOW - 59)], []),
        (None, [replace(PAUSE, state="unserved", since=NOW - 60)], ["unserved"]),
        (None, [replace(PAUSE, state="stopped")], ["stopped"]),
        (told("stopped"), [], []),
        (None, [replace(PAUSE, state="silent")], ["silent"]),
        (told("silent"), [], []),
        (told("idle"), [replace(PAUSE, state="idle", since=NOW - 5)], ["over"]),
        (None, [replace(PAUSE, state="idle", since=NOW - 1799)], []),
        (None, [replace(PAUSE, state="idle", since=NOW - 1800)], ["idle"]),
    ],
)
def test_a_condition_is_told_when_it_begins_and_when_it_is_over(
    before: LastAlert | None, now: list[Condition], expected: list[State]
) -> None:
    memory = {} if before is None else {"lane mail": before}
    world = World(now=NOW, conditions=now)
    assert states(world, memory, Rules(idle="30m")) == expected


def test_what_is_over_is_forgotten_after_a_month() -> None:
    kept = {"G7": told("resolved", ago=KEPT - 1), "G8": told("resolved", ago=KEPT + 1)}
    assert list(judge(World(now=NOW), kept, Rules())[1]) == ["G7"]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=120))
def test_ten_minutes_bring_at_most_three_messages_whatever_happens(deaths: list[int]) -> None:
    """A1: every five seconds some die; some of the time all are resolved at the end."""
    memory: dict[str, LastAlert] = {}
    jobs, messages = 0, 0
    for step, more in enumerate(deaths):
        jobs, now = jobs + more, NOW + 5 * step
        causes = [replace(CAUSE, jobs=jobs, recent=jobs, last=now)] if jobs else []
        changes, memory = judge(World(now=now, causes=causes), memory, Rules())
        messages += len(changes)
    changes, _ = judge(World(now=NOW + 600), memory, Rules())
    assert messages + len(changes) <= 3


@pytest.mark.parametrize(
    ("jobs", "number"), [(0, 0), (99, 0), (100, 1), (999, 1), (1000, 2), (100_000, 4)]
)
def test_thresholds_are_a_hundred_a_thousand_and_so_on(jobs: int, number: int) -> None:
    assert passes(jobs, 100) == number


@pytest.mark.parametrize(
    "wrong", [{"factor": 1.0}, {"threshold": 0}, {"old": "soon"}, {"idle": -1}]
)
def test_rules_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Rules(**wrong)  # type: ignore[arg-type]
