"""Schema versions: each step is taken once, whole, and recorded."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.errors import StoreError, StoreForeign
from redrive.stores.sql.tx import Migration
from redrive.stores.sqlite import SqliteStore, opening
from stores.contract.verbs import add_one, found

Opener = Callable[..., SqliteStore]

GOOD = Migration(2, "0002_more", "-- One more column.\nALTER TABLE jobs ADD COLUMN x TEXT;")
BAD = Migration(3, "0003_bad", "CREATE TABLE more (a);\nCREATE TABLE more (a);\n")


@pytest.fixture
def old(opener: Opener) -> SqliteStore:
    """A store of the first version, with one job, closed."""
    store = opener()
    add_one(store, "a")
    store.close()
    return store


def steps_of(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM migrations ORDER BY version")]
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    assert version == len(names)
    return names


def test_a_new_store_has_taken_every_step(store: SqliteStore, path: Path) -> None:
    assert steps_of(path) == [step.name for step in opening.MIGRATIONS]
    assert store.migrate() == []


def test_opening_an_older_store_for_writing_takes_the_steps_that_are_missing(
    old: SqliteStore, opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7: and the columns that came later do not disturb."""
    monkeypatch.setattr(opening, "MIGRATIONS", [*opening.MIGRATIONS, GOOD])
    store = opener()
    assert steps_of(path) == ["0001_jobs", "0002_more"]
    add_one(store, "b")
    assert found(store) == ["b", "a"]


def test_an_older_store_for_reading_says_what_to_do(
    old: SqliteStore, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7."""
    monkeypatch.setattr(opening, "MIGRATIONS", [*opening.MIGRATIONS, GOOD])
    with pytest.raises(StoreForeign, match=r"older Redrive.*migrate"):
        opener(read_only=True)


def test_a_step_that_fails_leaves_the_store_as_the_step_before_made_it(
    old: SqliteStore, opener: Opener, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7: and the older program can still use it."""
    with monkeypatch.context() as patched:
        patched.setattr(opening, "MIGRATIONS", [*opening.MIGRATIONS, GOOD, BAD])
        with pytest.raises(StoreError, match="already exists"):
            opener()
        assert steps_of(path) == ["0001_jobs", "0002_more"]
        patched.setattr(opening, "MIGRATIONS", opening.MIGRATIONS[:2])
        assert found(opener()) == ["a"]


def test_an_open_store_can_be_asked_to_migrate(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "MIGRATIONS", [*opening.MIGRATIONS, GOOD])
    assert store.migrate() == ["0002_more"]
    assert store.migrate() == []


def test_sqlite_before_strict_tables_gets_the_same_schema_without(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    store = SqliteStore(path)
    add_one(store, "a")
    assert found(store) == ["a"]
    store.close()
    connection = sqlite3.connect(path)
    schema = " ".join(sql or "" for (sql,) in connection.execute("SELECT sql FROM sqlite_master"))
    connection.close()
    assert "STRICT" not in schema
    assert "WITHOUT ROWID" in schema
