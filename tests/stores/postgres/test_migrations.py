"""Migrating a store of 1ad7865: all of it or nothing, only when asked to, and what stood around it (T7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgkit
from redrive.desk import backend
from redrive.errors import StoreMissing, StoreOutdated, UsageError
from redrive.jobs.job import State
from redrive.jobs.transitions import action_changes, changed
from redrive.stores import open_store
from redrive.stores.contract import Query
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.tx import PostgresTx
from stores.contract.verbs import add_one

Opener = Callable[..., PostgresStore]
DUMP = Path(__file__).parents[1] / "upgrade" / "stores" / "store.sql"
JOBS = 25
STUBS = ["add_job", "add_jobs", "claim_jobs", "finish_jobs", "fail_jobs", "to_change", "lost_jobs"]


@pytest.fixture
def old() -> Iterator[str]:
    """The URL of a store of version 1."""
    url = pgkit.loaded(DUMP)
    yield url
    pgkit.drop(schema_of(url))


def schema_of(url: str) -> str:
    return url.rpartition("schema=")[2]


def versions(url: str, other: psycopg.Connection[Any]) -> list[int]:
    query = f'SELECT version FROM "{schema_of(url)}".redrive_migrations ORDER BY version'
    return [version for (version,) in other.execute(query.encode()).fetchall()]


def test_only_migrate_changes_an_older_store_that_has_jobs(
    old: str, other: psycopg.Connection[Any]
) -> None:
    for options in ({}, {"create": False}, {"read_only": True}):
        with pytest.raises(
            StoreOutdated, match=r"has schema 1; this Redrive needs 2.*`redrive migrate --store"
        ):
            open_store(old, **options)
    assert versions(old, other) == [1]
    assert backend.migrate(old, None) == (old, ["0002_states"])
    assert versions(old, other) == [1, 2]
    assert backend.migrate(old, None) == (old, [])
    store = open_store(old)
    assert store.verify().jobs == JOBS
    store.close()


def test_an_older_store_without_jobs_is_brought_up_to_date_when_it_is_opened(
    old: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    for table in ("jobs", "payloads", "ready", "leases", "attempts"):
        other.execute(f'DELETE FROM "{schema_of(old)}".{table}'.encode())
    with pytest.raises(StoreOutdated):
        opener(old, read_only=True)
    assert add_one(opener(old), "a").is_new
    assert versions(old, other) == [1, 2]


def test_there_must_be_a_store_to_migrate(fresh: str) -> None:
    with pytest.raises(StoreMissing):
        backend.migrate(pgkit.url_of(fresh), None)


class Killed(BaseException):
    """The program is gone, and so is its session."""


def test_a_migration_that_is_killed_at_any_statement_can_be_run_again(
    old: str, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = 0

    def killing(run: Callable[..., Any]) -> Callable[..., Any]:
        def step(tx: PostgresTx, *args: Any) -> Any:
            nonlocal left
            answer = run(tx, *args)
            left -= 1
            if left == 0:
                pid = tx._cursor.connection.info.backend_pid
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
                raise Killed
            return answer

        return step

    monkeypatch.setattr(PostgresTx, "_execute", killing(PostgresTx._execute))
    monkeypatch.setattr(PostgresTx, "script", killing(PostgresTx.script))
    kills = 0
    while versions(old, other) == [1]:
        kills += 1
        left = kills
        try:
            backend.migrate(old, None)
        except Killed:
            continue
    assert kills > 10
    left = 0
    store = open_store(old)
    assert (store.verify().jobs, store.verify().problems) == (JOBS, [])
    store.close()


def test_a_session_that_is_ended_by_the_server_begins_the_migration_anew(
    old: str, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, ended = PostgresTx.script, []

    def end_once(tx: PostgresTx, text: str) -> None:
        if "INSERT INTO" in text and not ended:
            ended.append(tx._cursor.connection.info.backend_pid)
            other.execute("SELECT pg_terminate_backend(%s, 5000)", (ended[0],))
        script(tx, text)

    monkeypatch.setattr(PostgresTx, "script", end_once)
    assert backend.migrate(old, None) == (old, ["0002_states"])
    assert ended


def test_tables_and_sequences_of_another_program_keep_their_names(
    old: str, other: psycopg.Connection[Any]
) -> None:
    orders = f"{schema_of(old)}.orders"
    other.execute(f"CREATE TABLE {orders} (n serial)".encode())
    other.execute(f"INSERT INTO {orders} DEFAULT VALUES".encode())
    backend.migrate(old, None)
    other.execute(f"INSERT INTO {orders} DEFAULT VALUES".encode())
    rows = other.execute(f"SELECT n, nextval('{orders}_n_seq') FROM {orders}".encode()).fetchall()
    assert [n for n, _ in rows] == [1, 2]


@pytest.mark.parametrize(
    "odd",
    [
        r"""UPDATE {}.attempts SET record = replace(record, '"why":"', '"why":"\u0000\ud800')""",
        "UPDATE {}.attempts SET record = 'oops'",
        "UPDATE {}.jobs SET finished = 1e308, updated = 1e308 WHERE state = 'dead'",
        "UPDATE {}.jobs SET finished = 'infinity' WHERE state = 'dead'",
        "INSERT INTO {}.notes VALUES ('group:' || repeat('9', 5000), '{{}}', 99, NULL)",
        "UPDATE {}.notes SET value = '{{\"resolved\": 1e999}}' WHERE name = 'group:1'",
    ],
)
def test_odd_content_does_not_stop_a_migration(
    old: str, other: psycopg.Connection[Any], odd: str
) -> None:
    other.execute(odd.format(schema_of(old)).encode())
    backend.migrate(old, None)
    store = open_store(old)
    assert store.verify().jobs == JOBS
    assert store.fold()
    store.close()


def test_a_view_of_the_users_own_over_old_tables_stops_it_and_is_named(
    old: str, other: psycopg.Connection[Any]
) -> None:
    schema = schema_of(old)
    other.execute(f'CREATE VIEW "{schema}".mine AS SELECT id FROM "{schema}".jobs'.encode())
    with pytest.raises(UsageError, match=r"mine.*Nothing was changed"):
        backend.migrate(old, None)
    assert versions(old, other) == [1]


def test_the_queue_view_survives_with_its_rows_and_retries_as_the_store_does(
    old: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    view = f'"{schema_of(old)}".mail_queue'
    rows = f"SELECT * FROM {view} ORDER BY job_id".encode()
    before = other.execute(rows).fetchall()
    other.execute(f"GRANT SELECT ON {view} TO PUBLIC".encode())
    backend.migrate(old, None)
    assert other.execute(rows).fetchall() == before
    grants = f"SELECT has_table_privilege('pg_monitor', '{view}', 'SELECT')"
    assert other.execute(grants.encode()).fetchone() == (True,)
    store = opener(old, clock=None)
    dead = store.find(Query(states=frozenset({State.DEAD}), handler="mail", limit=100)).jobs
    assert dead
    for job in dead:
        done = other.execute(
            f"UPDATE {view} SET status = 'pending' WHERE job_id = %s".encode(), (job.id,)
        )
        assert done.rowcount == 1
        found = store.find(Query(ids=(job.id,))).jobs[0]
        by_store = changed(
            job, action_changes(job, "retry", actor="", reason="", now=found.updated)
        ).job
        assert {**found.__dict__, "_row": 0} == {**by_store.__dict__, "_row": 0}
    assert store.verify().problems == []


@pytest.mark.parametrize("name", STUBS)
def test_a_worker_of_the_old_version_is_told_which_side_is_newer(
    old: str, other: psycopg.Connection[Any], name: str
) -> None:
    """F33."""
    backend.migrate(old, None)
    row = other.execute(
        "SELECT pronargs FROM pg_proc WHERE proname = %s AND pronamespace = to_regnamespace(%s)",
        (name, schema_of(old)),
    ).fetchone()
    nulls = ", ".join(["NULL"] * (row[0] if row else 0))
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="newer Redrive"):
        other.execute(f'SELECT * FROM "{schema_of(old)}".{name}({nulls})'.encode())
    assert other.execute(f'SELECT * FROM "{schema_of(old)}".whole'.encode()).fetchall() == []
