"""action_jobs: which jobs an action took, and how they were before; and the ids of events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_action, make_failure, make_job
from redrive.jobs.job import Job, State
from redrive.jobs.transitions import Verb
from redrive.stores.contract import Query, Store
from redrive.stores.outbox_verbs import ACTIONS_KEPT
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    add,
    add_one,
    bare,
    bring_to,
    claim_one,
    found,
    get,
    kill,
    move,
    settle,
)


def before(store: Store, number: int, *now: str) -> list[Job]:
    """The jobs of an action with the fields that it changed set back."""
    fields = dict(store.action_jobs(number))
    assert list(fields) == sorted(now)
    return [replace(get(store, one), **fields[one]) for one in now]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("retry", State.DEAD),
        ("retry", State.RESOLVED),
        ("retry", State.PENDING),
        ("resolve", State.DEAD),
        ("discard", State.PENDING),
        ("discard", State.RUNNING),
        ("reopen", State.RESOLVED),
    ],
)
def test_the_fields_before_an_action_undo_it_exactly(
    store: Store, clock: ManualClock, verb: Verb, state: State
) -> None:
    bring_to(store, state, "b", tags=("x",), release="r1")
    bring_to(store, state, "a", payload='{"n":1}')
    clock.advance(5.25)
    was = [get(store, "a"), get(store, "b")]
    moved = move(store, verb, "b", "a", "nobody")
    assert [job.id for job in moved.done] == ["b", "a"]
    assert before(store, moved.action.number, "a", "b") == was


def test_an_edit_keeps_what_it_changed(store: Store, clock: ManualClock) -> None:
    kill(store, "a")
    for n in range(2):
        clock.advance(1)
        was = get(store, "a")
        store.amend("a", f'{{"n":{n}}}', make_action("edit"), expected=n)
        assert before(store, store.actions(limit=1)[0].number, "a") == [was]


def test_skipped_jobs_and_those_of_a_run_that_waits_are_left_out(store: Store) -> None:
    add(store, make_job("a"), make_job("b"))
    done = claim_one(store, only=["a"])
    settle(store, done)
    assert list(store.action_jobs(move(store, "retry", "a", "nobody").action.number)) == []
    assert list(store.action_jobs(move(store, "enlist", "b", run=-1).action.number)) == []
    assert list(store.action_jobs(store.record(make_action("pause")).number)) == []
    assert list(store.action_jobs(999)) == []


def test_a_retry_of_a_run_is_kept(store: Store) -> None:
    kill(store, "a")
    move(store, "enlist", "a", run=-1)
    was = get(store, "a")
    assert before(store, move(store, "retry", "a", run=1).action.number, "a") == [was]


def test_actions_are_found_by_job_and_jobs_by_action(store: Store, clock: ManualClock) -> None:
    for job_id in "abc":
        kill(store, job_id)
    numbers: list[int] = []
    for ids, verb in (("ab", "resolve"), ("bc", "retry"), ("b", "discard")):
        clock.advance(1)
        numbers.append(move(store, verb, *ids).action.number)  # type: ignore[arg-type]
    one, two, three = numbers
    store.record(make_action("pause"))
    assert [act.number for act in store.actions(job="b")] == [three, two, one]
    assert [act.number for act in store.actions(job="b", limit=1)] == [three]
    assert [act.number for act in store.actions(job="b", before=three)] == [two, one]
    assert [act.number for act in store.actions(job="c")] == [two]
    assert store.actions(job="nobody") == []
    assert found(store, action=one) == ["b", "a"]
    assert found(store, action=two) == ["c", "b"]
    assert found(store, action=two, states=frozenset({State.PENDING})) == ["c"]
    assert found(store, action=three, by_change=True) == ["b"]
    assert found(store, action=999) == []
    page = store.find(Query(action=one, limit=1))
    assert [job.id for job in page.jobs] == ["b"]
    assert found(store, action=one, cursor=page.cursor) == ["a"]


def test_a_thousand_and_more_are_kept(store: Store) -> None:
    ids = [f"j{n:05}" for n in range(2500)]
    store.add([make_job(one) for one in ids])
    moved = move(store, "discard", *ids)
    kept = list(store.action_jobs(moved.action.number))
    assert [one for one, _ in kept] == ids
    assert all(fields["state"] is State.PENDING for _, fields in kept)
    assert len(found(store, action=moved.action.number, limit=5000)) == 2500


def test_purge_removes_whole_old_actions_beyond_the_bound(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sql.outbox", "index.ledger"):
        monkeypatch.setattr(f"redrive.stores.{module}.ACTION_JOBS_KEPT", 3)
    for name in "abcdef":
        kill(store, name)
    numbers = [move(store, "resolve", *pair).action.number for pair in ("ab", "cd", "ef")]
    clock.advance(ACTIONS_KEPT)
    store.purge([])
    assert [len(dict(store.action_jobs(number))) for number in numbers] == [2, 2, 2]
    clock.advance(1)
    store.purge([])
    assert [len(dict(store.action_jobs(number))) for number in numbers] == [0, 0, 2]


@pytest.mark.needs("persistent")
def test_they_survive_reopening(place: Place) -> None:
    store = place.open()
    kill(store, "a", make_failure("quota"))
    was = get(store, "a")
    number = move(store, "resolve", "a").action.number
    move(store, "reopen", "a")
    kept = dict(store.action_jobs(number))
    store = place.reopen()
    assert dict(store.action_jobs(number)) == kept
    assert replace(get(store, "a"), **kept["a"]).resolution == was.resolution  # type: ignore[arg-type]
    assert [act.verb for act in store.actions(job="a")] == ["reopen", "resolve"]


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
