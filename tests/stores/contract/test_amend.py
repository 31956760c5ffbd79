"""amend: another payload, if nobody else was faster; the first one is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_action
from redrive.errors import JobNotFound, Refused
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    add_one,
    bare,
    bring_to,
    claim_one,
    everything,
    get,
    history,
    settle,
)


@pytest.mark.parametrize("state", [State.PENDING, State.DEAD, State.RESOLVED])
def test_a_waiting_or_closed_job_can_be_edited(
    store: Store, clock: ManualClock, state: State
) -> None:
    before = bring_to(store, state, "a", payload='{"x":1}', key="k")
    clock.advance(5)
    job = store.amend("a", '{"x":10.10}', make_action("edit"), expected=0)
    assert (job.payload, job.original, job.edits) == ('{"x":10.10}', '{"x":1}', 1)
    assert (job.state, job.attempts, job.due) == (state, before.attempts, before.due)
    assert (job.delivery_key, before.delivery_key) == ("k.1", "k")
    assert bare(get(store, "a")) == bare(job)
    assert history(store, "a") == before.history


@pytest.mark.parametrize("state", [State.RUNNING, State.COMPLETED])
def test_a_running_or_completed_job_cannot_be_edited(store: Store, state: State) -> None:
    bring_to(store, state, "a", payload='{"x":1}')
    before = everything(store)
    with pytest.raises(Refused, match=state.value):
        store.amend("a", '{"x":2}', make_action("edit"), expected=0)
    assert everything(store) == before


def test_the_payload_before_the_first_edit_is_kept(store: Store) -> None:
    add_one(store, "a", payload='{"x":1}')
    store.amend("a", '{"x":2}', make_action("edit"), expected=0)
    job = store.amend("a", '{"x":3}', make_action("edit"), expected=1)
    assert (job.payload, job.original, job.edits) == ('{"x":3}', '{"x":1}', 2)
    assert job.delivery_key == "a.2"


@pytest.mark.parametrize("expected", [0, 2, 5, -1])
def test_an_edit_of_an_older_version_is_refused_and_changes_nothing(
    store: Store, expected: int
) -> None:
    add_one(store, "a", payload='{"x":1}')
    store.amend("a", '{"x":2}', make_action("edit"), expected=0)
    before = everything(store)
    with pytest.raises(Refused):
        store.amend("a", '{"x":3}', make_action("edit"), expected=expected)
    assert everything(store) == before


def test_editing_an_unknown_job_is_an_error(store: Store) -> None:
    before = everything(store)
    with pytest.raises(JobNotFound):
        store.amend("nobody", "{}", make_action("edit"), expected=0)
    assert everything(store) == before


def test_the_edit_is_recorded(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    clock.advance(5)
    store.amend("a", '{"x":1}', make_action("edit", target="a"), expected=0)
    (action,) = store.actions()
    assert action == replace(
        make_action("edit", target="a"), number=action.number, at=clock.now(), done=action.done
    )


def test_the_edited_payload_is_what_runs(store: Store) -> None:
    add_one(store, "a", payload='{"x":1}')
    store.amend("a", '{"x":2}', make_action("edit"), expected=0)
    taken = claim_one(store)
    assert taken.job.payload == '{"x":2}'
    settle(store, taken)
    job = get(store, "a")
    assert (job.payload, job.original, job.edits) == ('{"x":2}', '{"x":1}', 1)


@pytest.mark.needs("shared")
def test_one_of_two_editors_wins(place: Place) -> None:
    one, two = place.open(), place.open()
    add_one(one, "a")
    two.amend("a", '{"by":"two"}', make_action("edit"), expected=0)
    with pytest.raises(Refused):
        one.amend("a", '{"by":"one"}', make_action("edit"), expected=0)
    assert get(one, "a").payload == '{"by":"two"}'
