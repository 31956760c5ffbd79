"""Each question goes along the index made for it, so none grows with the jobs it does not ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_failure, make_job
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.tx import PostgresTx
from stores.contract.verbs import add_one, bring_to, claim

DEAD = frozenset({State.DEAD})
MANY = 3000
TABLES = ("jobs", "open", "ended")


@pytest.fixture
def busy(store: PostgresStore, other: psycopg.Connection[Any]) -> PostgresStore:
    """A store with enough of every state that the planner has reason to choose."""
    for state in State:
        bring_to(store, state, state.value)
    add_one(store, "x", key="k", run=1)
    schema = store._database.address.schema
    leave_alone(other, schema)
    ended = ("completed", "dead", "resolved")
    old = [
        make_job(
            f"{state}{n}",
            state=State(state),
            finished=1e9 + n,
            updated=1e9 + n,
            failure=make_failure(cause=f"c{n % 50}") if state == "dead" else None,
        )
        for state in ended
        for n in range(MANY)
    ]
    store.add(old)
    store.add([make_job(f"p{n}", due=2e9 + n) for n in range(MANY)])
    for table in TABLES:
        other.execute(f'VACUUM ANALYZE "{schema}".{table}')
    return store


def leave_alone(other: psycopg.Connection[Any], schema: str) -> None:
    """Let nobody take statistics but the test: at another moment they give other plans."""
    for table in TABLES:
        other.execute(f'ALTER TABLE "{schema}".{table} SET (autovacuum_enabled = off)')


@contextmanager
def explained(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The plans of all statements that are run meanwhile."""
    plans: list[str] = []
    execute = PostgresTx._execute

    def explain(tx: PostgresTx, text: bytes, args: Any) -> Any:
        lines = execute(tx, b"EXPLAIN " + text, args).fetchall()
        plans.append("\n".join(line for (line,) in lines))
        return execute(tx, text, args)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresTx, "_execute", explain)
        yield plans


WAY = re.compile(r"(?:\w+ )*Scan[^\n]* on (?:jobs|open|ended)\w*\b[^\n]*(?:\n\s+\w+ Cond: [^\n]*)?")


def steps(plans: list[str]) -> list[str]:
    """Each way in which a table is gone into, with what is looked for there."""
    found = WAY.findall("\n".join(plans))
    return [" ".join(step.split()) for step in found if not step.startswith("Bitmap Heap")]


def plans_of(monkeypatch: pytest.MonkeyPatch, use: Callable[[], Any]) -> list[str]:
    with explained(monkeypatch) as plans:
        use()
    return plans


def plan_of(monkeypatch: pytest.MonkeyPatch, use: Callable[[], Any]) -> list[str]:
    found = steps(plans_of(monkeypatch, use))
    assert found
    return found


def touched(
    other: psycopg.Connection[Any], schema: str, call: str, *, times: int = 7
) -> dict[str, tuple[int, int]]:
    """How often a function goes through a whole table, and how many rows it reads by index.

    It is called so often that its plans are those for all arguments, as in a worker's session.
    """
    with other.transaction(force_rollback=True):
        for _ in range(times):
            other.execute(f'SELECT FROM "{schema}".{call}'.encode())
        before = _scans(other, schema)
        other.execute(f'SELECT FROM "{schema}".{call}'.encode())
        after = _scans(other, schema)
    return {
        name: (seq - before.get(name, (0, 0))[0], rows - before.get(name, (0, 0))[1])
        for name, (seq, rows) in after.items()
    }


def _scans(other: psycopg.Connection[Any], schema: str) -> dict[str, tuple[int, int]]:
    rows = other.execute(
        "SELECT relname, seq_scan, coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables"
        " WHERE schemaname = %s",
        (schema,),
    ).fetchall()
    return {name: (seq, read) for name, seq, read in rows}


