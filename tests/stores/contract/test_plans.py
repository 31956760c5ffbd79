"""Plans: what a store keeps for the desk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit import START
from redrive.errors import UsageError
from redrive.jobs.job import State
from redrive.stores.contract import Store
from redrive.stores.outbox_verbs import (
    MOST_PLANNED,
    MOST_PLANS,
    PLAN_CHUNK,
    PLAN_LASTS,
    PlannedJob,
    StoredPlan,
)
from redrive.testing import ManualClock


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
