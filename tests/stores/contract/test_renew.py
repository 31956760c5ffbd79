"""renew: leases grow from now, and only for those who still hold them."""

from __future__ import annotations

from dataclasses import replace

from kit import make_job
from redrive.jobs.job import Claim, Return
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.verbs import add, add_one, claim, claim_one, everything, get, move, settle


def test_a_renewed_lease_counts_from_now(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    clock.advance(50)
    assert store.renew([taken], lease_for=60) == [True]
    clock.advance(50)
    assert store.seize(by="s", lease_for=5) == []
    clock.advance(20)
    assert len(store.seize(by="s", lease_for=5)) == 1


def test_renewing_changes_nothing_but_the_end_of_the_lease(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    before = get(store, "a")
    clock.advance(10)
    store.renew([taken], lease_for=60)
    after = get(store, "a")
    assert after.lease_end is not None
    assert before.lease_end is not None
    assert after.lease_end > before.lease_end
    assert replace(after, lease_end=before.lease_end) == before


def test_renewing_twice_is_fine_and_keeps_the_fence(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    for _ in range(5):
        clock.advance(30)
        assert store.renew([taken], lease_for=60) == [True]
    assert settle(store, taken) is not None


def test_a_lease_that_ended_but_was_not_taken_can_still_be_renewed(
    store: Store, clock: ManualClock
) -> None:
    """A worker that slept too long but was not missed goes on."""
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    clock.advance(3600)
    assert store.renew([taken], lease_for=60) == [True]
    assert store.seize(by="s", lease_for=5) == []


def test_a_batch_says_for_each_claim_whether_it_is_still_ours(
    store: Store, clock: ManualClock
) -> None:
    add(store, *(make_job(name) for name in ("done", "mine", "moved", "back", "also")))
    taken = {each.job.id: each for each in claim(store)}
    settle(store, taken["done"])
    settle(store, taken["back"], Return())
    move(store, "resolve", "moved")
    order = ["done", "mine", "moved", "back", "also"]
    assert store.renew([taken[name] for name in order], lease_for=60) == [
        False,
        True,
        False,
        False,
        True,
    ]
    assert store.renew([], lease_for=60) == []


def test_a_seized_claim_is_no_longer_ours(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    old = claim_one(store, lease_for=60)
    clock.advance(61)
    (new,) = store.seize(by="s", lease_for=60)
    before = everything(store)
    assert store.renew([old], lease_for=1e6) == [False]
    assert everything(store) == before
    assert store.renew([new], lease_for=60) == [True]


def test_number_and_holder_must_both_match(store: Store) -> None:
    add_one(store, "a")
    taken = claim_one(store, holder="w1")
    before = everything(store)
    for wrong in ({"holder": "w2"}, {"lease": 2}, {"lease": 0}, {"holder": None}, {"id": "gone"}):
        forged = Claim(replace(taken.job, **wrong))
        assert store.renew([forged], lease_for=1e6) == [False]
    assert everything(store) == before
