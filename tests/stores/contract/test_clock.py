"""Time: the store's clock says what is due, and when a lease ends."""

from __future__ import annotations

import pytest

from kit import START, make_job
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import add, add_one, claim, claim_one, count, fail, get, ids, settle

HOUR, YEAR = 3600.0, 31_557_600.0
JUMPS = [HOUR, -HOUR, 10 * YEAR, -10 * YEAR, -START]
YEAR_9999 = 253_402_300_799.0


def test_the_store_tells_its_wall_time(store: Store, clock: ManualClock) -> None:
    assert store.now() == clock.now()
    clock.jump(-HOUR)
    assert store.now() == clock.now()


@pytest.mark.parametrize("jump", [HOUR, 10 * YEAR])
def test_a_clock_that_is_set_forwards_may_end_a_lease_but_not_the_claim(
    store: Store, clock: ManualClock, jump: float
) -> None:
    """Its holder keeps the job unless somebody seizes it first."""
    add(store, make_job("a"), make_job("b"))
    held, seized = claim(store, lease_for=60)
    clock.jump(jump)
    assert store.renew([held], lease_for=60) == [True]
    assert ids(store.seize(by="s", lease_for=30)) == [seized.job.id]
    assert settle(store, held) is not None
    assert settle(store, seized) is None


@pytest.mark.parametrize("jump", JUMPS)
def test_a_job_runs_at_most_once_whatever_the_wall_clock_does(
    store: Store, clock: ManualClock, jump: float
) -> None:
    add(store, *(make_job(f"j{n}", due=START + n) for n in range(5)))
    taken = claim(store, limit=2)
    clock.jump(jump)
    taken += claim(store, holder="w2")
    clock.jump(-jump)
    clock.advance(10)
    taken += claim(store, holder="w3")
    assert sorted(ids(taken)) == [f"j{n}" for n in range(5)]
    assert claim(store, holder="w4") == []


def test_after_the_clock_was_set_back_a_delay_counts_from_the_new_time(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    clock.jump(-10 * YEAR)
    fail(store, taken, delay=30)
    assert get(store, "a").due == clock.now() + 30
    clock.advance(30)
    assert ids(claim(store)) == ["a"]


def test_a_suspended_machine_loses_its_leases_once(store: Store, clock: ManualClock) -> None:
    """The clock runs on while the machine sleeps."""
    add_one(store, "a")
    late = claim_one(store, lease_for=60)
    clock.advance(8 * HOUR)
    (swept,) = store.seize(by="s", lease_for=60)
    assert store.seize(by="s", lease_for=60) == []
    assert settle(store, late) is None
    assert settle(store, swept) is not None


@pytest.mark.parametrize("due", [0.0, 1.0, YEAR_9999])
def test_due_times_from_1970_to_9999_are_kept_and_obeyed(place: Place, due: float) -> None:
    store = place.open()
    add_one(store, "a", due=due)
    if place.kind.persistent:
        store = place.reopen()
    assert get(store, "a").due == due
    assert ids(claim(store)) == (["a"] if due < START else [])
    assert len(claim(store, ignore_waits=True)) == (due > START)
    assert count(store, State.RUNNING) == 1
    assert get(store, "a").due_at.year in {1970, 9999}


def test_far_jobs_do_not_stand_before_near_ones(store: Store, clock: ManualClock) -> None:
    add(
        store,
        make_job("far", due=YEAR_9999),
        make_job("near", due=START + 1),
        make_job("past", due=0),
    )
    clock.advance(2)
    assert ids(claim(store)) == ["past", "near"]


def test_a_long_delay_overflows_nothing(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    fail(store, claim_one(store), delay=10 * YEAR)
    assert claim(store) == []
    clock.advance(10 * YEAR)
    assert ids(claim(store)) == ["a"]
