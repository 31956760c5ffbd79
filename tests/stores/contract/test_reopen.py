"""Closing and opening: everything that was acknowledged is still there, and equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit import START, make_action, make_failure, make_job
from redrive.errors import KeyConflict, StoreError
from redrive.jobs.job import Category, Retry, State
from redrive.stores.contract import PurgeRule, Store
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    add,
    add_one,
    bring_to,
    claim,
    claim_one,
    everything,
    fail,
    find,
    found,
    get,
    ids,
    move,
    settle,
)


def live(store: Store, place: Place) -> None:
    """A bit of everything that can happen to a store."""
    for state in State:
        for n in range(2):
            bring_to(store, state, f"{state}{n}", key=f"k-{state}{n}", tags=("t", str(n)))
    add(
        store,
        make_job("crashed", crashes=1),
        make_job("later", due=START + 1e6, own_max_attempts=3),
    )
    place.clock.advance(10)
    for category in ("quota", "timeout", "transient"):
        taken = claim(store, only=["pending0"])
        place.clock.advance(1)
        settle(store, taken[0], Retry(0), make_failure(category, cause="odd", traceback="T\u2028"))
    store.amend("dead0", '{"x":10.10}', make_action("edit"), expected=0)
    move(store, "enlist", "dead1", "resolved1", run=-3)
    move(store, "retry", "dead1", delays=[7], run=3)
    move(store, "reopen", "resolved0")
    store.note("pause:red", '{"by":"ada"}', durable=True)
    store.note("turn", "w1", expires_in=100)
    store.note("gone", "x", expires_in=1)
    store.note("removed", "x")
    store.note("removed", None)
    store.record(make_action("pause", target="red", detail={"a": [1, None]}))
    place.clock.advance(5)
    store.purge([PurgeRule(state=State.COMPLETED, older_than=1)], limit=1)


@pytest.mark.needs("persistent")
def test_everything_is_equal_after_closing_and_opening(place: Place) -> None:
    store = place.open()
    live(store, place)
    before = everything(store)
    store = place.reopen()
    assert everything(store) == before
    assert store.verify().ok
    store = place.reopen()
    assert everything(store) == before


QUERIES: list[dict[str, Any]] = [
    {"run": 3},
    {"key": "k-dead0"},
    {"prefix": "pending"},
    {"failed": True},
    {"category": Category.TRANSIENT},
    {"group": 1},
    {"older_than": 5},
    {"newer_than": 5},
    {"lane": "mail", "handler": "m*"},
    {"states": frozenset({State.DEAD, State.RUNNING})},
    {"ids": ("crashed", "later")},
]


@pytest.mark.needs("persistent")
def test_every_filter_finds_the_same_after_opening_again(place: Place) -> None:
    store = place.open()
    live(store, place)
    before = [found(store, **query) for query in QUERIES]
    assert all(before)
    store = place.reopen()
    assert [found(store, **query) for query in QUERIES] == before


@pytest.mark.needs("shared")
def test_a_second_store_object_sees_everything(place: Place) -> None:
    store = place.open()
    live(store, place)
    assert everything(place.open()) == everything(store)


@pytest.mark.needs("persistent")
def test_everything_is_there_when_nobody_closed(place: Place) -> None:
    """As after kill -9; the old store object is still open and says nothing any more."""
    store = place.open()
    live(store, place)
    before = everything(store)
    assert everything(place.open()) == before


@pytest.mark.needs("persistent")
def test_work_goes_on_after_opening_again(place: Place) -> None:
    store = place.open()
    live(store, place)
    store = place.reopen()
    with pytest.raises(KeyConflict):
        store.add([make_job("new", key="k-pending1", payload='{"other":1}')])
    assert add_one(store, "new", key="k-pending1").id == "pending1"
    assert ids(claim(store, suspects=True)) == ["crashed"]
    assert "pending1" in ids(claim(store))
    note = next(each for each in store.notes() if each.name == "turn")
    assert note.expires_in == pytest.approx(95)
    assert store.note("turn", "w2", expected=0) is None
    assert store.note("turn", "w2", expected=note.version) is not None
    numbers = [action.number for action in store.actions()]
    assert store.record(make_action("pause")).number > max(numbers)


@pytest.mark.needs("persistent")
def test_a_lease_outlives_the_store_object(place: Place) -> None:
    """A worker may lose its connection, not its job."""
    store = place.open()
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    store = place.reopen()
    assert store.seize(by="s", lease_for=30) == []
    assert store.renew([taken], lease_for=60) == [True]
    place.clock.advance(59)
    store = place.reopen()
    assert store.seize(by="s", lease_for=30) == []
    assert settle(store, taken) is not None


@pytest.mark.needs("persistent")
def test_groups_go_on_counting_where_they_stopped(place: Place) -> None:
    store = place.open()
    add(store, make_job("a"), make_job("b"), make_job("c"))
    settle(store, claim_one(store, only=["a"]), DEAD, make_failure(cause="net"))
    number = get(store, "a").group
    store = place.reopen()
    settle(store, claim_one(store, only=["b"]), DEAD, make_failure(cause="net"))
    settle(store, claim_one(store, only=["c"]), DEAD, make_failure(cause="disk"))
    assert get(store, "b").group == number
    assert get(store, "c").group not in {None, number}


@pytest.mark.needs("persistent")
def test_a_cursor_outlives_the_store_object(place: Place) -> None:
    store = place.open()
    add(store, *(make_job(f"j{n}", created=START + n) for n in range(5)))
    first = find(store, limit=2)
    store = place.reopen()
    second = find(store, limit=2, cursor=first.cursor)
    assert [job.id for job in second.jobs] == ["j2", "j1"]


@pytest.mark.needs("shared")
def test_two_store_objects_work_on_the_same_jobs_in_turn(place: Place) -> None:
    one, two = place.open(), place.open()
    add_one(one, "a")
    taken = claim_one(two)
    assert get(one, "a").state is State.RUNNING
    assert claim(one, holder="w2") == []
    fail(one, taken)
    again = claim_one(one, holder="w2")
    assert settle(two, taken) is None
    assert settle(two, again, DEAD, make_failure()) is not None
    move(one, "discard", "a")
    assert found(two, states=frozenset({State.RESOLVED})) == ["a"]
    assert two.counts() == one.counts()
    assert one.verify().ok
    assert two.verify().ok


def test_closing_twice_is_fine(place: Place) -> None:
    store = place.open()
    add_one(store, "a")
    store.close()
    store.close()


@pytest.mark.needs("persistent")
def test_a_closed_store_says_so_and_keeps_nothing(place: Place) -> None:
    store = place.open()
    add_one(store, "a")
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.add([make_job("b")]),
        lambda: claim(store),
        lambda: store.get("a"),
        lambda: store.note("n", "x"),
        store.counts,
    ]
    for call in calls:
        with pytest.raises(StoreError, match="closed"):
            call()
    assert found(place.open()) == ["a"]


def test_a_new_store_is_in_order(store: Store) -> None:
    report = store.verify()
    assert (report.ok, report.jobs, report.problems) == (True, 0, [])
    add_one(store, "a")
    assert store.verify().jobs == 1


def test_a_store_says_how_to_open_it_again_and_how_safe_it_is(place: Place) -> None:
    store = place.open()
    assert store.url.startswith(place.kind.name)
    assert store.durability == ("full" if place.kind.persistent else "memory")
