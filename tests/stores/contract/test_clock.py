"""Time: the wall clock says what is due, the boot clock how long a lease lasts (F53, F56, F57)."""

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


@pytest.mark.needs("boot")
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_wall_clock_ends_no_lease(
    store: Store, clock: ManualClock, jump: float
) -> None:
    """F53."""
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    clock.jump(jump)
    assert store.seize(by="s", lease_for=30) == []
    clock.advance(59)
    assert store.seize(by="s", lease_for=30) == []
    assert store.renew([taken], lease_for=60) == [True]
    assert settle(store, taken) is not None


@pytest.mark.needs("boot")
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_of_the_wall_clock_makes_no_lease_immortal(
    store: Store, clock: ManualClock, jump: float
) -> None:
    """F53."""
    add(store, make_job("a"), make_job("b"))
    claim_one(store, only=["a"], lease_for=60)
    renewed = claim_one(store, only=["b"], lease_for=10)
    clock.jump(jump)
    store.renew([renewed], lease_for=60)
    clock.advance(61)
    assert sorted(ids(store.seize(by="s", lease_for=30))) == ["a", "b"]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_job_runs_at_most_once_whatever_the_wall_clock_does(
    store: Store, clock: ManualClock, jump: float
) -> None:
    """F53."""
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


@pytest.mark.needs("boot")
def test_a_reboot_frees_every_lease(place: Place) -> None:
    """Whoever held them is gone, whatever the new boot's clock shows."""
    store = place.open()
    add(store, make_job("a"), make_job("b"))
    claim_one(store, only=["a"], lease_for=5)
    claim_one(store, only=["b"], lease_for=1e9)
    place.clock.reboot()
    if place.kind.persistent:
        store = place.reopen()
    assert sorted(ids(store.seize(by="s", lease_for=30))) == ["a", "b"]
    assert store.seize(by="s", lease_for=30) == []


@pytest.mark.needs("boot")
def test_a_lease_of_the_new_boot_is_measured_from_the_new_boot(place: Place) -> None:
    store = place.open()
    add_one(store, "a")
    place.clock.advance(1e6)
    place.clock.reboot()
    claim_one(store, lease_for=60)
    place.clock.advance(59)
    assert store.seize(by="s", lease_for=30) == []
    place.clock.advance(2)
    assert ids(store.seize(by="s", lease_for=30)) == ["a"]


@pytest.mark.needs("boot")
def test_a_lease_renewed_after_a_reboot_lives_on(store: Store, clock: ManualClock) -> None:
    """A clock that only seems to be another boot (a moved machine) costs nobody a job."""
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    clock.reboot()
    assert store.renew([taken], lease_for=60) == [True]
    assert store.seize(by="s", lease_for=30) == []


def test_a_suspended_machine_loses_its_leases_once(store: Store, clock: ManualClock) -> None:
    """F56: the boot clock runs on while the machine sleeps."""
    add_one(store, "a")
    late = claim_one(store, lease_for=60)
    clock.advance(8 * HOUR)
    (swept,) = store.seize(by="s", lease_for=60)
    assert store.seize(by="s", lease_for=60) == []
    assert settle(store, late) is None
    assert settle(store, swept) is not None


@pytest.mark.parametrize("due", [0.0, 1.0, YEAR_9999])
def test_due_times_from_1970_to_9999_are_kept_and_obeyed(place: Place, due: float) -> None:
    """F57."""
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
