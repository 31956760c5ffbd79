"""The fence: a late worker changes nothing, whatever happened meanwhile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit import make_failure, make_job, make_settlement
from redrive.jobs.job import Claim, Retry, Return, State, Verdict
from redrive.stores.contract import Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    DEAD,
    DONE,
    add,
    add_one,
    claim,
    claim_one,
    count,
    everything,
    fail,
    get,
    history,
    move,
    settle,
)

VERDICTS: list[Verdict] = [DONE, DEAD, Retry(1), Return()]


def is_fenced_off(store: Store, late: Claim) -> bool:
    """Try everything a late worker could; whether all of it was refused and nothing changed."""
    before = everything(store)
    refused = [settle(store, late, verdict, make_failure("quota")) for verdict in VERDICTS]
    renewed = store.renew([late], lease_for=1e6)
    return refused == [None] * 4 and renewed == [False] and everything(store) == before


@pytest.mark.parametrize(
    "wrong",
    [{"lease": 2}, {"lease": 0}, {"holder": "w2"}, {"holder": None}, {"holder": ""}],
    ids=repr,
)
def test_number_and_holder_must_both_match(store: Store, wrong: dict[str, object]) -> None:
    add_one(store, "a")
    taken = claim_one(store, holder="w1")
    assert is_fenced_off(store, Claim(replace(taken.job, **wrong)))  # type: ignore[arg-type]
    assert settle(store, taken) is not None


def test_the_time_of_the_claim_must_match_too(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    taken = claim_one(store, holder="w1")
    clock.advance(1)
    for wrong in (taken.job.updated - 0.001, taken.job.updated + 1, clock.now()):
        assert is_fenced_off(store, Claim(replace(taken.job, updated=wrong)))
    assert store.renew([taken], lease_for=5) == [True]
    assert settle(store, taken) is not None


@pytest.mark.needs("files")
def test_a_claim_of_before_a_restore_is_stale_though_its_number_comes_back(place: Place) -> None:
    """Under the same holder and number: only the time tells the two claims apart."""
    add_one(place.open(), "a")
    place.copy()
    late = claim_one(place.open(), holder="w1")
    store = place.restore()
    place.clock.advance(1)
    taken = claim_one(store, holder="w1")
    assert (late.job.lease, late.job.holder) == (taken.job.lease, taken.job.holder)
    assert is_fenced_off(store, late)
    assert settle(store, taken) is not None


def test_a_lease_that_ended_but_was_not_taken_can_still_be_settled(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    taken = claim_one(store, lease_for=60)
    clock.advance(3600)
    job = settle(store, taken)
    assert job is not None
    assert job.state is State.COMPLETED


def test_settling_after_a_seizure_changes_nothing(store: Store, clock: ManualClock) -> None:
    """F45, one way round: the sweeper was first."""
    add_one(store, "a")
    late = claim_one(store, lease_for=60)
    clock.advance(61)
    (swept,) = store.seize(by="sweeper", lease_for=30)
    assert is_fenced_off(store, late)
    job = settle(store, swept, Retry(5), make_failure("crash"))
    assert job is not None
    assert (job.state, job.crashes, job.attempts) == (State.PENDING, 1, 1)
    assert is_fenced_off(store, late)


def test_seizing_after_a_settlement_takes_nothing(store: Store, clock: ManualClock) -> None:
    """F45, the other way round: the worker was first."""
    add_one(store, "a")
    late = claim_one(store, lease_for=60)
    clock.advance(61)
    settle(store, late)
    before = everything(store)
    assert store.seize(by="sweeper", lease_for=30) == []
    assert store.seize(by="sweeper", lease_for=30, holder="w1") == []
    assert everything(store) == before


def test_a_sweeper_whose_own_lease_ended_is_fenced_off_too(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    claim_one(store, lease_for=60)
    clock.advance(61)
    (first,) = store.seize(by="s1", lease_for=30)
    clock.advance(31)
    (second,) = store.seize(by="s2", lease_for=30)
    assert (second.lost_by, second.job.lease) == ("s1", 3)
    assert is_fenced_off(store, first)
    assert settle(store, second, DEAD, make_failure("crash")) is not None


def test_a_worker_that_slept_through_a_redrive_changes_nothing(
    store: Store, clock: ManualClock
) -> None:
    """Its lease ended, the job died, was driven again and runs elsewhere, attempt 1 again."""
    add_one(store, "a")
    late = claim_one(store, lease_for=60, holder="w1")
    clock.advance(61)
    (swept,) = store.seize(by="sweeper", lease_for=30)
    settle(store, swept, DEAD, make_failure("crash"))
    assert is_fenced_off(store, late)
    move(store, "retry", "a")
    assert is_fenced_off(store, late)
    running = claim_one(store, holder="w2")
    assert (running.job.attempts, late.job.attempts) == (1, 1)
    assert is_fenced_off(store, late)
    assert settle(store, running) is not None
    assert is_fenced_off(store, late)
    assert [attempt.outcome for attempt in history(store, "a")] == ["crashed", "done"]


def test_the_same_worker_cannot_settle_by_its_older_claim(store: Store, clock: ManualClock) -> None:
    """The holder alone is not enough: here it is the same for both claims."""
    add_one(store, "a")
    old = claim_one(store, holder="w1")
    fail(store, old)
    new = claim_one(store, holder="w1")
    assert is_fenced_off(store, old)
    assert settle(store, new) is not None


@pytest.mark.needs("files")
def test_a_worker_from_before_a_restored_backup_changes_nothing(place: Place) -> None:
    """The number alone is not enough: after the restore it repeats."""
    store = place.open()
    add_one(store, "a")
    place.copy()
    store = place.open()
    late = claim_one(store, holder="w1")
    store = place.restore()
    running = claim_one(store, holder="w2")
    assert running.job.lease == late.job.lease
    assert is_fenced_off(store, late)
    assert settle(store, running) is not None
    assert is_fenced_off(store, late)


@pytest.mark.parametrize("verb", ["resolve", "discard"])
def test_a_job_closed_while_it_ran_stays_closed(store: Store, verb: str) -> None:
    """One winner; the other sees the true state."""
    add_one(store, "a")
    taken = claim_one(store)
    moved = move(store, verb, "a")  # type: ignore[arg-type]
    assert [job.state for job in moved.done] == [State.RESOLVED]
    assert is_fenced_off(store, taken)


def test_a_job_that_completed_first_cannot_be_closed(store: Store) -> None:
    """F62, the other way round."""
    add_one(store, "a")
    settle(store, claim_one(store))
    moved = move(store, "discard", "a")
    assert moved.done == []
    ((job_id, why),) = moved.skipped
    assert job_id == "a"
    assert "completed" in why


def test_lease_numbers_never_go_back(store: Store, clock: ManualClock) -> None:
    """Over retries, releases, seizures, edits and fresh lives."""
    add_one(store, "a")
    seen = [0]

    def note_it() -> None:
        seen.append(get(store, "a").lease)

    fail(store, claim_one(store))
    note_it()
    settle(store, claim_one(store), Return())
    note_it()
    claim_one(store)
    clock.advance(100)
    (swept,) = store.seize(by="s", lease_for=9)
    note_it()
    settle(store, swept, DEAD, make_failure())
    move(store, "resolve", "a")
    move(store, "reopen", "a")
    move(store, "retry", "a")
    note_it()
    claim_one(store)
    note_it()
    assert seen == [0, 1, 2, 4, 4, 5]


def race(store: Store, other: Store, clock: ManualClock) -> None:
    """Workers settle while sweepers seize what has expired: each job has exactly one winner."""
    add(store, *(make_job() for _ in range(60)))
    taken = claim(store, limit=60, lease_for=10)
    clock.advance(11)

    def finish(part: int) -> list[str]:
        mine = taken[part::4]
        done = [settle(store, each) for each in mine]
        return [job.id for job in done if job is not None]

    def sweep(part: int) -> list[str]:
        swept = other.seize(by=f"s{part}", lease_for=1e6, limit=15)
        dead = other.settle([make_settlement(each, DEAD, make_failure("crash")) for each in swept])
        assert None not in dead
        return [each.job.id for each in swept]

    with ThreadPoolExecutor(8) as pool:
        sweeps = [pool.submit(sweep, n) for n in range(4)]
        ends = [pool.submit(finish, n) for n in range(4)]
        swept = [job_id for future in sweeps for job_id in future.result()]
        finished = [job_id for future in ends for job_id in future.result()]
    assert len(swept) + len(finished) == len({*swept, *finished}) == 60
    assert count(store, State.COMPLETED) == len(finished)
    assert count(store, State.DEAD) == len(swept)
    assert all(len(history(store, each.job.id)) == 1 for each in taken)


def test_sweepers_and_workers_racing_have_one_winner_a_job(
    store: Store, clock: ManualClock
) -> None:
    race(store, store, clock)


@pytest.mark.needs("shared")
def test_sweepers_in_another_process_and_workers_have_one_winner_a_job(place: Place) -> None:
    race(place.open(), place.open(), place.clock)
