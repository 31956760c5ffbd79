"""seize: running jobs whose lease ended, or all of one holder; nothing is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_failure, make_job
from redrive.jobs.job import Return, State
from redrive.stores.contract import Store
from redrive.stores.note_verbs import PAUSE
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    add,
    add_one,
    bare,
    bring_to,
    claim,
    claim_one,
    everything,
    get,
    history,
    ids,
    settle,
)


def test_only_leases_that_ended_are_seized(store: Store, clock: ManualClock) -> None:
    add(store, make_job("short"), make_job("long"))
    claim_one(store, only=["short"], lease_for=60)
    claim_one(store, only=["long"], lease_for=600)
    clock.advance(59)
    assert store.seize(by="s", lease_for=30) == []
    clock.advance(2)
    assert ids(store.seize(by="s", lease_for=30)) == ["short"]


def test_a_seizure_takes_over_the_lease_and_counts_nothing(
    store: Store, clock: ManualClock
) -> None:
    """`updated` stays the time of the claim: the attempt's record can say when it began."""
    add_one(store, "a")
    lost = claim_one(store, holder="w1").job
    clock.advance(100)
    (swept,) = store.seize(by="s", lease_for=30)
    assert swept.lost_by == "w1"
    job = swept.job
    assert (job.holder, job.lease) == ("s", lost.lease + 1)
    assert replace(job, holder=lost.holder, lease=lost.lease, lease_end=lost.lease_end) == lost
    assert bare(get(store, "a")) == bare(job)
    assert history(store, "a") == ()


def test_a_seized_job_is_leased_to_the_sweeper_for_as_long_as_it_asked(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    claim_one(store, lease_for=60)
    clock.advance(61)
    assert len(store.seize(by="s1", lease_for=30)) == 1
    clock.advance(29)
    assert store.seize(by="s2", lease_for=30) == []
    clock.advance(2)
    assert [each.lost_by for each in store.seize(by="s2", lease_for=30)] == ["s1"]


def test_all_jobs_of_a_holder_can_be_seized_before_their_leases_end(store: Store) -> None:
    """The supervisor saw its child die."""
    add(store, *(make_job(name) for name in "abcd"))
    claim(store, only=["a", "b"], holder="child1", lease_for=600)
    claim(store, only=["c"], holder="child2", lease_for=600)
    taken = store.seize(by="parent", lease_for=30, holder="child1")
    assert sorted(ids(taken)) == ["a", "b"]
    assert {each.lost_by for each in taken} == {"child1"}
    assert get(store, "c").holder == "child2"
    assert store.seize(by="parent", lease_for=30, holder="child1") == []
    assert store.seize(by="parent", lease_for=30, holder="nobody") == []


def test_naming_a_holder_leaves_the_expired_leases_of_others(
    store: Store, clock: ManualClock
) -> None:
    add(store, make_job("a"), make_job("b"))
    claim_one(store, only=["a"], holder="w1", lease_for=5)
    claim_one(store, only=["b"], holder="w2", lease_for=600)
    clock.advance(10)
    assert ids(store.seize(by="s", lease_for=30, holder="w2")) == ["b"]


@pytest.mark.parametrize("state", [s for s in State if s is not State.RUNNING])
def test_only_running_jobs_are_seized(store: Store, clock: ManualClock, state: State) -> None:
    bring_to(store, state, "a")
    clock.advance(1e6)
    before = everything(store)
    assert store.seize(by="s", lease_for=30) == []
    assert store.seize(by="s", lease_for=30, holder="w1") == []
    assert everything(store) == before


def test_paused_lanes_and_unknown_handlers_are_swept_too(store: Store, clock: ManualClock) -> None:
    add(store, make_job("a", handler="old", lane="red"))
    claim_one(store, "old", lease_for=5)
    store.note(PAUSE + "red", "x")
    clock.advance(6)
    assert ids(store.seize(by="s", lease_for=30)) == ["a"]


def test_sweeping_goes_past_the_limit_to_the_last_one(store: Store, clock: ManualClock) -> None:
    """The first page must not come again and again."""
    add(store, *(make_job() for _ in range(25)))
    taken = claim(store, limit=25, lease_for=5)
    clock.advance(6)
    swept: list[str] = []
    for expected in (10, 10, 5, 0):
        page = store.seize(by="s", lease_for=600, limit=10)
        assert len(page) == expected
        swept += ids(page)
    assert sorted(swept) == sorted(ids(taken))


def test_a_holders_jobs_are_seized_by_pages_too(store: Store) -> None:
    add(store, *(make_job() for _ in range(7)))
    claim(store, holder="gone", lease_for=600)
    pages = [len(store.seize(by="s", lease_for=60, holder="gone", limit=3)) for _ in range(4)]
    assert pages == [3, 3, 1, 0]


def test_the_default_limit_is_a_hundred(store: Store, clock: ManualClock) -> None:
    add(store, *(make_job() for _ in range(105)))
    claim(store, limit=105, lease_for=5)
    clock.advance(6)
    assert [len(store.seize(by="s", lease_for=600)) for _ in range(3)] == [100, 5, 0]


def test_a_seized_job_can_be_given_back_or_die(store: Store, clock: ManualClock) -> None:
    add(store, make_job("a"), make_job("b"))
    claim(store, lease_for=5)
    clock.advance(6)
    taken = {each.job.id: each for each in store.seize(by="s", lease_for=30)}
    back = settle(store, taken["a"], Return())
    dead = settle(store, taken["b"], DEAD, make_failure("crash"))
    assert back is not None
    assert dead is not None
    assert (back.state, back.attempts, back.crashes) == (State.PENDING, 0, 0)
    assert (dead.state, dead.attempts, dead.crashes) == (State.DEAD, 1, 1)
    assert history(store, "b")[0].ordinal == 2


@pytest.mark.needs("shared")
def test_one_sweeper_of_two_gets_each_job(place: Place) -> None:
    one, two = place.open(), place.open()
    add(one, *(make_job() for _ in range(10)))
    claim(one, lease_for=5)
    place.clock.advance(6)
    first = one.seize(by="s1", lease_for=60, limit=6)
    second = two.seize(by="s2", lease_for=60, limit=6)
    assert (len(first), len(second)) == (6, 4)
    assert not set(ids(first)) & set(ids(second))
