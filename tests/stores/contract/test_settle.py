"""settle: attempt, counters and state in one step, each verdict, batches, groups."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_attempt, make_failure, make_job, make_settlement
from redrive.jobs.job import (
    Category,
    Completed,
    Dead,
    Reason,
    Retry,
    Return,
    Settlement,
    State,
    Verdict,
)
from redrive.jobs.transitions import KEEP_FIRST, KEEP_LAST
from redrive.stores.contract import Query, Store
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DEAD,
    DONE,
    add,
    add_one,
    bare,
    claim,
    claim_one,
    everything,
    fail,
    get,
    history,
    move,
    settle,
)

COMPLETIONS = [Reason.DONE, Reason.SKIPPED, Reason.ALREADY_DONE]
DEATHS = [Reason.EXHAUSTED, Reason.PERMANENT, Reason.EXPIRED, Reason.CRASH]


@pytest.mark.parametrize("reason", COMPLETIONS)
def test_a_completed_job_says_how_and_when(
    store: Store, clock: ManualClock, reason: Reason
) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    clock.advance(5)
    job = settle(store, taken, Completed(reason, "words"))
    assert job is not None
    assert (job.state, job.reason, job.detail) == (State.COMPLETED, reason, "words")
    assert (job.finished, job.updated, job.attempts) == (clock.now(), clock.now(), 1)
    assert bare(get(store, "a")) == bare(job)


@pytest.mark.parametrize("reason", DEATHS)
def test_a_dead_job_says_why_and_when(store: Store, clock: ManualClock, reason: Reason) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    clock.advance(5)
    job = settle(store, taken, Dead(reason, "words"), make_failure("quota"))
    assert job is not None
    assert (job.state, job.reason, job.detail) == (State.DEAD, reason, "words")
    assert (job.finished, job.first_failed, dict(job.spent)) == (
        clock.now(),
        clock.now(),
        {"quota": 1},
    )
    assert bare(get(store, "a")) == bare(job)


def test_a_retry_waits_its_delay_and_keeps_what_was_spent(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    job = settle(store, claim_one(store), Retry(90, "as asked"), make_failure("quota"))
    assert job is not None
    assert (job.state, job.due, job.detail) == (State.PENDING, clock.now() + 90, "as asked")
    assert (job.attempts, dict(job.spent), job.reason, job.finished) == (
        1,
        {"quota": 1},
        None,
        None,
    )
    assert bare(get(store, "a")) == bare(job)


def test_a_released_claim_spends_nothing_and_keeps_its_due_time(
    store: Store, clock: ManualClock
) -> None:
    added = add_one(store, "a")
    clock.advance(7)
    job = settle(store, claim_one(store), Return())
    assert job is not None
    assert (job.state, job.attempts, job.due) == (State.PENDING, 0, added.due)
    assert (dict(job.spent), job.lease, job.holder) == ({}, 1, None)
    assert history(store, "a") == ()
    later = settle(store, claim_one(store), Return(20, "returned: nobody to ask"))
    assert later is not None
    assert (later.attempts, later.due) == (0, clock.now() + 20)
    assert get(store, "a").detail == "returned: nobody to ask"
    clock.advance(20)
    assert settle(store, claim_one(store), Return()) is not None
    assert get(store, "a").detail == "returned: nobody to ask", "without words the last ones stay"


@pytest.mark.parametrize("verdict", [DONE, DEAD, Retry(1), Return()], ids=repr)
def test_every_end_lets_the_lease_go_and_keeps_its_number(store: Store, verdict: Verdict) -> None:
    add_one(store, "a", lease=4)
    settle(store, claim_one(store), verdict)
    job = get(store, "a")
    assert (job.lease, job.holder, job.lease_end) == (5, None, None)


@pytest.mark.parametrize("category", Category)
def test_every_category_is_counted_by_its_name(store: Store, category: Category) -> None:
    add_one(store, "a", spent={"quota": 3})
    job = fail(store, claim_one(store), category.value)
    expected = {"quota": 3, category.value: 4 if category is Category.QUOTA else 1}
    assert dict(get(store, "a").spent) == dict(job.spent) == expected
    assert job.crashes == (category is Category.CRASH)


def test_the_attempts_are_kept_oldest_first_with_all_they_say(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    expected = []
    for n, category in enumerate(("transient", "crash", "timeout")):
        taken = claim_one(store, suspects=category == "timeout")
        clock.advance(2)
        failure = make_failure(
            category,
            traceback=f"Traceback {n}\n  line\u2028",
            code="E1",
            status=503,
            hint=2.5,
            hint_source="Retry-After",
            request_id="req-1",
        )
        attempt = make_attempt(taken.job, failure, provider="claude", duration=1.25)
        store.settle([Settlement(taken, Retry(0), attempt)])
        expected.append(attempt)
    assert history(store, "a") == tuple(expected)
    assert [(a.ordinal, a.number, a.life) for a in expected] == [(1, 1, 0), (2, 2, 0), (3, 3, 0)]
    shown = get(store, "a").failure
    assert shown == replace(expected[-1].failure or make_failure(), traceback="")


@pytest.mark.parametrize("end", [DONE, DEAD, Retry(0)], ids=["done", "dead", "retry"])
def test_a_long_history_is_folded_in_the_middle_and_says_so(store: Store, end: Verdict) -> None:
    add_one(store, "a")
    for _ in range(KEEP_FIRST + KEEP_LAST + 6):
        fail(store, claim_one(store))
    assert get(store, "a").folded == 6
    settle(store, claim_one(store), end, make_failure() if end is DEAD else None)
    job = get(store, "a")
    assert job.folded == 7
    kept = [attempt.ordinal for attempt in job.history]
    assert kept == [*range(1, KEEP_FIRST + 1), *range(KEEP_FIRST + 8, KEEP_FIRST + KEEP_LAST + 8)]
    assert job.attempts == KEEP_FIRST + KEEP_LAST + 7
    assert store.verify().ok


def test_history_goes_on_over_lives(store: Store) -> None:
    """A retry by a person keeps the whole history."""
    add_one(store, "a")
    fail(store, claim_one(store))
    settle(store, claim_one(store), DEAD, make_failure())
    move(store, "retry", "a")
    settle(store, claim_one(store))
    rows = [(a.ordinal, a.number, a.life, a.outcome) for a in history(store, "a")]
    assert rows == [(1, 1, 0, "failed"), (2, 2, 0, "failed"), (3, 1, 1, "done")]


def test_the_first_failure_time_is_never_rewritten(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    fail(store, claim_one(store))
    first = clock.now()
    clock.advance(50)
    settle(store, claim_one(store), DEAD, make_failure("quota"))
    move(store, "retry", "a")
    fail(store, claim_one(store))
    assert get(store, "a").first_failed == first


def test_the_limit_in_force_is_kept_for_showing(store: Store) -> None:
    add_one(store, "a", max_attempts=3)
    job = settle(store, claim_one(store), Retry(0), make_failure(), max_attempts=12)
    assert job is not None
    assert (job.max_attempts, job.can_retry) == (12, True)
    settle(store, claim_one(store), Return())
    assert get(store, "a").max_attempts == 12


def test_failures_of_one_cause_put_jobs_in_one_group(store: Store) -> None:
    add(store, make_job("1"), make_job("2"), make_job("3"))
    for taken, cause in zip(claim(store), ("net", "net", "disk"), strict=True):
        settle(store, taken, DEAD, make_failure("transient", cause=cause))
    numbers = {job_id: get(store, job_id).group for job_id in "123"}
    by_cause: dict[str, set[int | None]] = {}
    for job_id, number in numbers.items():
        failure = get(store, job_id).failure
        assert failure is not None
        by_cause.setdefault(failure.fingerprint, set()).add(number)
    assert all(len(group) == 1 and None not in group for group in by_cause.values())
    titles = {group.number: group.title for group in store.groups(Query())}
    assert sorted(titles.values()) == ["SomeError: disk", "SomeError: net"]
    assert set(titles) == set(numbers.values())


def test_a_job_that_fails_of_another_cause_changes_groups(store: Store) -> None:
    add_one(store, "a")
    first = fail(store, claim_one(store), "transient").group
    second = settle(store, claim_one(store), DEAD, make_failure("quota"))
    assert second is not None
    assert second.group not in {None, first}
    assert [group.number for group in store.groups(Query())] == [second.group]


def test_a_failure_without_a_fingerprint_makes_no_group(store: Store) -> None:
    add_one(store, "a")
    settle(store, claim_one(store), DEAD, make_failure(fingerprint="", title=""))
    assert get(store, "a").group is None
    assert store.groups(Query()) == []


def test_a_batch_settles_what_it_may_and_says_what_it_may_not(
    store: Store, clock: ManualClock
) -> None:
    add(store, *(make_job(name) for name in "abcde"))
    taken = {each.job.id: each for each in claim(store)}
    move(store, "resolve", "b")
    settle(store, taken["d"])
    before = {name: get(store, name) for name in "bd"}
    clock.advance(5)
    results = store.settle(
        [
            make_settlement(taken["a"], DONE),
            make_settlement(taken["b"], DONE),
            make_settlement(taken["c"], Retry(9), make_failure()),
            make_settlement(taken["d"], DEAD, make_failure()),
            Settlement(taken["e"], Return()),
        ]
    )
    shown = [None if job is None else (job.id, job.state.value) for job in results]
    assert shown == [("a", "completed"), None, ("c", "pending"), None, ("e", "pending")]
    assert {name: get(store, name) for name in "bd"} == before
    assert store.settle([]) == []


def test_settling_a_claim_twice_changes_nothing(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    settle(store, taken)
    before = everything(store)
    clock.advance(5)
    assert settle(store, taken) is None
    assert settle(store, taken, DEAD, make_failure()) is None
    assert everything(store) == before


def test_a_claim_twice_in_one_batch_is_settled_once(store: Store) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    one, two = store.settle(
        [make_settlement(taken, Retry(5), make_failure()), make_settlement(taken, DONE)]
    )
    assert one is not None
    assert (one.state, two) == (State.PENDING, None)
    assert len(history(store, "a")) == 1


@pytest.mark.parametrize("with_attempt", [True, False])
def test_a_claim_twice_in_a_batch_does_not_end_the_job_between(
    store: Store, *, with_attempt: bool
) -> None:
    add(store, *(make_job(name) for name in "abc"))
    taken = {each.job.id: each for each in claim(store)}
    results = [
        make_settlement(taken[name], DONE) if with_attempt else Settlement(taken[name], DONE)
        for name in "aac"
    ]
    assert [job and job.id for job in store.settle(results)] == ["a", None, "c"]
    assert get(store, "b").state is State.RUNNING
    assert settle(store, taken["b"]) is not None


def test_a_refused_failure_makes_no_group(store: Store) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    move(store, "discard", "a")
    assert settle(store, taken, DEAD, make_failure("quota")) is None
    assert store.groups(Query(states=frozenset(State))) == []


def test_a_big_batch_settles_as_one(store: Store) -> None:
    add(store, *(make_job() for _ in range(120)))
    results = store.settle([make_settlement(each, DONE) for each in claim(store, limit=120)])
    assert len(results) == 120
    assert all(job is not None and job.state is State.COMPLETED for job in results)


def test_settling_an_unknown_job_takes_nothing(store: Store) -> None:
    add_one(store, "a")
    taken = claim_one(store)
    ghost = replace(taken, job=replace(taken.job, id="nobody"))
    assert store.settle([make_settlement(ghost, DONE)]) == [None]


def test_a_returned_job_can_be_moved_to_another_lane(store: Store) -> None:
    add_one(store, "a", lane="mail.send")
    add_one(store, "b", lane="mail.send")
    first, second = claim(store, limit=2)
    moved, kept = store.settle(
        [make_settlement(first, Return(lane="mail")), make_settlement(second, Return())]
    )
    assert (moved and moved.lane, kept and kept.lane) == ("mail", "mail.send")
    assert (get(store, "a").lane, get(store, "a").attempts) == ("mail", 0)
    assert [one.job.id for one in claim(store, lanes=["mail"], limit=2)] == ["a"]
    assert {(count.lane, count.state) for count in store.counts()} == {
        ("mail", State.RUNNING),
        ("mail.send", State.PENDING),
    }
