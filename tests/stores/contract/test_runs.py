"""A run's jobs wait for it under one tag, are let go by it alone, and are counted by tag."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_action, make_failure
from redrive.errors import Refused
from redrive.jobs.job import Retry, State, Verdict
from redrive.stores.contract import PurgeRule, Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    DONE,
    add_one,
    bare,
    bring_to,
    claim_one,
    everything,
    fail,
    found,
    get,
    move,
    settle,
)

P, R, C, D, X = State


@pytest.mark.parametrize("before", list(State))
def test_enlisting_changes_nothing_but_the_tag(
    store: Store, clock: ManualClock, before: State
) -> None:
    was = bring_to(store, before, "a")
    clock.advance(5)
    moved = move(store, "enlist", "a", run=-4)
    if before in {R, C}:
        ((_, why),) = moved.skipped
        assert before.value in why
        assert get(store, "a") == was
        return
    assert bare(get(store, "a")) == bare(moved.done[0])
    assert moved.done[0].run == -4
    assert get(store, "a").state is before
    assert (get(store, "a").updated, get(store, "a").due) == (was.updated, was.due)


def test_a_job_waits_for_one_run_only(store: Store) -> None:
    """Two operators, one selection: the second finds it taken."""
    bring_to(store, D, "a")
    move(store, "enlist", "a", run=-4)
    ((_, why),) = move(store, "enlist", "a", run=-5).skipped
    assert "R4" in why
    assert [job.id for job in move(store, "enlist", "a", run=-4).done] == ["a"]
    assert get(store, "a").run == -4


def test_a_run_lets_go_only_what_still_waits_for_it(store: Store) -> None:
    for name in "abc":
        bring_to(store, D, name)
    move(store, "enlist", "a", "b", run=-4)
    first = move(store, "retry", "a", "c", run=4)
    assert [(job.id, job.run, job.state) for job in first.done] == [("a", 4, P)]
    assert [one for one, _ in first.skipped] == ["c"]
    again = move(store, "retry", "a", run=4)
    assert (again.done, again.action.done) == ([], 0)
    assert get(store, "a").redrives == 1


@pytest.mark.parametrize("verb", ["retry", "resolve", "discard", "reopen", "amend"])
def test_every_other_deed_takes_a_job_out_of_the_run_it_waits_for(store: Store, verb: str) -> None:
    bring_to(store, X if verb == "reopen" else D, "a")
    move(store, "enlist", "a", run=-4)
    if verb == "amend":
        store.amend("a", '{"x":1}', make_action("edit"), expected=0)
    else:
        move(store, verb, "a")
    assert get(store, "a").run is None
    ((_, why),) = move(store, "retry", "a", run=4).skipped
    assert "R4" in why


def test_what_was_let_go_keeps_its_run(store: Store) -> None:
    bring_to(store, D, "a")
    move(store, "enlist", "a", run=-4)
    move(store, "retry", "a", run=4)
    assert settle(store, claim_one(store), DEAD, make_failure()) is not None
    move(store, "enlist", "a", run=0)
    move(store, "resolve", "a")
    move(store, "retry", "a")
    assert get(store, "a").run == 4
    move(store, "enlist", "a", run=-5)
    assert get(store, "a").run == -5


def test_what_need_not_wait_any_more_is_as_it_was(store: Store) -> None:
    was = bring_to(store, D, "a")
    taken = move(store, "enlist", "a", run=-4).action.number
    move(store, "enlist", "a", run=0)
    assert get(store, "a") == replace(was, actions=(taken,))


def test_a_waiting_job_may_run_by_itself_meanwhile(store: Store) -> None:
    add_one(store, "a")
    move(store, "enlist", "a", run=-4)
    settle(store, claim_one(store))
    assert (get(store, "a").state, get(store, "a").run) == (C, -4)
    assert store.members(-4, limit=5).oldest == []
    with pytest.raises(Refused):
        store.amend("a", "{}", make_action("edit"), expected=0)


def test_members_counts_each_tag_by_state_and_names_the_oldest(store: Store) -> None:
    states = {"a": D, "b": P, "c": D, "d": X, "e": D, "f": P}
    for name, state in states.items():
        bring_to(store, state, name)
    bring_to(store, D, "other")
    move(store, "enlist", *"cfadbe", run=-4)
    waiting = store.members(-4, limit=4)
    assert (dict(waiting.states), waiting.oldest) == ({D: 3, P: 2, X: 1}, ["a", "b", "c", "d"])
    assert store.members(-4).oldest == []
    assert (dict(store.members(4).states), store.members(4).oldest) == ({}, [])
    move(store, "retry", *"abcd", run=4)
    assert dict(store.members(-4).states) == {D: 1, P: 1}
    assert store.members(-4, limit=9).oldest == ["e", "f"]
    assert dict(store.members(4).states) == {P: 4}


def test_members_says_how_those_fare_that_were_let_go(store: Store) -> None:
    for name in "abcde":
        bring_to(store, D, name)
    move(store, "enlist", *"abcde", run=-4)
    move(store, "retry", *"abcd", run=4)
    fail(store, claim_one(store, only=["a"]), delay=500)
    for name in "bc":
        settle(store, claim_one(store, only=[name]), DEAD, make_failure("auth", cause="new"))
    members = store.members(4)
    assert (dict(members.states), members.failing) == ({P: 2, D: 2}, 1)
    new = get(store, "b").group
    assert dict(members.causes) == {new: 2}
    assert new != get(store, "e").group
    waiting = store.members(-4)
    assert (waiting.failing, dict(waiting.causes)) == (0, {})


def test_members_counts_failures_since_the_release_alone(store: Store) -> None:
    add_one(store, "a")
    fail(store, claim_one(store, only=["a"]), delay=0)
    move(store, "enlist", "a", run=-4)
    move(store, "retry", "a", run=4)
    assert store.members(4).failing == 0
    claimed = claim_one(store, only=["a"])
    assert store.members(4).failing == 0
    assert fail(store, claimed, delay=0).failed_in_run
    assert get(store, "a").failed_in_run
    claimed = claim_one(store, only=["a"])
    assert store.members(4).failing == 1  # while it is tried again, too
    settle(store, claimed, DEAD, make_failure())
    assert (store.members(4).failing, get(store, "a").failed_in_run) == (0, False)


def test_a_second_run_begins_without_the_failures_of_the_first(store: Store) -> None:
    for name in "ab":
        bring_to(store, D, name)
    move(store, "enlist", "a", "b", run=-4)
    move(store, "retry", "a", "b", run=4)
    for name in "ab":
        fail(store, claim_one(store, only=[name]), delay=500)
    move(store, "discard", "b")
    assert store.members(4).failing == 1
    move(store, "enlist", "a", "b", run=-5)
    move(store, "retry", "a", "b", run=5)
    assert (dict(store.members(5).states), store.members(5).failing) == ({P: 2}, 0)


def test_members_forgets_what_was_purged(store: Store) -> None:
    bring_to(store, D, "a")
    move(store, "enlist", "a", run=-4)
    move(store, "retry", "a", run=4)
    settle(store, claim_one(store))
    assert dict(store.members(4).states) == {C: 1}
    store.purge([PurgeRule(state=C, older_than=-1)])
    assert dict(store.members(4).states) == {}


def test_people_find_a_run_s_jobs_whether_they_wait_or_not(store: Store) -> None:
    for name in "abc":
        bring_to(store, D, name)
    move(store, "enlist", "a", "b", run=-4)
    move(store, "retry", "a", run=4)
    assert found(store, run=4) == ["b", "a"]
    assert found(store, run=4, states=frozenset({D})) == ["b"]
    assert found(store, run=5) == []


@pytest.mark.needs("persistent")
def test_tags_are_there_after_closing_and_opening(place: Place) -> None:
    store = place.open()
    for name in "abc":
        bring_to(store, D, name)
    move(store, "enlist", "a", "b", run=-4)
    move(store, "retry", "a", run=4)
    before = everything(store)
    store = place.reopen()
    assert everything(store) == before
    assert (store.members(-4, limit=2).oldest, dict(store.members(4).states)) == (["b"], {P: 1})


@pytest.mark.parametrize("verdict", [DONE, DEAD, Retry(5.0)])
def test_a_job_that_leaves_a_run_while_it_runs_stays_out_of_it(
    store: Store, verdict: Verdict
) -> None:
    add_one(store, "a")
    move(store, "enlist", "a", run=-1)
    claimed = claim_one(store)
    move(store, "enlist", "a", run=0)
    assert settle(store, claimed, verdict) is not None
    assert get(store, "a").run is None
