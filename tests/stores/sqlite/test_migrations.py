"""Schema versions: a new store is made whole, an older one is brought up to date whole or not at all (F116)."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from redrive.errors import StoreError, StoreFull, StoreOutdated
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.sqlite import SqliteStore, file, opening, upgrade
from stores.contract.verbs import add_one, found

Opener = Callable[..., SqliteStore]
OLD = Path(__file__).parent.parent / "upgrade" / "stores" / "store.db"
JOBS = 25
"""How many jobs it has."""


@pytest.fixture
def old(path: Path) -> Path:
    """A store of version 1."""
    shutil.copy(OLD, path)
    path.chmod(0o600)
    return path


def version_of(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def steps_of(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    names = [name for (name,) in connection.execute("SELECT name FROM migrations ORDER BY version")]
    connection.close()
    return names


def schema_of(path: Path) -> list[tuple[str, str]]:
    """Everything in the schema but the tables that stay as version 1 made them."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    kept = {"payloads", "attempts", "acts", "notes", "note_versions", "migrations"}
    found = sorted((name, sql) for name, sql in rows if name not in kept)
    connection.close()
    return found


def test_a_new_store_is_of_this_version(store: SqliteStore, path: Path) -> None:
    assert (version_of(path), steps_of(path)) == (opening.VERSION, ["0002_new"])
    assert store.migrate() == []


def test_opening_an_older_store_for_writing_brings_it_up_to_date(
    old: Path, opener: Opener, tmp_path: Path
) -> None:
    """T7: and its schema is that of a new one."""
    store = opener()
    assert (version_of(old), steps_of(old)) == (2, ["0001_jobs", "0002_from_1"])
    assert len(found(store, limit=100)) == JOBS
    add_one(store, "b")
    assert len(found(store, limit=100)) == JOBS + 1
    SqliteStore(tmp_path / "new.db").close()
    assert schema_of(old) == schema_of(tmp_path / "new.db")


def test_an_older_store_for_reading_says_what_to_do(old: Path, opener: Opener) -> None:
    """T7."""
    said = rf"sqlite:{old} has schema 1; this Redrive needs 2\..*upgrade the store with `redrive migrate --store 'sqlite:"
    with pytest.raises(StoreOutdated, match=said):
        opener(read_only=True)
    assert version_of(old) == 1


def test_a_large_older_store_is_migrated_only_when_asked(
    old: Path, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "MIGRATED_ON_OPENING", JOBS - 1)
    with pytest.raises(StoreOutdated, match="redrive migrate"):
        opener()
    assert version_of(old) == 1
    store = opener(migrating=True)
    assert (version_of(old), store.migrate()) == (2, [])
    store.close()
    assert len(found(opener(), limit=100)) == JOBS


def test_a_disk_without_room_is_noticed_before_anything_is_written(
    old: Path, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = JOBS * 1000
    with monkeypatch.context() as patched:
        patched.setattr(opening, "free_bytes", lambda _: needed - 1)
        with pytest.raises(
            StoreFull, match=r"needs about \d\d,\d\d\d bytes.*found 24,999.*migrate"
        ):
            opener()
    assert (version_of(old), steps_of(old)) == (1, ["0001_jobs"])
    assert opening.free_bytes(old) > 0
    assert len(found(opener(), limit=100)) == JOBS


def test_a_migration_that_fails_leaves_the_store_as_it_was(
    old: Path, opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T7: and the older program can still use it."""

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("no more")

    with monkeypatch.context() as patched:
        patched.setattr(upgrade, "_copy_groups", fail)
        with pytest.raises(StoreError, match="no more"):
            opener()
    assert (version_of(old), steps_of(old)) == (1, ["0001_jobs"])
    assert len(found(opener(), limit=100)) == JOBS


def _migrate_and_die(path: Path, at: int) -> None:
    """Open a store in this process, which ends at its statement of that number."""
    seen = 0
    connect = sqlite3.connect

    def heard(_: str) -> None:
        nonlocal seen
        seen += 1
        if seen == at:
            os._exit(9)

    def connected(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)  # type: ignore[call-overload]
        connection.set_trace_callback(heard)
        return connection

    sqlite3.connect = connected  # type: ignore[assignment]
    SqliteStore(path)
    os._exit(0)


def test_killed_at_any_statement_it_can_be_run_again(old: Path, opener: Opener) -> None:
    at, outcomes = 1, set[int]()
    while True:
        shutil.copy(OLD, old)
        for left in ("-wal", "-shm", "-journal", ".lock"):
            old.with_name(old.name + left).unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            _migrate_and_die(old, at)
        _, status = os.waitpid(child, 0)
        outcomes.add(os.waitstatus_to_exitcode(status))
        store = opener()
        assert len(found(store, limit=100)) == JOBS
        assert steps_of(old) == ["0001_jobs", "0002_from_1"]
        store.close()
        if os.waitstatus_to_exitcode(status) == 0:
            break
        at += 1
    assert outcomes == {0, 9}
    assert at > JOBS


def test_a_row_that_cannot_be_read_is_carried_over(old: Path, opener: Opener) -> None:
    connection = sqlite3.connect(old)
    (one,) = connection.execute("SELECT id FROM jobs WHERE state = 'dead' LIMIT 1").fetchone()
    connection.execute("UPDATE jobs SET failure = 'x' WHERE id = ?", (one,))
    connection.commit()
    connection.close()
    store = opener()
    (problem,) = store.verify().problems
    assert one in problem.where
    assert "more" in problem.what
    assert sum(count.jobs for count in store.counts()) == JOBS


@pytest.mark.parametrize(
    ("odd", "problems"),
    [
        ("UPDATE jobs SET finished = 1e308, updated = 1e308 WHERE state = 'dead'", 0),
        ("UPDATE jobs SET finished = 9e999 WHERE state = 'dead'", 0),
        ("UPDATE jobs SET since = 9e999", 0),
        ("UPDATE jobs SET tags = '[1,{}]' WHERE id = 'd-bad'", 1),
        ("UPDATE attempts SET record = '{oops' WHERE n = 17", 1),
        (f"INSERT INTO notes VALUES ('group:{'9' * 5000}', '{{}}', 99, NULL)", 0),
        ("UPDATE notes SET value = '{\"resolved\": 1e999}' WHERE name = 'group:1'", 0),
    ],
)
def test_odd_content_does_not_stop_a_migration(
    old: Path, opener: Opener, odd: str, problems: int
) -> None:
    connection = sqlite3.connect(old)
    connection.execute(odd)
    connection.commit()
    connection.close()
    store = opener()
    assert len(store.verify().problems) == problems
    assert sum(count.jobs for count in store.counts()) == JOBS
    assert store.fold()


def test_a_job_with_one_damaged_attempt_keeps_all_else(old: Path, opener: Opener) -> None:
    connection = sqlite3.connect(old)
    connection.execute("UPDATE attempts SET record = '{oops' WHERE n = 17")
    connection.commit()
    connection.close()
    (job,) = opener().find(Query(ids=("d-reopened",))).jobs
    assert (job.state, job.detail, job.died_at) == (State.DEAD, "reopened", job.finished)


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
