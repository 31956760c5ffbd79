"""The numbers of the actions on a job, the last of which finds it; and the ids of events."""

from __future__ import annotations

import pytest

from kit import make_action, make_failure, make_job
from redrive.jobs.job import State
from redrive.stores.contract import PurgeRule, Query, Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    add,
    add_one,
    bare,
    bring_to,
    claim_one,
    find,
    found,
    get,
    kill,
    move,
    settle,
)


def test_every_action_adds_its_number(store: Store, clock: ManualClock) -> None:
    """In order, in the job that comes back as in the one that is stored; no other verb does."""
    kill(store, "a")
    add_one(store, "b")
    expected: list[int] = []
    for verb, run in (
        ("resolve", None),
        ("reopen", None),
        ("enlist", -1),  # taken into a run
        ("retry", 1),  # released by it
        ("discard", None),
    ):
        clock.advance(1)
        moved = move(store, verb, "a", "a", "nobody", run=run)  # type: ignore[arg-type]
        expected.append(moved.action.number)
        assert [job.actions for job in moved.done] == [tuple(expected)], verb
    edited = store.amend("a", '{"n":1}', make_action("edit"), expected=0)
    expected.append(store.actions(limit=1)[0].number)
    assert get(store, "a").actions == edited.actions == tuple(expected)
    assert get(store, "b").actions == ()
    assert store.verify().ok


def test_what_changes_nothing_adds_no_number(store: Store) -> None:
    bring_to(store, State.RESOLVED, "a")
    (first,) = get(store, "a").actions
    assert move(store, "resolve", "a").done == []
    assert found(store, action=store.actions(limit=1)[0].number) == []
    move(store, "enlist", "a", run=-1)
    kept = get(store, "a").actions
    move(store, "enlist", "a", run=0)  # leaves the run
    assert get(store, "a").actions == kept
    assert kept[0] == first
    assert found(store, action=kept[-1]) == ["a"]
    assert store.verify().ok


def test_the_newest_twenty_are_kept_over_all_lives(store: Store) -> None:
    kill(store, "a")
    numbers: list[int] = []
    for _ in range(12):
        numbers += [move(store, verb, "a").action.number for verb in ("resolve", "reopen")]
    move(store, "retry", "a")
    settled = settle(store, claim_one(store))
    assert settled is not None
    assert settled.actions == get(store, "a").actions
    assert settled.actions == (*numbers[-19:], store.actions(limit=1)[0].number)
    assert found(store, action=settled.actions[-1]) == ["a"]
    assert store.verify().ok


def test_a_job_is_found_by_its_last_action(store: Store) -> None:
    for job_id in "abc":
        kill(store, job_id)
    numbers = [
        move(store, verb, *ids).action.number  # type: ignore[arg-type]
        for ids, verb in (("abc", "resolve"), ("bc", "retry"), ("b", "discard"))
    ]
    store.record(make_action("pause"))
    assert [found(store, action=number) for number in numbers] == [["a"], ["c"], ["b"]]
    assert found(store, action=numbers[1], states=frozenset({State.DEAD})) == []
    assert found(store, action=numbers[2], by_change=True) == ["b"]
    assert found(store, action=999) == []
    assert [each.number for each in store.groups(Query(action=numbers[0]))] == []
    settle(store, claim_one(store, only=["c"]))
    assert found(store, action=numbers[1]) == ["c"]


@pytest.mark.parametrize("verb", ["resolve", "discard"])
def test_an_action_on_three_groups_is_undone_by_its_number(store: Store, verb: str) -> None:
    for place in range(6):
        kill(store, f"job{place}", make_failure(fingerprint=f"f{place % 3}"))
    kill(store, "other")
    number = move(store, verb, *(f"job{place}" for place in range(6))).action.number  # type: ignore[arg-type]
    move(store, "retry", "job5")  # somebody acted on it since: it is left alone
    page = find(store, action=number, limit=2)
    ids = [job.id for job in page.jobs]
    while page.cursor:
        page = find(store, action=number, limit=2, cursor=page.cursor)
        ids += [job.id for job in page.jobs]
    assert ids == ["job4", "job3", "job2", "job1", "job0"]
    moved = move(store, "reopen", *ids)
    assert {job.group for job in moved.done} == {1, 2, 3}
    assert {job.state for job in moved.done} == {State.DEAD}
    assert (found(store, action=number), moved.skipped) == ([], [])


def test_actions_are_read_by_number(store: Store) -> None:
    for _ in range(3):
        store.record(make_action("pause"))
    three, two, one = store.actions()
    numbers = {one.number, three.number, 999}
    assert store.actions(numbers=numbers) == [three, one]
    assert store.actions(numbers=numbers, limit=1) == [three]
    assert store.actions(numbers=[two.number], before=two.number) == []
    assert store.actions(numbers=[]) == []


def test_two_thousand_jobs_of_one_action(store: Store, clock: ManualClock) -> None:
    ids = [f"j{n:05}" for n in range(2500)]
    store.add([make_job(one) for one in ids])
    number = move(store, "discard", *ids).action.number
    assert len(found(store, action=number, limit=5000)) == 2500
    clock.advance(1)
    gone = store.purge([PurgeRule(state=State.RESOLVED, older_than=0)], limit=2000)
    assert len(gone) == 2000
    assert len(found(store, action=number, limit=5000)) == 500


@pytest.mark.needs("persistent")
def test_they_survive_reopening(place: Place) -> None:
    store = place.open()
    kill(store, "a")
    numbers = [move(store, verb, "a").action.number for verb in ("resolve", "reopen")]  # type: ignore[arg-type]
    store = place.reopen()
    assert get(store, "a").actions == tuple(numbers)
    assert found(store, action=numbers[1]) == ["a"]
    assert [act.verb for act in store.actions(numbers=numbers)] == ["reopen", "resolve"]


def test_jobs_are_found_by_the_event_they_were_submitted_for(store: Store) -> None:
    add(
        store,
        make_job("a", event="evt_1"),
        make_job("b", event="evt_2"),
        make_job("c", event="evt_1", key="k"),
        make_job("d"),
    )
    assert found(store, event="evt_1") == ["c", "a"]
    assert found(store, event="evt_1", limit=1) == ["c"]
    assert found(store, event="evt_1", by_change=True) == ["c", "a"]
    assert found(store, event="evt_3") == found(store, event="evt") == []
    assert len(found(store)) == 4
    settle(store, claim_one(store, only=["a"]))
    assert get(store, "a").event == "evt_1"
    done = frozenset({State.COMPLETED})
    assert found(store, event="evt_1", states=done) == ["a"]


@pytest.mark.needs("persistent")
def test_event_ids_survive_reopening(place: Place) -> None:
    store = place.open()
    add_one(store, "a", event="evt_1")
    stored = bare(get(store, "a"))
    store = place.reopen()
    assert found(store, event="evt_1") == ["a"]
    assert bare(get(store, "a")) == stored
