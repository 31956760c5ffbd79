"""What is told of a group and of conditions, as tables; no store, no clock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive import Group
from redrive.alerts.rules import (
    KEPT,
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
from redrive.jobs.groups import GroupRecord
from tablekit import each_row

NOW = 1_750_000_000.0
PAUSE = Condition(subject="lane mail", state="paused", title="paused", since=NOW)


def group(jobs: int = 1, resolved: float | None = None, last: float = NOW) -> Group:
    record = GroupRecord(
        number=7, fingerprint="f", first_seen=NOW, last_seen=last, resolved=resolved
    )
    return Group(number=7, fingerprint="f", title="KeyError: 'vat_id'", record=record, jobs=jobs)


def told(state: State = "new", *, ago: float = 0.0, **more: Any) -> LastAlert:
    at = NOW - ago
    return LastAlert(**{"state": state, "since": at, "at": at, "jobs": 1, "title": "x", **more})


def states(world: World, memory: Memory) -> list[State]:
    return [change.state for change in judge(world, memory, Rules())[0]]


@each_row(
    "before, now, recent, expected",
    [
        (None, group(), 1, "new"),
        (told(), group(), 1, ""),
        # growth: three times as many, ten at least, a minute after it was told
        (told(ago=60), group(10), 10, "growing"),
        (told(ago=59), group(10), 10, ""),
        (told(ago=60), group(9), 9, ""),
        (told(ago=60, jobs=4), group(11), 11, ""),
        (told(ago=60, jobs=4), group(12), 12, "growing"),
        # not if most of them are old: three times in ten minutes
        (told(ago=60), group(30), 19, ""),
        (told(ago=60), group(30), 20, "growing"),
        # a threshold, however slowly it came
        (told(ago=60, jobs=99), group(100), 0, "growing"),
        (told(ago=60, jobs=100), group(299), 0, ""),
        (told(ago=60, jobs=999), group(1000), 0, "growing"),
        # each further message waits longer
        (told("growing", ago=599, times=2), group(100), 100, ""),
        (told("growing", ago=600, times=2), group(100), 100, "growing"),
        (told("growing", ago=3599, times=3), group(100), 0, ""),
        (told("growing", ago=3600, times=9), group(100), 0, "growing"),
        # back again: after it was told to be resolved, or marked by somebody
        (told("resolved", ago=5), group(), 1, "regressed"),
        (told(ago=50), group(resolved=NOW - 20, last=NOW - 10), 1, "regressed"),
        (told("regressed", ago=5), group(resolved=NOW - 20, last=NOW - 10), 1, ""),
        (None, group(resolved=NOW - 20, last=NOW - 10), 1, "regressed"),
        # marked as resolved with dead jobs left: closed
        (None, group(resolved=NOW, last=NOW - 10), 1, ""),
        (told(ago=50), group(resolved=NOW, last=NOW - 10), 1, "resolved"),
        (told("resolved", ago=50), group(resolved=NOW, last=NOW - 10), 1, ""),
    ],
)
def test_what_is_told_of_a_group(
    before: LastAlert | None, now: Group, recent: int, expected: str
) -> None:
    memory = {} if before is None else {"G7": before}
    world = World(now=NOW, groups=[now], recent={7: recent})
    assert states(world, memory) == ([expected] if expected else [])
    assert states(world, judge(world, memory, Rules())[1]) == [], "the same again is not told again"


@each_row(
    "before, busy, expected",
    [
        (told(), False, ["resolved"]),
        (told(), True, []),
        (told("resolved"), False, []),
        (told("growing"), False, ["resolved"]),
    ],
)
def test_a_group_without_dead_jobs_is_resolved_once_nothing_of_it_is_tried(
    before: LastAlert, busy: bool, expected: list[State]
) -> None:
    world = World(now=NOW, busy=frozenset({"G7"} if busy else ()), closers={"G7": "mira"})
    changes, _ = judge(world, {"G7": before}, Rules())
    assert [one.state for one in changes] == expected
    assert all(one.by == "mira" for one in changes)


def test_a_condition_is_told_when_it_begins() -> None:
    late = replace(PAUSE, state="unserved", since=NOW - 60)
    for before, now, expected in (
        (None, [PAUSE], ["paused"]),
        (told("paused"), [PAUSE], []),
        (told("paused"), [], []),
        (told("resolved", ago=599), [PAUSE], []),
        (told("resolved", ago=600), [PAUSE], ["paused"]),
        (None, [replace(late, since=NOW - 59)], []),
        (None, [late], ["unserved"]),
        (None, [replace(PAUSE, state="silent")], ["silent"]),
    ):
        memory = {} if before is None else {"lane mail": before}
        assert states(World(now=NOW, conditions=now), memory) == expected, (before, now)
    _, after = judge(World(now=NOW), {"lane mail": told("paused")}, Rules())
    assert after["lane mail"].is_over


def test_what_is_over_is_forgotten_after_a_month() -> None:
    kept = {"G7": told("resolved", ago=KEPT - 1), "G8": told("resolved", ago=KEPT + 1)}
    assert list(judge(World(now=NOW), kept, Rules())[1]) == ["G7"]


@given(st.lists(st.integers(0, 400), min_size=1, max_size=120))
def test_ten_minutes_bring_at_most_three_messages_whatever_happens(deaths: list[int]) -> None:
    """Every five seconds some die; some of the time all are resolved at the end."""
    memory: dict[str, LastAlert] = {}
    jobs, messages = 0, 0
    for step, more in enumerate(deaths):
        jobs, now = jobs + more, NOW + 5 * step
        groups = [group(jobs, last=now)] if jobs else []
        changes, memory = judge(World(now=now, groups=groups, recent={7: jobs}), memory, Rules())
        messages += len(changes)
    changes, _ = judge(World(now=NOW + 600), memory, Rules())
    assert messages + len(changes) <= 3


def test_thresholds_are_a_hundred_a_thousand_and_so_on() -> None:
    numbers = {0: 0, 99: 0, 100: 1, 999: 1, 1000: 2, 100_000: 4}
    assert {jobs: passes(jobs, 100) for jobs in numbers} == numbers


def test_rules_that_cannot_work_are_refused() -> None:
    for wrong in ({"factor": 1.0}, {"threshold": 0}, {"unserved": "soon"}, {"quiet": -1}):
        with pytest.raises(UsageError):
            Rules(**wrong)  # type: ignore[arg-type]
