"""deaths: when the jobs died that are dead now, in all and by cause."""

from __future__ import annotations

from kit import START, make_failure, make_job
from redrive.jobs.job import Job, Reason, State
from redrive.stores.contract import Query, Store
from redrive.testing import ManualClock
from stores.contract.verbs import add, move


def dead(name: str, at: float, cause: str, handler: str, category: str = "transient") -> Job:
    return make_job(
        name, handler=handler, state=State.DEAD, reason=Reason.EXHAUSTED, updated=at, finished=at,
        failure=make_failure(category, cause=cause), spent={category: 1},
    )  # fmt: skip


def test_an_empty_store_has_no_deaths(store: Store) -> None:
    assert store.deaths(60, 3) == {0: [0, 0, 0]}
    assert store.deaths(60, 2, groups=[7]) == {7: [0, 0]}
    assert store.deaths(60, 2, groups=[]) == {}


def test_deaths_are_counted_by_span_and_by_cause(store: Store, clock: ManualClock) -> None:
    now = clock.now()
    add(
        store,
        dead("1", now, "a", "mail"),
        dead("2", now - 59, "a", "mail", "auth"),
        dead("3", now - 60, "a", "pay"),  # a span is open at its beginning, closed at its end
        dead("4", now - 179, "a", "pay", "auth"),
        dead("5", now - 180, "a", "mail"),
        dead("6", now - 61, "b", "mail"),
        dead("7", now - 61, "b", "mail"),
        make_job("8", updated=now),
    )
    assert store.deaths(60, 3) == {0: [1, 3, 2]}
    numbers = {group.title[-1]: group.number for group in store.groups(Query())}
    a, b = numbers["a"], numbers["b"]
    assert store.deaths(60, 3, groups=[a, b]) == {a: [1, 1, 2], b: [0, 2, 0]}
    assert store.deaths(60, 1, groups=[b]) == {b: [0]}


def test_who_is_no_longer_dead_does_not_count(store: Store, clock: ManualClock) -> None:
    add(store, dead("1", clock.now(), "a", "mail"), dead("2", START - 5, "a", "mail"))
    move(store, "retry", "1")
    assert store.deaths(60, 1) == {0: [1]}
