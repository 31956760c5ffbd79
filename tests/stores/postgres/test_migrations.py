"""Migrations: each step with its record or not at all; older and newer programs side by side (T7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest

import pgkit
from redrive.errors import StoreError, StoreForeign
from redrive.jobs.job import State
from redrive.stores.postgres import PostgresStore, database
from redrive.stores.postgres.tx import queries_for
from redrive.stores.sql.tx import Migration
from stores.contract.verbs import add_one, get

Opener = Callable[..., PostgresStore]


def release(patch: pytest.MonkeyPatch, *scripts: str) -> None:
    """Pretend to be a later Redrive, with these steps after the first."""

    def later(schema: str) -> Any:
        queries = queries_for(schema)
        more = [
            Migration(n, f"{n:04d}_step", script.replace("{schema}", f'"{schema}"'))
            for n, script in enumerate(scripts, 2)
        ]
        return replace(queries, migrations=[*queries.migrations, *more])

    patch.setattr(database, "queries_for", later)


def versions(schema: str, other: psycopg.Connection[Any]) -> list[int]:
    rows = other.execute(f'SELECT version FROM "{schema}".redrive_migrations ORDER BY version')
    return [version for (version,) in rows.fetchall()]


def test_an_older_store_is_brought_up_to_date_when_it_is_opened(
    fresh: str, opener: Opener, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F33: the program that is still of the older version stops writing."""
    url = pgkit.url_of(fresh)
    old = opener(url)
    add_one(old, "a")
    release(
        monkeypatch,
        "ALTER TABLE {schema}.jobs ADD COLUMN colour text",
        "ALTER TABLE {schema}.jobs DROP CONSTRAINT jobs_state, ADD CONSTRAINT jobs_state "
        "CHECK (state IN ('pending', 'running', 'completed', 'dead', 'resolved', 'asleep'))",
    )
    with pytest.raises(StoreForeign, match="redrive migrate"):
        opener(url, read_only=True)
    new = opener(url, create=False)
    assert versions(fresh, other) == [1, 2, 3]
    assert get(new, "a").state is State.PENDING
    assert add_one(new, "b").is_new
    assert new.migrate() == []
    with pytest.raises(StoreForeign, match="newer Redrive"):
        add_one(old, "c")


def test_a_step_that_fails_leaves_no_trace_and_the_ones_before_it_stay(
    fresh: str, opener: Opener, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = pgkit.url_of(fresh)
    add_one(opener(url), "a")
    good = "CREATE TABLE {schema}.colours (name text)"
    with monkeypatch.context() as patch:
        release(patch, good, "CREATE TABLE {schema}.shapes (name text); SELECT nonsense")
        with pytest.raises(StoreError):
            opener(url)
    assert versions(fresh, other) == [1, 2]
    assert other.execute("SELECT to_regclass(%s)", (f"{fresh}.shapes",)).fetchone() == (None,)
    release(monkeypatch, good, "CREATE TABLE {schema}.shapes (name text)")
    assert opener(url).verify().jobs == 1
    assert versions(fresh, other) == [1, 2, 3]
