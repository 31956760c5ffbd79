"""died_at: when a job last became a dead letter; set by a death alone, kept by everything else."""

from __future__ import annotations

import pytest

from kit import START, make_action, make_failure
from redrive.jobs.job import Reason, State
from redrive.jobs.transitions import Verb
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    add_one,
    captured,
    claim_one,
    fail,
    find,
    get,
    kill,
    move,
    settle,
)


def test_only_a_death_sets_it(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    assert get(store, "a").died_at is None
    claimed = claim_one(store)
    assert claimed.job.died_at is None
    assert fail(store, claimed).died_at is None
    clock.advance(5)
    done = settle(store, claim_one(store))
    assert done is not None
    assert done.died_at is None


def test_a_death_is_dated_by_the_store(store: Store, clock: ManualClock) -> None:
    clock.advance(7)
    assert kill(store, "a").died_at == START + 7
    assert get(store, "a").died_at == START + 7
    assert [job.died_at for job in find(store).jobs] == [START + 7]


def test_actions_leave_it(store: Store, clock: ManualClock) -> None:
    kill(store, "a")
    verbs: list[Verb] = ["resolve", "reopen", "retry"]
    for verb in verbs:
        clock.advance(10)
        (job,) = move(store, verb, "a").done
        assert job.died_at == get(store, "a").died_at == START, verb
    edited = store.amend("a", '{"n":1}', make_action("edit"), expected=0)
    assert edited.died_at == get(store, "a").died_at == START
    claimed = claim_one(store)
    assert claimed.job.died_at == START
    assert fail(store, claimed).died_at == START


def test_the_next_death_replaces_it(store: Store, clock: ManualClock) -> None:
    kill(store, "a")
    clock.advance(10)
    move(store, "retry", "a")
    clock.advance(10)
    job = settle(store, claim_one(store), DEAD, make_failure())
    assert job is not None
    assert job.died_at == get(store, "a").died_at == START + 20


def test_a_job_that_never_died_does_when_it_is_reopened(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    move(store, "discard", "a")
    assert get(store, "a").died_at is None
    clock.advance(3)
    (job,) = move(store, "reopen", "a").done
    assert (job.state, job.reason, job.died_at) == (State.DEAD, Reason.MANUAL, START + 3)


def test_it_is_stored_as_given_and_survives_seizures(store: Store, clock: ManualClock) -> None:
    store.add([captured("a", START), captured("b", START, died_at=START - 99.5)])
    assert (get(store, "a").died_at, get(store, "b").died_at) == (START, START - 99.5)
    move(store, "retry", "b")
    claim_one(store, only=["b"], lease_for=5)
    clock.advance(6)
    (swept,) = store.seize(by="s", lease_for=60)
    assert swept.job.died_at == START - 99.5


@pytest.mark.needs("persistent")
def test_it_survives_reopening(place: Place) -> None:
    store = place.open()
    kill(store, "a")
    kill(store, "b")
    move(store, "resolve", "b")
    store = place.reopen()
    assert (get(store, "a").died_at, get(store, "b").died_at) == (START, START)
