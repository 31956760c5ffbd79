"""move: a person's deed on exactly these jobs, each once, with the act."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import START, make_action, make_job
from redrive.jobs.job import TRANSITIONS, Reason, State
from redrive.jobs.transitions import Verb
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    add,
    add_one,
    bare,
    bring_to,
    claim_one,
    count,
    everything,
    fail,
    found,
    get,
    history,
    ids,
    move,
)
from stores.contract.verbs import claim as claim_all

P, R, C, D, X = State.PENDING, State.RUNNING, State.COMPLETED, State.DEAD, State.RESOLVED

TABLE: dict[Verb, dict[State, State | None]] = {
    "retry": {P: P, R: None, C: None, D: P, X: P},
    "resolve": {P: X, R: X, C: None, D: X, X: None},
    "discard": {P: X, R: X, C: None, D: X, X: None},
    "reopen": {P: None, R: None, C: None, D: None, X: D},
}


@pytest.mark.parametrize(("verb", "before"), [(v, s) for v in TABLE for s in State])
def test_each_verb_in_each_state_moves_or_skips_with_the_reason(
    store: Store, clock: ManualClock, verb: Verb, before: State
) -> None:
    """Nothing else can be written."""
    job = bring_to(store, before, "a")
    clock.advance(5)
    moved = move(store, verb, "a")
    expected = TABLE[verb][before]
    if expected is None:
        assert moved.done == []
        ((job_id, why),) = moved.skipped
        assert job_id == "a"
        assert before.value in why
        assert get(store, "a") == job
    else:
        assert moved.skipped == []
        assert [(each.id, each.state) for each in moved.done] == [("a", expected)]
        assert bare(get(store, "a")) == bare(moved.done[0])
        assert expected is before or expected in TRANSITIONS[before]
    assert (moved.action.done, moved.action.skipped) == ((0, 1) if expected is None else (1, 0))


@pytest.mark.parametrize("before", [D, X])
def test_a_retry_starts_a_fresh_life_and_keeps_id_history_and_lease_number(
    store: Store, clock: ManualClock, before: State
) -> None:
    was = bring_to(store, before, "b", redrives=2, crashes=2, spent={"crash": 2})
    clock.advance(60)
    (job,) = move(store, "retry", "b").done
    assert (job.attempts, dict(job.spent), job.crashes, job.redrives) == (0, {}, 0, 3)
    assert (job.due, job.since, job.updated) == (clock.now(), clock.now(), clock.now())
    assert (job.reason, job.finished, job.resolution, job.lease) == (None, None, None, was.lease)
    assert history(store, "b") == was.history
    assert "b" in ids(claim_all(store))


def test_a_retry_of_a_pending_job_makes_it_due_and_spends_the_same_budget(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a", since=START - 5)
    before = fail(store, claim_one(store), delay=1000)
    clock.advance(10)
    moved = move(store, "retry", "a")
    assert moved.done == [replace(before, due=clock.now(), actions=(moved.action.number,))]
    assert claim_one(store).job.attempts == 2


def test_closing_keeps_who_why_when_and_what_it_was_dead_of(
    store: Store, clock: ManualClock
) -> None:
    bring_to(store, D, "a")
    bring_to(store, P, "b")
    clock.advance(5)
    move(store, "discard", "a", "b")
    for name, was in (("a", Reason.EXHAUSTED), ("b", None)):
        job = get(store, name)
        assert (job.state, job.reason, job.detail) == (X, Reason.DISCARDED, "because")
        assert job.resolution is not None
        assert (job.resolution.actor, job.resolution.reason) == ("ada", "because")
        assert (job.resolution.at, job.resolution.was) == (clock.now(), was)
        assert job.finished == clock.now()


def test_reopening_gives_back_the_reason_it_had(store: Store) -> None:
    bring_to(store, D, "a")
    bring_to(store, P, "b")
    for verb in ("resolve", "reopen"):
        move(store, verb, "a", "b")
    assert (get(store, "a").reason, get(store, "b").reason) == (Reason.EXHAUSTED, Reason.MANUAL)
    assert found(store, states=frozenset({D})) == ["b", "a"]


def test_exactly_these_jobs_and_no_others(store: Store) -> None:
    for name in "abcd":
        bring_to(store, D, name)
    moved = move(store, "retry", "c", "a")
    assert [job.id for job in moved.done] == ["c", "a"]
    assert sorted(found(store, states=frozenset({D}))) == ["b", "d"]


def test_jobs_that_cannot_be_moved_are_named_with_their_reason(store: Store) -> None:
    bring_to(store, D, "dead")
    bring_to(store, C, "done")
    bring_to(store, R, "busy", handler="h")
    moved = move(store, "retry", "done", "dead", "nobody", "busy")
    assert [job.id for job in moved.done] == ["dead"]
    reasons = dict(moved.skipped)
    assert [job_id for job_id, _ in moved.skipped] == ["done", "nobody", "busy"]
    assert "completed" in reasons["done"]
    assert "running" in reasons["busy"]
    assert reasons["nobody"]
    assert (moved.action.done, moved.action.skipped) == (1, 3)


def test_an_id_named_twice_is_moved_once(store: Store) -> None:
    bring_to(store, D, "a")
    moved = move(store, "retry", "a", "a")
    assert [job.id for job in moved.done] == ["a"]
    assert get(store, "a").redrives == 1
    assert moved.action.done == 1


def test_the_act_is_recorded_with_what_came_of_it(store: Store, clock: ManualClock) -> None:
    bring_to(store, D, "a")
    clock.advance(5)
    action = make_action("retry", target="handler=mail", detail={"filter": {"tag": "é"}, "n": 1})
    moved = store.move(["a", "nobody"], "retry", action)
    assert moved.action.number > 0
    assert moved.action == replace(
        action,
        number=moved.action.number,
        at=clock.now(),
        done=1,
        skipped=1,
        detail=moved.action.detail,
    )
    assert dict(moved.action.detail)["filter"] == {"tag": "é"}
    assert store.actions()[0] == moved.action


def test_an_act_that_moved_nothing_is_recorded_too(store: Store) -> None:
    moved = move(store, "retry", "nobody")
    assert (moved.done, moved.action.done, moved.action.skipped) == ([], 0, 1)
    assert store.actions()[0] == moved.action
    none_at_all = store.move([], "retry", make_action())
    assert (none_at_all.done, none_at_all.skipped) == ([], [])


def test_delays_spread_the_retried_jobs_one_by_one(store: Store, clock: ManualClock) -> None:
    for name in "abc":
        bring_to(store, D, name)
    bring_to(store, P, "p", due=START + 9999)
    move(store, "retry", "c", "a", "p", "b", delays=[10, 0, 20.5, 30])
    now = clock.now()
    dues = {name: get(store, name).due - now for name in "abcp"}
    assert dues == {"c": 10, "a": 0, "p": 20.5, "b": 30}
    assert ids(claim_all(store)) == ["a"]
    assert get(store, "c").since == now + 10


def test_delays_belong_to_their_job_also_when_others_are_skipped(
    store: Store, clock: ManualClock
) -> None:
    bring_to(store, C, "done")
    bring_to(store, D, "dead")
    move(store, "retry", "done", "nobody", "dead", delays=[1, 2, 3])
    assert get(store, "dead").due == clock.now() + 3


def test_driving_the_same_jobs_twice_drives_each_once(store: Store) -> None:
    """Two operators, one selection."""
    names = [f"j{n}" for n in range(30)]
    for name in names:
        bring_to(store, D, name)
    for _ in range(2):
        move(store, "retry", *names)
    assert {get(store, name).redrives for name in names} == {1}
    assert count(store, P) == 30
    assert len(store.actions()) == 2


def test_repeating_a_deed_changes_nothing_but_the_record_of_it(store: Store) -> None:
    bring_to(store, D, "a")
    move(store, "resolve", "a")
    before = everything(store)
    again = move(store, "resolve", "a")
    assert again.done == []
    after = everything(store)
    assert {**after, "acts": None} == {**before, "acts": None}


def test_due_order_survives_many_changes_of_mind(store: Store, clock: ManualClock) -> None:
    names = [f"j{n:03d}" for n in range(150)]
    add(store, *(make_job(name) for name in names))
    turns = [[float((n * 37 + turn) % 150) for n in range(150)] for turn in range(10)]
    for delays in turns:
        move(store, "retry", *names, delays=delays)
    clock.advance(150)
    expected = [name for _, name in sorted(zip(turns[-1], names, strict=True))]
    assert ids(claim_all(store, limit=100)) == expected[:100]
    assert ids(claim_all(store, limit=100)) == expected[100:]


def test_a_big_selection_moves_as_one(store: Store) -> None:
    dead = {"state": D, "reason": Reason.EXHAUSTED, "finished": START}
    jobs = [make_job(f"j{n:04d}", **dead) for n in range(1200)]
    add(store, *jobs)
    moved = move(store, "discard", *(job.id for job in jobs))
    assert len(moved.done) == 1200
    assert count(store, X) == 1200


@pytest.mark.needs("shared")
def test_two_operators_at_two_store_objects_drive_each_job_once(place: Place) -> None:
    one, two = place.open(), place.open()
    bring_to(one, D, "a")
    move(one, "retry", "a")
    move(two, "retry", "a")
    assert get(one, "a").redrives == get(two, "a").redrives == 1
    assert [action.number for action in one.actions()] == [
        action.number for action in two.actions()
    ]
