"""lane_curve, group_curve, fold: what happened in each lane and group, minute by minute, hour by hour."""

from __future__ import annotations

from typing import Any

import pytest

from kit import START, make_action, make_failure, make_job, make_settlement
from redrive.jobs.groups import LaneCount
from redrive.jobs.job import Completed, Reason, Retry, Return, State
from redrive.stores.contract import PurgeRule, Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    DONE,
    add,
    add_one,
    captured,
    claim,
    claim_one,
    fail,
    kill,
    move,
    settle,
)

NONE = LaneCount()
DAY = 86400.0


def total(curve: dict[Any, list[LaneCount]], lane: str) -> LaneCount:
    result = NONE
    for count in curve.get(lane, []):
        result = result.plus(count)
    return result


def test_an_empty_store_has_flat_curves(store: Store) -> None:
    assert store.lane_curve(60, 5) == {}
    assert store.group_curve(60, 2, [7, 0]) == {7: [0, 0], 0: [0, 0]}
    assert store.group_curve(3600, 2, []) == {}
    assert store.fold() is True


def test_each_end_counts_in_its_lane_and_minute(store: Store, clock: ManualClock) -> None:
    add(store, *(make_job(f"a{n}") for n in range(4)), make_job("s", lane="slow"))
    first, second, third, fourth, slow = claim(store)
    settle(store, first)
    settle(store, slow)
    fail(store, second)
    clock.advance(60)
    settle(store, third, DEAD, make_failure())
    settle(store, fourth, Retry(60), make_failure())
    settle(store, claim_one(store), DEAD, make_failure())
    expected = {
        "mail": [NONE, LaneCount(2, 1, 1, 0), LaneCount(3, 0, 2, 2)],
        "slow": [NONE, LaneCount(1, 1, 0, 0), NONE],
    }
    assert store.lane_curve(60, 3) == expected
    store.fold()
    assert store.lane_curve(60, 3) == expected
    assert store.lane_curve(60, 1) == {"mail": [LaneCount(3, 0, 2, 2)]}
    assert store.lane_curve(3600, 1) == {
        "mail": [LaneCount(5, 1, 3, 2)],
        "slow": [LaneCount(1, 1, 0, 0)],
    }


def test_buckets_begin_on_the_minute_and_the_hour(store: Store, clock: ManualClock) -> None:
    """START is 40 s into its minute and 400 s into its hour."""
    kill(store, "a")
    clock.advance(19.5)
    kill(store, "b")
    clock.advance(0.5)
    kill(store, "c")
    assert [one.deaths for one in store.lane_curve(60, 2)["mail"]] == [2, 1]
    clock.advance(3200 - 20)
    kill(store, "d")
    assert [one.deaths for one in store.lane_curve(3600, 2)["mail"]] == [3, 1]


def test_the_first_failure_of_each_life_counts(store: Store) -> None:
    add_one(store, "a")
    fail(store, claim_one(store))
    fail(store, claim_one(store))
    assert total(store.lane_curve(60, 1), "mail") == LaneCount(2, 0, 1, 0)
    settle(store, claim_one(store), DEAD, make_failure())
    move(store, "retry", "a")
    fail(store, claim_one(store))
    assert total(store.lane_curve(60, 1), "mail") == LaneCount(4, 0, 2, 1)


def test_what_is_no_attempt_counts_nothing(store: Store, clock: ManualClock) -> None:
    imported = {"origin": {"from": "elsewhere"}}
    store.add([captured("i", START, **imported), captured("o", START - DAY)])
    add_one(store, "a")
    settle(store, claim_one(store), Return())
    move(store, "discard", "a")
    move(store, "reopen", "a")
    store.amend("a", '{"n":1}', make_action("edit"), expected=0)
    move(store, "retry", "a")
    clock.advance(10)
    store.purge([PurgeRule(state=State.DEAD, older_than=5)])
    assert store.lane_curve(60, 2) == {}


def test_jobs_that_have_just_died_and_crashes_count(store: Store, clock: ManualClock) -> None:
    store.add([captured("a", START), captured("b", START - 59, handler="pay")])
    assert store.lane_curve(60, 1) == {
        "mail": [LaneCount(deaths=1)],
        "pay": [LaneCount(deaths=1)],
    }
    add_one(store, "c")
    claim_one(store, lease_for=5)
    clock.advance(6)
    (swept,) = store.seize(by="s", lease_for=60)
    settle(store, swept, Retry(0), make_failure("crash"))
    assert total(store.lane_curve(60, 2), "mail") == LaneCount(1, 0, 1, 1)


