"""claim: what is due, in order, once, and nothing that is paused, unknown or suspect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit import START, make_failure, make_job
from redrive.jobs.job import Retry, Return, State
from redrive.stores.contract import ALONE, Store
from redrive.stores.note_verbs import PAUSE
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import (
    add,
    add_one,
    bare,
    bring_to,
    claim,
    claim_one,
    count,
    fail,
    find,
    get,
    ids,
    move,
    settle,
)


def test_a_claim_leases_the_job_and_counts_the_attempt(store: Store, clock: ManualClock) -> None:
    """Counted before the handler starts."""
    added = add_one(store, "a", payload='{"x":1}')
    clock.advance(3)
    claimed = claim_one(store, holder="w7")
    assert claimed.lost_by is None
    job = claimed.job
    assert (job.state, job.attempts, job.lease, job.holder) == (State.RUNNING, 1, 1, "w7")
    assert (job.payload, job.updated, job.due) == ('{"x":1}', clock.now(), added.due)
    assert job.lease_end is not None
    assert bare(get(store, "a")) == bare(job)


def test_due_jobs_come_earliest_first(store: Store, clock: ManualClock) -> None:
    dues = {"c": 3.0, "a": 1.0, "d": 4.0, "b": 2.0}
    add(store, *(make_job(name, due=START + due) for name, due in dues.items()))
    clock.advance(10)
    assert ids(claim(store, limit=3)) == ["a", "b", "c"]
    assert ids(claim(store, limit=3)) == ["d"]


def test_due_order_holds_over_lanes_and_handlers(store: Store, clock: ManualClock) -> None:
    add(
        store,
        make_job("1", handler="mail", due=START + 4),
        make_job("2", handler="sms", due=START + 1),
        make_job("3", handler="mail", lane="slow", due=START + 2),
        make_job("4", handler="sms", lane="slow", due=START + 3),
    )
    clock.advance(10)
    assert ids(claim(store, "mail", "sms", limit=3)) == ["2", "3", "4"]


def test_due_order_holds_over_jobs_that_failed_in_different_ways(
    store: Store, clock: ManualClock
) -> None:
    categories = ["unknown", "quota", "transient", "auth"]
    add(store, *(make_job(category) for category in categories))
    for n, category in enumerate(categories):
        fail(store, claim_one(store, only=[category]), category, delay=n + 1)
    add(store, make_job("fresh", due=START + 2.5), make_job("last", lane="z", due=START + 9))
    clock.advance(10)
    assert ids(claim(store, limit=3)) == ["unknown", "quota", "fresh"]
    assert ids(claim(store)) == ["transient", "auth", "last"]


def test_jobs_are_not_claimed_before_they_are_due(store: Store, clock: ManualClock) -> None:
    add_one(store, "a", due=START + 10)
    clock.advance(9.999)
    assert claim(store) == []
    clock.advance(0.001)
    assert ids(claim(store)) == ["a"]


def test_a_delay_is_counted_by_the_stores_own_clock(store: Store, clock: ManualClock) -> None:
    add_one(store, "a")
    fail(store, claim_one(store), delay=30)
    assert get(store, "a").due == clock.now() + 30
    clock.advance(29)
    assert claim(store) == []
    clock.advance(1)
    assert claim_one(store).job.attempts == 2


@pytest.mark.parametrize("limit", [0, 1, 7, 50])
def test_never_more_than_the_limit(store: Store, limit: int) -> None:
    add(store, *(make_job(handler=f"h{n % 3}", lane=f"l{n % 2}") for n in range(20)))
    taken = claim(store, "h0", "h1", "h2", limit=limit)
    assert len(taken) == min(limit, 20)
    assert count(store, State.RUNNING) == len(taken)


def test_only_known_handlers_are_claimed(store: Store) -> None:
    add(store, make_job("1", handler="mail"), make_job("2", handler="mail2"), make_job("3"))
    assert ids(claim(store, "mail2", "other")) == ["2"]
    assert store.claim([], limit=5, holder="w", lease_for=5) == []
    assert sorted(ids(claim(store, "mail"))) == ["1", "3"]


def test_with_lanes_all_others_are_left_out(store: Store) -> None:
    add(store, *(make_job(lane, lane=lane) for lane in ("a", "b", "c")))
    assert sorted(ids(claim(store, lanes=["a", "c", "nowhere"]))) == ["a", "c"]
    assert claim(store, lanes=[]) == []
    assert ids(claim(store)) == ["b"]


def test_only_names_the_ids_that_come_into_question(store: Store) -> None:
    add(store, *(make_job(name) for name in "abcd"), make_job("e", due=START + 99))
    assert sorted(ids(claim(store, only=["b", "d", "e", "nobody"]))) == ["b", "d"]
    assert claim(store, only=["b"]) == []
    assert claim(store, only=[]) == []
    assert ids(claim(store, only=["a", "c"], limit=1))[0] in {"a", "c"}


@pytest.mark.parametrize("state", [s for s in State if s is not State.PENDING])
def test_only_pending_jobs_are_claimed(store: Store, state: State) -> None:
    bring_to(store, state, "a")
    assert claim(store, holder="w2", ignore_waits=True) == []


def test_a_job_that_crashed_is_left_out_unless_suspects_are_asked_for(store: Store) -> None:
    """It must run alone."""
    add(store, make_job("bad"), make_job("good"))
    bad = claim_one(store, only=["bad"])
    fail(store, bad, "crash")
    assert ids(claim(store)) == ["good"]
    suspects = claim(store, suspects=True, limit=1)
    assert ids(suspects) == ["bad"]
    assert suspects[0].job.crashes == 1


def test_asking_for_suspects_gives_suspects_only(store: Store) -> None:
    add(store, make_job("good"), make_job("bad", crashes=1), make_job("later", crashes=1, due=9e9))
    assert ids(claim(store, suspects=True)) == ["bad"]


def test_suspects_are_given_one_after_the_other(store: Store, clock: ManualClock) -> None:
    """One that kills every process takes no other suspect with it, time and again."""
    add(store, *(make_job(name, crashes=1) for name in "abcd"), make_job("good"))
    first = claim_one(store, suspects=True, limit=1)
    assert claim(store, suspects=True, holder="w2") == []
    assert ids(claim(store, holder="w2")) == ["good"], "of others as many as there are"
    settle(store, first)
    second = claim_one(store, suspects=True, holder="w2", limit=1)
    clock.advance(ALONE - 0.1)
    assert claim(store, suspects=True) == [], "it was claimed a moment ago, and runs"
    clock.advance(0.2)
    third = claim_one(store, suspects=True, limit=1)
    assert len({first.job.id, second.job.id, third.job.id}) == 3, "one that runs for long is no bar"


def test_who_asks_for_certain_suspects_gets_them(store: Store) -> None:
    add(store, *(make_job(name, crashes=1) for name in "abc"))
    assert ids(claim(store, suspects=True, only=["a"])) == ["a"]
    assert ids(claim(store, suspects=True, only=["b"])) == ["b"]
    assert claim(store, suspects=True) == []
    assert ids(claim(store, suspects=True, ignore_waits=True)) == ["c"]


def test_a_clock_that_was_set_back_keeps_no_suspect_waiting(
    store: Store, clock: ManualClock
) -> None:
    add(store, *(make_job(name, crashes=1, due=START - 200) for name in "ab"))
    claim_one(store, suspects=True, limit=1)
    clock.jump(-100)
    assert len(claim(store, suspects=True)) == 1


def test_a_fresh_life_is_no_suspect(store: Store) -> None:
    """Crashes start at 0 again."""
    bring_to(store, State.DEAD, "a", crashes=0)
    move(store, "retry", "a")
    fail(store, claim_one(store), "crash")
    settle(store, claim_one(store, suspects=True), Retry(0), make_failure("crash"))
    move(store, "resolve", "a")
    move(store, "retry", "a")
    assert ids(claim(store)) == ["a"]


def test_a_live_pause_keeps_its_lane_from_being_claimed(store: Store, clock: ManualClock) -> None:
    add(store, make_job("1", lane="red"), make_job("2", lane="blue"))
    store.note(PAUSE + "red", "{}", expires_in=50)
    assert ids(claim(store)) == ["2"]
    assert claim(store, lanes=["red"]) == []
    assert claim(store, only=["1"]) == []
    clock.advance(49)
    assert claim(store) == []
    clock.advance(2)
    assert ids(claim(store)) == ["1"]


def test_a_pause_without_an_end_lasts_until_it_is_removed(store: Store, clock: ManualClock) -> None:
    add(store, make_job("1", lane="red"))
    store.note(PAUSE + "red", "")
    clock.advance(1e6)
    assert claim(store) == []
    store.note(PAUSE + "red", None)
    assert ids(claim(store)) == ["1"]


def test_pauses_match_a_lanes_whole_name(store: Store) -> None:
    lanes = ["red", "red2", "re", "RED", "http:red", "r%d", "r_d"]
    add(store, *(make_job(lane, lane=lane) for lane in lanes))
    store.note(PAUSE + "red", "x")
    store.note(PAUSE + "r%d", "x")
    store.note("other:red2", "x")
    assert sorted(ids(claim(store))) == sorted(set(lanes) - {"red", "r%d"})


def test_a_pause_of_a_lane_does_not_bind_the_handler_of_the_same_name(store: Store) -> None:
    add(store, make_job("1", handler="mail", lane="slow"))
    store.note(PAUSE + "mail", "x")
    assert ids(claim(store, "mail")) == ["1"]


def test_leased_jobs_of_a_paused_lane_finish_and_none_is_claimed(store: Store) -> None:
    add(store, make_job("1"), make_job("2"))
    taken = claim_one(store)
    store.note(PAUSE + "mail", "x")
    assert store.renew([taken], lease_for=60) == [True]
    assert settle(store, taken) is not None
    assert claim(store) == []


def test_ignore_waits_takes_pending_jobs_whatever_their_due_time_and_pauses(
    store: Store,
) -> None:
    add(
        store,
        make_job("1", due=START + 1000),
        make_job("2", lane="red", due=START + 10),
        make_job("3"),
        make_job("4", handler="unknown"),
        make_job("5", crashes=1),
    )
    store.note(PAUSE + "red", "x")
    assert ids(claim(store, ignore_waits=True)) == ["3", "2", "1"]


def test_past_pauses_takes_due_jobs_of_a_paused_lane_and_no_others(store: Store) -> None:
    """How a probe goes through."""
    add(store, make_job("1", lane="red"), make_job("2", lane="red", due=START + 60))
    store.note(PAUSE + "red", "x")
    assert claim(store, lanes=["red"]) == []
    assert ids(claim(store, lanes=["red"], past_pauses=True)) == ["1"]
    assert claim(store, past_pauses=True) == []


def test_ignore_waits_still_obeys_limit_lanes_and_suspects(store: Store) -> None:
    add(
        store,
        make_job("1", lane="red", due=START + 30),
        make_job("2", lane="red", due=START + 20),
        make_job("3", lane="blue"),
        make_job("4", lane="red", crashes=1, due=START + 10),
    )
    assert ids(claim(store, ignore_waits=True, lanes=["red"], limit=1)) == ["2"]
    assert ids(claim(store, ignore_waits=True, suspects=True)) == ["4"]


def test_every_claim_has_a_new_lease_number(store: Store) -> None:
    add_one(store, "a")
    numbers = []
    for verdict in (Return(), Retry(0), Return(), Retry(0)):
        claimed = claim_one(store)
        numbers.append(claimed.job.lease)
        settle(store, claimed, verdict, make_failure() if isinstance(verdict, Retry) else None)
    assert numbers == [1, 2, 3, 4]
    assert get(store, "a").attempts == 2


def test_two_claimers_never_share_a_job(store: Store) -> None:
    add(store, *(make_job() for _ in range(10)))
    first, second = claim(store, limit=6, holder="a"), claim(store, limit=6, holder="b")
    assert (len(first), len(second)) == (6, 4)
    assert not set(ids(first)) & set(ids(second))
    assert claim(store, holder="c") == []


def race_for_all(stores: list[Store], total: int) -> None:
    """Let eight threads claim and settle until nothing is left; each job must run exactly once."""

    def work(n: int) -> list[str]:
        store, mine = stores[n % len(stores)], []
        while taken := claim(store, limit=3, holder=f"w{n}"):
            mine += ids(taken)
            assert all(settle(store, each) is not None for each in taken)
        return mine

    with ThreadPoolExecutor(8) as pool:
        shares = list(pool.map(work, range(8)))
    everyone = [job_id for share in shares for job_id in share]
    assert len(everyone) == len(set(everyone)) == total
    assert count(stores[0], State.COMPLETED) == total


def test_eight_threads_claim_every_job_once(store: Store) -> None:
    add(store, *(make_job() for _ in range(100)))
    race_for_all([store], 100)


@pytest.mark.needs("shared")
def test_eight_threads_over_three_store_objects_claim_every_job_once(place: Place) -> None:
    """As different processes would."""
    stores = [place.open() for _ in range(3)]
    add(stores[0], *(make_job() for _ in range(60)))
    race_for_all(stores, 60)


def test_a_claimed_job_shows_as_running_in_find(store: Store) -> None:
    add_one(store, "a")
    claimed = claim_one(store)
    (shown,) = find(store, states=frozenset({State.RUNNING})).jobs
    assert shown == replace(claimed.job, history=())