CLAIM = "lease_jobs(9, 0::smallint, ARRAY['mail', 'x'], NULL, NULL, true, false, '{}', 2, 'w', 9, 'c', 1)"


@pytest.fixture
def misjudged(store: PostgresStore, other: psycopg.Connection[Any]) -> PostgresStore:
    """A store whose statistics were taken before a large submit ended, and say: there is nothing."""
    schema = store._database.address.schema
    bring_to(store, State.RUNNING, "running")
    for name in ("x", "v", "w"):  # of one row alone they say less that is wrong
        add_one(store, name)
    jobs = [make_job(f"p{n}", due=2e9 + n) for n in range(MANY)]
    jobs += [make_job(f"y{n}", handler="x", due=2e9 + n) for n in range(MANY)]
    leave_alone(other, schema)
    with pgkit.connect() as third, other.transaction():
        store.add(jobs, within=other)
        third.execute(f'ANALYZE "{schema}".open, "{schema}".jobs')
    return store


def test_a_claim_reads_little_more_than_it_takes_whatever_the_statistics_say(
    misjudged: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    schema = misjudged._database.address.schema
    found = touched(other, schema, CLAIM)
    assert not [name for name, (whole, _) in found.items() if whole], found
    assert 0 < found["open"][1] < 100, found
    assert found["jobs"][1] < 50, found


ENDS = (
    "settle_jobs(9, ARRAY[['w'], ['{state}'], [''], [NULL], ['mail'], ['{{}}']],"
    " ARRAY[[{number}], [{lease}], [NULL], [5], [1], [0], [1]]::int8[],"
    ' ARRAY[[{since!r}], [1], [1], [NULL]]::float8[], \'{{"ticks":[{{"at":1,"counts":"{{}}"}}]}}\')'
)


@pytest.mark.parametrize("state", ["completed", "pending", "dead"])
def test_an_end_reads_little_more_than_it_writes(
    misjudged: PostgresStore, state: str, other: psycopg.Connection[Any]
) -> None:
    schema = misjudged._database.address.schema
    (job,) = (each.job for each in claim(misjudged, holder="w") if each.job.id == "x")
    number = job.__dict__["_row"]
    call = ENDS.format(number=number, lease=job.lease, since=job.updated, state=state)
    found = touched(other, schema, call, times=0)
    assert not [name for name, (whole, _) in found.items() if whole], found
    assert 0 < found["open"][1] < 5, found


def test_counts_read_the_indexes_of_kinds_and_of_deaths_only(
    busy: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = plan_of(monkeypatch, busy.counts)
    ended = [step for step in found if "ended" in step and "using dead_by_death" not in step]
    assert len(ended) == len([step for step in found if "ended" in step]) - 1
    assert all("Index Only Scan using ended_by_kind" in step for step in ended), found


def test_groups_of_dead_jobs_read_their_index_only(
    busy: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with explained(monkeypatch) as plans:
        busy.groups(Query())
    assert all("Index Only Scan using ended_by_cause" in step for step in steps(plans)), plans
    assert not [plan for plan in plans if "HashAggregate" in plan or "Sort" in plan], plans


LISTS = {
    "Backward using jobs_by_id": Query(limit=10),
    "Backward using rest_by_change": Query(states=DEAD, by_change=True, limit=10),
    "Backward using rest_by_id": Query(states=DEAD, limit=10),
    "Index Only Scan using ended_by_cause": Query(states=DEAD, group=1, limit=10),
    "open_held": Query(states=frozenset({State.RUNNING}), limit=10),
    "jobs_by_key": Query(key="x", states=DEAD),
    "ended_by_run": Query(run=1, states=DEAD),
}


def test_a_list_goes_along_the_index_that_serves_it(
    busy: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for index, query in LISTS.items():
        found = plan_of(monkeypatch, lambda query=query: busy.find(query))
        assert any(index in step for step in found), found
        assert not [step for step in found if "Seq Scan" in step]
