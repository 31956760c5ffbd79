"""Ends of claims: those that are alike are written by one statement, and each fence counts alone."""

from __future__ import annotations

from collections.abc import Callable

from kit import make_failure, make_job, make_settlement
from redrive.jobs.job import Claim, Retry, State
from redrive.stores.contract import PurgeRule
from redrive.stores.sqlite import SqliteStore
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DONE,
    add,
    add_one,
    claim,
    claim_one,
    fail,
    get,
    history,
    settle,
)

Opener = Callable[..., SqliteStore]


def number(claimed: Claim) -> object:
    """The number of its row that a claim carries, if it does."""
    return vars(claimed.job).get("_row")


def test_of_two_ends_of_one_claim_the_first_counts(store: SqliteStore) -> None:
    add(store, make_job("a"), make_job("b"))
    a, b = claim(store)
    failed = make_settlement(a, Retry(5), make_failure())
    jobs = store.settle([failed, make_settlement(a, DONE), make_settlement(b, DONE)])
    assert [job and job.state.value for job in jobs] == ["pending", None, "completed"]
    add(store, make_job("c"))
    (c,) = claim(store)
    jobs = store.settle([make_settlement(c, DONE), make_settlement(c, DONE)])
    assert [job and job.state.value for job in jobs] == ["completed", None]
    assert len(history(store, "c")) == 1


def test_a_number_that_is_given_anew_is_not_the_old_job(
    store: SqliteStore, clock: ManualClock
) -> None:
    """Its job was taken over, ended and purged; the same holder has the same lease of another."""
    add_one(store, "old")
    late = claim_one(store)
    clock.advance(100)
    (taken,) = store.seize(by="w2", lease_for=60)
    settle(store, taken)
    clock.advance(100)
    store.purge([PurgeRule(state=State.COMPLETED, older_than=1)])
    add_one(store, "new")
    now = claim_one(store)
    assert number(now) == number(late)
    assert (now.job.lease, now.job.holder) == (late.job.lease, late.job.holder)
    assert settle(store, late) is None
    assert (get(store, "new").state, history(store, "new")) == (State.RUNNING, ())
    assert settle(store, now) is not None


def test_a_claim_may_be_ended_through_another_store_object(opener: Opener) -> None:
    one, two = opener(), opener()
    add(one, make_job("a"), make_job("b"))
    a, b = claim(one)
    assert settle(two, a) is not None
    assert fail(two, b).state is State.PENDING
    assert [len(history(one, job_id)) for job_id in "ab"] == [1, 1]
