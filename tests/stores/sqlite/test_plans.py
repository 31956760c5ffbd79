"""Each question goes along the index made for it, so none grows with the jobs it does not ask for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from kit import make_job
from redrive.jobs.job import Category, State
from redrive.stores.contract import PurgeRule, Query
from redrive.stores.sqlite import SqliteStore, searching
from redrive.stores.sqlite.tx import QUERIES
from stores.contract.verbs import add_one, bring_to, claim, find

DEAD = frozenset({State.DEAD})


def plans(store: SqliteStore, use: Callable[[], Any]) -> list[str]:
    """How SQLite goes about each statement on `jobs` that a call makes."""
    heard: list[str] = []
    connections = [store._file._writer, store._file._reader]
    for connection in connections:
        if connection is not None:
            connection.set_trace_callback(heard.append)
    use()
    for connection in connections:
        if connection is not None:
            connection.set_trace_callback(None)
    reader = store._file._reader
    assert reader is not None
    steps = [
        step[3]
        for statement in heard
        if re.match(r"\s*(SELECT|WITH)", statement)
        for step in reader.execute(f"EXPLAIN QUERY PLAN {statement}")
    ]
    return [step for step in steps if re.search(r"\b(jobs|j|k)\b", step)]


@pytest.fixture
def busy(store: SqliteStore) -> SqliteStore:
    """A store with a job of every state, and both connections open."""
    for state in State:
        bring_to(store, state, state.value)
    add_one(store, "x")
    return store


def test_a_claim_seeks_in_the_index_of_kinds_only(busy: SqliteStore) -> None:
    steps = plans(busy, lambda: claim(busy))
    assert steps
    searched = [step for step in steps if "PRIMARY KEY" not in step]
    assert all("INDEX jobs_by_kind (state=? AND suspect=?" in step for step in searched)
    assert not any(step.startswith("SCAN jobs") for step in steps)


def test_counts_read_the_indexes_of_kinds_and_of_deaths_only(busy: SqliteStore) -> None:
    steps = plans(busy, busy.counts)
    seeks = ("PRIMARY KEY", "running_jobs (state=?)", "dead_by_death (lane=? AND handler=?")
    kinds = [step for step in steps if not any(seek in step for seek in seeks)]
    assert kinds
    assert all("COVERING INDEX jobs_by_kind" in step for step in kinds)
    assert len(kinds) < len(steps)
    assert any("category=?)" in step for step in steps)


@pytest.mark.parametrize(
    "query",
    [
        Query(handler="mail"),
        Query(lane="m"),
        Query(category=Category.AUTH),
        Query(group=1),
        Query(older_than=5),
    ],
)
def test_groups_of_dead_jobs_read_their_index_only(busy: SqliteStore, query: Query) -> None:
    steps = plans(busy, lambda: busy.groups(query))
    assert len(steps) == 1
    assert "COVERING INDEX jobs_by_cause" in steps[0]


def test_groups_of_all_dead_jobs_are_counted_by_seeks(busy: SqliteStore) -> None:
    steps = [
        step
        for step in plans(busy, lambda: busy.groups(Query()))
        if " jobs " in step or " j " in step
    ]
    assert any("COVERING INDEX jobs_by_cause (cause=? AND state=?)" in step for step in steps)
    assert any("state=? AND handler=? AND category<?)" in step for step in steps)
    assert not [step for step in steps if step.startswith("SCAN") and "USING" not in step]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (Query(), "jobs_by_id"),
        (Query(states=DEAD), "dead_by_id"),
        (Query(states=DEAD, by_change=True), "dead_by_change"),
        (Query(states=frozenset({State.RESOLVED})), "jobs_by_kind (state=?"),
        (Query(states=frozenset({State.COMPLETED}), by_change=True), "jobs_by_kind (state=?"),
        (Query(states=frozenset({State.RUNNING})), "running_jobs"),
        (Query(states=DEAD, group=1), "jobs_by_cause (cause=?"),
        (Query(group=1, by_change=True), "jobs_by_cause (cause=?"),
        (Query(event="x"), "jobs_by_event (event=?"),
        (Query(action=1), "jobs_by_action (action=?"),
        (Query(ids=("x",), states=DEAD), "jobs_by_id (id=?"),
        (Query(prefix="x", states=DEAD), "jobs_by_id (id>? AND id<?"),
        (Query(key="x", states=DEAD), "jobs_by_key (key=?"),
        (Query(run=1, states=DEAD), "jobs_by_run (run=?"),
    ],
)
def test_a_list_goes_along_the_index_that_serves_it(
    busy: SqliteStore, query: Query, index: str
) -> None:
    steps = plans(busy, lambda: busy.find(query))
    assert any(f"INDEX {index}" in step for step in steps), steps


def test_many_jobs_of_a_state_are_listed_in_the_order_of_ids(
    busy: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorting them all for one page would take as long as there are many."""
    monkeypatch.setattr(searching, "FEW", 2)
    steps = plans(busy, lambda: find(busy, states=frozenset({State.PENDING})))
    assert any("SCAN j USING INDEX jobs_by_id" in step for step in steps)
    assert not any("TEMP" in step for step in steps)


def test_jobs_are_looked_up_by_id_and_sweeps_look_at_running_jobs_only(
    busy: SqliteStore,
) -> None:
    steps = plans(busy, lambda: claim(busy, only=["x"]))
    assert any("jobs_by_id (id=?)" in step for step in steps)
    assert any(
        "INDEX running_jobs (state=?)" in step
        for step in plans(busy, lambda: busy.seize(by="s", lease_for=5))
    )


def test_a_purge_seeks_by_kind_and_time(busy: SqliteStore) -> None:
    rule = PurgeRule(state=State.COMPLETED, older_than=-1)
    steps = plans(busy, lambda: busy.purge([rule]))
    assert any("category=? AND at<?)" in step for step in steps)


def test_a_claim_is_planned_once_and_not_for_every_value(busy: SqliteStore) -> None:
    """A bound state in question for a partial index makes SQLite compile the statement anew."""
    reader = busy._file._reader
    assert reader is not None
    for name in ("kinds", "first_of_kind", "count_kind", "over"):
        assert not re.search(r"state = \?", QUERIES[name]), name


def test_kinds_are_found_by_jumping_over_their_jobs(store: SqliteStore) -> None:
    lanes = [("a", "x"), ("a", "y"), ("b", "x"), ("c", "z")]
    jobs = [make_job(lane=lane, handler=handler) for lane, handler in lanes for _ in range(30)]
    store.add(jobs)
    found = store._file.read(lambda tx: tx.all("kinds", ("pending", 0)))
    assert [(lane, handler) for lane, handler, _, _ in found] == lanes
