"""Ends of claims: those that are alike are written by one statement, and each fence counts alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit import make_failure, make_job, make_settlement
from redrive.jobs.job import Claim, Completed, Reason, Retry, Return, Settlement, State
from redrive.stores.contract import PurgeRule
from redrive.stores.sqlite import SqliteStore
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DONE,
    add,
    add_one,
    bare,
    bring_to,
    claim,
    claim_one,
    fail,
    get,
    history,
    ids,
    move,
    settle,
)

Opener = Callable[..., SqliteStore]


def number(claimed: Claim) -> object:
    """The number of its row that a claim carries, if it does."""
    return vars(claimed.job).get("_row")


def test_what_is_claimed_and_what_is_settled_is_what_is_stored(store: SqliteStore) -> None:
    mine = {"key": "k", "tags": ("red", "blue"), "release": "1.2", "own_max_attempts": 4}
    add(store, make_job("a", **mine), make_job("b", due=5.0, payload='{"id":7}'), make_job("c"))
    claims = claim(store)
    assert ids(claims) == ["b", "a", "c"]
    assert all(map(number, claims))
    assert [get(store, one.job.id) for one in claims] == [one.job for one in claims]
    ends = [
        make_settlement(claims[0], DONE),
        make_settlement(claims[1], Completed(Reason.SKIPPED, "old"), max_attempts=9),
        make_settlement(claims[2], DONE, max_attempts=9),
    ]
    jobs = store.settle(ends)
    assert [job and (job.reason, job.detail, job.max_attempts) for job in jobs] == [
        (Reason.DONE, "", 10),
        (Reason.SKIPPED, "old", 9),
        (Reason.DONE, "", 9),
    ]
    assert [bare(get(store, one.job.id)) for one in claims] == jobs
    assert [history(store, one.job.id) for one in claims] == [(one.attempt,) for one in ends]


def test_several_kinds_are_claimed_as_they_fall_due(store: SqliteStore) -> None:
    add(store, *(make_job(str(n), handler=f"h{n % 3}", due=float(n)) for n in range(9)))
    claims = claim(store, "h0", "h1", "h2", limit=7)
    assert ids(claims) == [str(n) for n in range(7)]
    assert [one.job.handler for one in claims] == [f"h{n % 3}" for n in range(7)]
    assert all(map(number, claims))


def test_jobs_that_something_happened_to_are_claimed_with_the_others(store: SqliteStore) -> None:
    add_one(store, "fresh", due=3.0)
    bring_to(store, State.DEAD, "driven again", due=1.0)
    move(store, "retry", "driven again")
    settle(store, claim_one(store, only=["fresh"]), Return())
    claims = claim(store)
    assert ids(claims) == ["fresh", "driven again"]
    assert [(one.job.lease, one.job.attempts, one.job.redrives) for one in claims] == [
        (2, 1, 0),
        (2, 1, 1),
    ]


def test_a_fence_that_fell_stops_no_other(store: SqliteStore, clock: ManualClock) -> None:
    add(store, *(make_job(one) for one in "abc"))
    claims = claim(store)
    store.renew([claims[0], claims[2]], lease_for=1000)
    clock.advance(100)
    (taken,) = store.seize(by="w2", lease_for=60)
    jobs = store.settle([make_settlement(one, DONE) for one in claims])
    assert [job and job.id for job in jobs] == ["a", None, "c"]
    assert (get(store, "b").holder, history(store, "b")) == ("w2", ())
    assert settle(store, taken) is not None


def test_good_ends_and_others_in_one_batch(store: SqliteStore) -> None:
    add(store, *(make_job(one) for one in "abcd"))
    a, b, c, d = claim(store)
    jobs = store.settle(
        [
            make_settlement(a, Retry(5), make_failure()),
            make_settlement(b, DONE),
            Settlement(c, Return()),
            make_settlement(d, DONE),
        ]
    )
    assert [job and job.state.value for job in jobs] == 2 * ["pending", "completed"]
    assert [bare(get(store, one)) for one in "abcd"] == jobs
    assert [len(history(store, one)) for one in "abcd"] == [1, 1, 0, 1]


def test_every_attempt_of_a_large_batch_is_kept(store: SqliteStore) -> None:
    add(store, *(make_job(f"{n:03d}") for n in range(83)))
    claims = claim(store)
    ends = [make_settlement(one, DONE) for one in claims if one.job.id != "040"]
    assert None not in store.settle(ends[::-1])
    assert [history(store, one.claim.job.id) for one in ends] == [(one.attempt,) for one in ends]
    assert (get(store, "040").state, history(store, "040")) == (State.RUNNING, ())


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


@pytest.mark.parametrize("change", ["holder = 'w2'", "lease = lease + 1", "updated = updated + 1"])
def test_lease_number_holder_and_time_of_the_claim_each_count_alone(
    store: SqliteStore, change: str
) -> None:
    add(store, make_job("a"), make_job("b"))
    late = claim(store)
    writer = store._file._writer
    assert writer is not None
    writer.execute(f"UPDATE jobs SET {change}")
    assert store.renew(late, lease_for=60) == [False, False]
    assert store.settle([make_settlement(each, DONE) for each in late]) == [None, None]
    assert {get(store, name).state for name in ("a", "b")} == {State.RUNNING}


def test_a_claim_may_be_ended_through_another_store_object(opener: Opener) -> None:
    one, two = opener(), opener()
    add(one, make_job("a"), make_job("b"))
    a, b = claim(one)
    assert settle(two, a) is not None
    assert fail(two, b).state is State.PENDING
    assert [len(history(one, job_id)) for job_id in "ab"] == [1, 1]


def test_subscriptions_are_not_read_at_every_settlement(store: SqliteStore) -> None:
    add(store, *(make_job(f"a{n}") for n in range(5)))
    claims = claim(store)
    heard: list[str] = []
    for connection in (store._file._writer, store._file._reader):
        if connection is not None:
            connection.set_trace_callback(heard.append)
    for one in claims:
        settle(store, one)
    move(store, "retry", "a0")
    store.purge([])
    assert len([statement for statement in heard if "subscriptions" in statement]) <= 1
    assert any("UPDATE jobs" in statement for statement in heard)
