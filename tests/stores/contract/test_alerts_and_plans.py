"""claim_alert and plans: small things that a store keeps for the desk and for alerts (F119)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kit import START
from redrive.errors import UsageError
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.stores.outbox_verbs import (
    ALERTS_KEPT,
    MOST_PLANNED,
    MOST_PLANS,
    PLAN_CHUNK,
    PLAN_LASTS,
    PlannedJob,
    StoredPlan,
)
from redrive.testing import ManualClock
from stores.contract.kinds import Place


def test_one_alert_in_so_many_seconds(store: Store, clock: ManualClock) -> None:
    assert store.alerts() == []
    assert store.claim_alert(7, "ops", "new", every=3600) is True
    assert store.claim_alert(7, "ops", "new", every=3600) is False
    clock.advance(3599)
    assert store.claim_alert(7, "ops", "new", every=3600) is False
    clock.advance(1)
    assert store.claim_alert(7, "ops", "new", every=3600) is True
    assert store.claim_alert(7, "ops", "new", every=3600) is False


def test_groups_channels_and_kinds_are_apart(store: Store, clock: ManualClock) -> None:
    assert store.claim_alert(7, "ops", "new", every=60, more={"thread": "t1"})
    clock.advance(1)
    assert store.claim_alert(8, "ops", "new", every=60)
    clock.advance(1)
    assert store.claim_alert(7, "mail", "new", every=60)
    clock.advance(1)
    assert store.claim_alert(7, "ops", "grows", every=60)
    assert [tuple(one)[:4] for one in store.alerts()] == [
        (7, "ops", "grows", START + 3),
        (7, "mail", "new", START + 2),
        (8, "ops", "new", START + 1),
        (7, "ops", "new", START),
    ]
    assert [one.group for one in store.alerts(8)] == [8]
    assert store.alerts(9) == []
    assert [dict(one.more) for one in store.alerts(7)] == [{}, {}, {"thread": "t1"}]
    clock.advance(60)
    assert store.claim_alert(7, "ops", "new", every=60, more={"thread": "t2"})
    assert dict(store.alerts(7)[0].more) == {"thread": "t2"}
    assert len(store.alerts()) == 4


def test_of_many_who_ask_at_once_one_may_send(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda _: store.claim_alert(1, "ops", "new", every=60), range(40))
        assert sum(asked) == 1


@pytest.mark.needs("shared")
def test_also_in_other_processes_and_after_a_kill(place: Place) -> None:
    stores = [place.open() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        asked = pool.map(lambda one: one.claim_alert(1, "ops", "new", every=60), stores * 5)
        assert sum(asked) == 1
    assert place.open().claim_alert(1, "ops", "new", every=60) is False


@pytest.mark.needs("persistent")
def test_alerts_survive_reopening(place: Place) -> None:
    store = place.open()
    store.claim_alert(1, "ops", "new", every=60, more={"n": 1})
    before = store.alerts()
    store = place.reopen()
    assert store.alerts() == before
    assert store.claim_alert(1, "ops", "new", every=60) is False


def test_purge_removes_old_alerts(store: Store, clock: ManualClock) -> None:
    store.claim_alert(1, "ops", "new", every=60)
    clock.advance(ALERTS_KEPT)
    store.claim_alert(2, "ops", "new", every=60)
    store.purge([])
    assert [one.group for one in store.alerts()] == [2, 1]
    clock.advance(1)
    store.purge([])
    assert [one.group for one in store.alerts()] == [2]


# Plans.


def planned(number: int) -> list[PlannedJob]:
    return [PlannedJob(f"j{n}", n, State.DEAD) for n in range(number)]


def put(store: Store, plan_id: str, *sizes: int) -> StoredPlan:
    plan = StoredPlan(id=plan_id, header={"verb": "retry", "of": [plan_id]})
    return store.put_plan(plan, (planned(size) for size in sizes))


def test_a_plan_is_given_back_for_ten_minutes(store: Store, clock: ManualClock) -> None:
    stored = put(store, "p1", 3, 1)
    assert (stored.created, stored.expires) == (START, START + PLAN_LASTS)
    assert store.plan("p1") == stored
    assert dict(stored.header) == {"verb": "retry", "of": ["p1"]}
    assert [store.plan_chunk("p1", n) for n in range(3)] == [planned(3), planned(1), []]
    assert store.plan_chunk("p1", 0)[2] == PlannedJob("j2", 2, State.DEAD)
    clock.advance(PLAN_LASTS - 1)
    assert store.plan("p1") == stored
    clock.advance(1)
    assert store.plan("p1") is None
    assert store.plan_chunk("p1", 0) == []


def test_a_plan_can_be_dropped(store: Store) -> None:
    put(store, "p1", 1)
    put(store, "p2", 1)
    store.drop_plan("p1")
    store.drop_plan("nobody")
    assert store.plan("p1") is None
    assert store.plan_chunk("p1", 0) == []
    assert store.plan("p2") is not None
    assert store.plan("nobody") is None


def test_the_oldest_beyond_twenty_go(store: Store, clock: ManualClock) -> None:
    for n in range(MOST_PLANS + 2):
        put(store, f"p{n:02}", 1)
        clock.advance(1)
    kept = [n for n in range(MOST_PLANS + 2) if store.plan(f"p{n:02}")]
    assert kept == list(range(2, MOST_PLANS + 2))
    assert store.plan_chunk("p00", 0) == []


def test_a_plan_that_is_too_large_stores_nothing(store: Store) -> None:
    chunks = MOST_PLANNED // PLAN_CHUNK
    with pytest.raises(UsageError):
        put(store, "p1", PLAN_CHUNK + 1)
    with pytest.raises(UsageError):
        put(store, "p2", *[PLAN_CHUNK] * chunks, 1)
    assert store.plan("p1") is None
    assert store.plan("p2") is None
    assert store.plan_chunk("p2", 0) == []
    put(store, "p3", *[PLAN_CHUNK] * chunks)
    assert len(store.plan_chunk("p3", chunks - 1)) == PLAN_CHUNK


def test_a_plan_whose_jobs_fail_to_come_stores_nothing(store: Store) -> None:
    def chunks() -> Iterator[list[PlannedJob]]:
        yield planned(2)
        raise KeyError

    with pytest.raises(KeyError):
        store.put_plan(StoredPlan(id="p1"), chunks())
    assert store.plan("p1") is None
    assert store.plan_chunk("p1", 0) == []