def test_the_dead_of_a_group_count_also_when_they_are_gone(
    store: Store, clock: ManualClock
) -> None:
    number = kill(store, "a").group or 0
    other = kill(store, "b", make_failure("quota")).group or 0
    clock.advance(60)
    kill(store, "c")
    move(store, "retry", "a", "b")
    store.purge([PurgeRule(state=State.DEAD, older_than=-1)])
    for _ in range(2):
        found = store.group_curve(60, 3, [number, other, 99])
        assert found == {number: [0, 1, 1], other: [0, 1, 0], 99: [0, 0, 0]}
        assert store.group_curve(3600, 1, [other, number]) == {number: [2], other: [1]}
        store.fold()


def test_a_clock_that_is_set_back_counts_in_the_older_hour(
    store: Store, clock: ManualClock
) -> None:
    kill(store, "a")
    store.fold()
    clock.jump(-3600)
    kill(store, "b", created=clock.now())
    assert [one.deaths for one in store.lane_curve(3600, 1)["mail"]] == [1]
    clock.jump(3600)
    for _ in range(2):
        assert [one.deaths for one in store.lane_curve(3600, 2)["mail"]] == [1, 1]
        store.fold()
    (record,) = store.group_records().values()
    assert (record.deaths, record.last_seen) == (2, START)


@pytest.mark.needs("shared")
def test_a_count_of_a_clock_that_is_ahead_counts_as_now(place: Place) -> None:
    store = place.open()
    ahead = ManualClock(START + 7200)
    other = place.kind.open(place.directory, ahead)
    kill(other, "a")
    for _ in range(2):
        assert [one.deaths for one in store.lane_curve(60, 1)["mail"]] == [1]
        (record,) = store.group_records().values()
        assert record.last_seen == START
        store.fold()
    other.close()


def test_minutes_are_kept_for_a_day_and_hours_for_thirty(store: Store, clock: ManualClock) -> None:
    number = kill(store, "a").group or 0
    clock.advance(DAY - 60)
    store.fold()
    assert sum(store.group_curve(60, 1440, [number])[number]) == 1
    clock.advance(120)
    store.fold()
    assert store.lane_curve(60, 3000) == {}
    assert store.group_curve(60, 3000, [number]) == {number: [0] * 3000}
    assert total(store.lane_curve(3600, 720), "mail").deaths == 1
    clock.advance(30 * DAY)
    store.fold()
    assert store.lane_curve(3600, 1000) == {}
    (record,) = store.group_records().values()
    assert record.deaths == 1


@pytest.mark.needs("persistent")
def test_counts_survive_closing_folded_or_not(place: Place) -> None:
    store = place.open()
    for n in range(6):
        add_one(store, f"a{n}")
        settle(store, claim_one(store))
        if n == 2:
            store.fold()
    before = store.lane_curve(60, 2), store.lane_curve(3600, 2)
    assert total(before[0], "mail").successes == 6
    store = place.reopen()
    assert (store.lane_curve(60, 2), store.lane_curve(3600, 2)) == before


@pytest.mark.needs("shared")
def test_several_processes_count_and_fold_together(place: Place) -> None:
    stores = [place.open() for _ in range(3)]
    for n in range(9):
        kill(stores[n % 3], f"a{n}")
        if n % 2:
            stores[(n + 1) % 3].fold()
    for one in stores:
        assert total(one.lane_curve(60, 1), "mail") == LaneCount(9, 0, 9, 9)


def test_a_completion_that_was_skipped_is_a_success(store: Store) -> None:
    add_one(store, "a")
    settle(store, claim_one(store), Completed(Reason.SKIPPED, "gone"))
    assert store.lane_curve(60, 1) == {"mail": [LaneCount(1, 1, 0, 0)]}


def test_a_settlement_given_twice_counts_once(store: Store) -> None:
    add(store, make_job("a"), make_job("b"))
    one, two = claim(store)
    settle(store, one)
    assert settle(store, one) is None
    assert [store.settle([make_settlement(each, DONE) for each in (one, two)])[0]] == [None]
    assert total(store.lane_curve(60, 5), "mail").attempts == 2
