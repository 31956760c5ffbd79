"""The outbox: each change that somebody subscribed to, in order per job, at least once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest

from kit import START, make_failure
from redrive.jobs.job import State
from redrive.jobs.reports import EventKind
from redrive.jobs.transitions import Verb
from redrive.stores._codec import job_from_dict
from redrive.stores.contract import PurgeRule, Store
from redrive.stores.outbox_verbs import OutboxEvent
from redrive.stores.record_codec import event_fields
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    add_one,
    bare,
    captured,
    claim_one,
    fail,
    kill,
    move,
    settle,
)


def take(
    store: Store, holder: str = "w1", limit: int = 100, lease_for: float = 60.0
) -> list[OutboxEvent]:
    """Take events of all subscriptions."""
    names = store.subscriptions()
    return store.take_events(subscriptions=names, holder=holder, lease_for=lease_for, limit=limit)


def told(store: Store) -> list[tuple[str, str, str]]:
    """Deliver all that is due; subscription, job and kind of each."""
    result: list[tuple[str, str, str]] = []
    while taken := take(store):
        result += [(one.subscription, one.job_id, one.kind) for one in taken]
        assert store.settle_events([one.number for one in taken], [], holder="w1") == len(taken)
    return result


def test_subscriptions_are_kept_by_name(store: Store) -> None:
    assert store.subscriptions() == {}
    store.subscribe("a", ["died", "retried"])
    store.subscribe("b", {"purged"})
    store.subscribe("a", ["completed"])
    assert store.subscriptions() == {"a": frozenset({"completed"}), "b": frozenset({"purged"})}
    store.unsubscribe("a")
    store.unsubscribe("nobody")
    assert store.subscriptions() == {"b": frozenset({"purged"})}


def test_an_event_has_the_job_as_it_was(store: Store, clock: ManualClock) -> None:
    store.subscribe("hook", ["died"])
    clock.advance(2)
    job = kill(store, "a", payload='{"n": 1.50}', tags=("x",))
    move(store, "retry", "a")
    (event,) = take(store)
    expected = ("hook", "a", "died", START + 2, 0)
    assert event[1:6] == expected
    assert job_from_dict(*event_fields(event.body)) == bare(job)


def test_only_what_was_subscribed_to_is_stored(store: Store) -> None:
    kill(store, "early")
    store.subscribe("hook", ["died"])
    add_one(store, "a")
    fail(store, claim_one(store))
    settle(store, claim_one(store))
    kill(store, "b")
    move(store, "resolve", "b")
    kill(store, "own", handler="redrive.on.hook")
    assert told(store) == [("hook", "b", "died")]


def test_every_kind_is_reported_in_order(store: Store, clock: ManualClock) -> None:
    kinds = get_args(EventKind)
    store.subscribe("all", kinds)
    kill(store, "a")
    verbs: list[Verb] = ["resolve", "reopen", "retry"]
    for verb in verbs:
        move(store, verb, "a")
    settle(store, claim_one(store))
    clock.advance(10)
    store.purge([PurgeRule(state=State.COMPLETED, older_than=5)])
    assert told(store) == [
        ("all", "a", kind)
        for kind in ("died", "resolved", "reopened", "retried", "completed", "recovered", "purged")
    ]


def test_a_job_that_is_added_dead_has_died(store: Store) -> None:
    store.subscribe("hook", ["died"])
    imported = captured("c", START, origin={"from": "elsewhere"})
    for _ in range(2):
        store.add([captured("a", START), captured("b", START - 3600), imported])
    assert told(store) == [("hook", "a", "died")]


def test_a_refused_settlement_reports_nothing(store: Store, clock: ManualClock) -> None:
    store.subscribe("hook", ["died", "completed"])
    add_one(store, "a")
    late = claim_one(store, lease_for=5)
    clock.advance(6)
    (swept,) = store.seize(by="s", lease_for=60)
    assert settle(store, late, DEAD, make_failure()) is None
    assert take(store) == []
    settle(store, swept)
    assert told(store) == [("hook", "a", "completed")]


def test_events_of_one_job_come_one_at_a_time(store: Store) -> None:
    store.subscribe("x", ["died", "resolved"])
    store.subscribe("y", ["resolved"])
    kill(store, "a")
    kill(store, "b")
    move(store, "resolve", "a", "b")
    taken = take(store)
    assert sorted((one.subscription, one.job_id, one.kind) for one in taken) == [
        ("x", "a", "died"),
        ("x", "b", "died"),
        ("y", "a", "resolved"),
        ("y", "b", "resolved"),
    ]
    assert take(store, "w2") == []
    done = next(one for one in taken if one[1:4] == ("x", "a", "died"))
    assert store.settle_events([done.number], [], holder="w1") == 1
    (following,) = take(store, "w2")
    assert following[1:4] == ("x", "a", "resolved")
    assert following.number > done.number


def test_what_was_put_off_holds_up_its_job_only(store: Store, clock: ManualClock) -> None:
    store.subscribe("x", ["died", "resolved"])
    kill(store, "a")
    move(store, "resolve", "a")
    (event,) = take(store)
    assert store.settle_events([], [(event.number, 30.0)], holder="w1") == 1
    kill(store, "b")
    assert told(store) == [("x", "b", "died")]
    clock.advance(29)
    assert take(store) == []
    clock.advance(1)
    (again,) = take(store)
    assert (again.number, again.kind, again.attempts) == (event.number, "died", 1)
    assert again.body == event.body
    store.settle_events([again.number], [], holder="w1")
    assert told(store) == [("x", "a", "resolved")]


def test_a_lease_that_has_ended_gives_its_events_again(store: Store, clock: ManualClock) -> None:
    store.subscribe("x", ["died"])
    kill(store, "a")
    (event,) = take(store, "w1", lease_for=30)
    clock.advance(29)
    assert take(store, "w2") == []
    clock.advance(2)
    (again,) = take(store, "w2")
    assert again == event._replace(lost=1)
    assert store.settle_events([event.number], [], holder="w1") == 0
    assert store.settle_events([], [(event.number, 5.0)], holder="w1") == 0
    assert store.settle_events([event.number, event.number + 99], [], holder="w2") == 1
    clock.advance(100)
    assert take(store) == []


def test_removing_a_subscription_removes_its_events(store: Store) -> None:
    store.subscribe("x", ["died"])
    store.subscribe("y", ["died"])
    kill(store, "a")
    (event,) = [one for one in take(store) if one.subscription == "x"]
    store.unsubscribe("x")
    assert store.settle_events([event.number], [], holder="w1") == 0
    store.subscribe("x", ["died"])
    kill(store, "b")
    assert [one[1:4] for one in take(store, "w2")].count(("x", "b", "died")) == 1
    assert ("x", "a", "died") not in told(store)


def test_many_who_take_get_each_event_once(store: Store) -> None:
    store.subscribe("x", ["died"])
    store.add([captured(f"j{n:02}", START) for n in range(40)])

    def some(me: int) -> list[int]:
        mine: list[int] = []
        while taken := take(store, f"w{me}", limit=3):
            mine += [one.number for one in taken]
        return mine

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for share in pool.map(some, range(4)) for number in share]
    assert len(numbers) == len(set(numbers)) == 40


def test_each_lease_that_ends_unanswered_is_counted(store: Store, clock: ManualClock) -> None:
    store.subscribe("x", ["died"])
    kill(store, "a")
    for lost in range(3):
        (event,) = take(store, lease_for=30)
        assert (event.lost, event.attempts) == (lost, 0)
        clock.advance(31)
    (event,) = take(store)
    store.settle_events([], [(event.number, 0.0)], holder="w1")
    (event,) = take(store)
    assert (event.lost, event.attempts) == (3, 1)


def test_events_of_other_subscriptions_are_left_alone(store: Store, clock: ManualClock) -> None:
    store.subscribe("x", ["died"])
    store.subscribe("y", ["died"])
    kill(store, "a")
    for holder in ("w1", "w2"):  # the second one when the first lease has ended
        (event,) = store.take_events(
            subscriptions=["y", "unknown"], holder=holder, lease_for=30, limit=9
        )
        assert event.subscription == "y"
        clock.advance(31)
    assert store.take_events(subscriptions=[], holder="w1", lease_for=30, limit=9) == []
    (event,) = store.take_events(subscriptions=["x"], holder="w1", lease_for=30, limit=9)
    assert (event.subscription, event.lost) == ("x", 0)


@pytest.mark.needs("persistent")
def test_events_and_leases_survive_reopening(place: Place) -> None:
    store = place.open()
    store.subscribe("x", ["died", "resolved"])
    kill(store, "a")
    kill(store, "b")
    move(store, "resolve", "a")
    (first, *_) = take(store, limit=1)
    store = place.reopen()
    assert store.subscriptions() == {"x": frozenset({"died", "resolved"})}
    assert [one[2:4] for one in take(store, "w2")] == [("b", "died")]
    assert store.settle_events([first.number], [], holder="w1") == 1
    assert [one[2:4] for one in take(store, "w2")] == [("a", "resolved")]


@pytest.mark.needs("shared")
def test_a_process_that_is_killed_leaves_its_events_to_the_next(place: Place) -> None:
    """Nothing is closed: what the first one had is due again when its lease is over."""
    one = place.open()
    one.subscribe("x", ["died"])
    kill(one, "a")
    kill(one, "b")
    assert len(take(one, "w1", lease_for=30)) == 2
    other = place.open()
    assert take(other, "w2") == []
    place.clock.advance(31)
    assert sorted(event.job_id for event in take(other, "w2")) == ["a", "b"]
    assert one.settle_events([event.number for event in take(one, "w1")], [], holder="w1") == 0
