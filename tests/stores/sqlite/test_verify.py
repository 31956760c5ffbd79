"""verify: it says what is wrong and where, what the store is, and changes nothing (T7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import make_job
from redrive.jobs.job import State
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import bring_to

Opener = Callable[..., SqliteStore]


@pytest.fixture
def full(store: SqliteStore) -> SqliteStore:
    for state in State:
        bring_to(store, state, state.value)
    return store


def test_a_sound_store_has_no_problems_and_tells_what_it_is(full: SqliteStore, path: Path) -> None:
    report = full.verify()
    assert (report.ok, report.jobs) == (True, 5)
    assert report.facts["path"] == str(path)
    assert report.facts["durability"] == "full"
    assert report.facts["journal mode"] == "wal"
    assert report.facts["schema version"] == "3"
    assert int(report.facts["size"].split()[0]) == path.stat().st_size


@pytest.mark.parametrize(("version", "warned"), [((3, 51, 2), True), ((3, 51, 3), False)])
def test_a_sqlite_with_the_checkpoint_race_is_named(
    full: SqliteStore, monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...], warned: bool
) -> None:
    """F23."""
    monkeypatch.setattr(sqlite3, "sqlite_version_info", version)
    assert ("avoided by our lock" in full.verify().facts["sqlite"]) is warned


@pytest.mark.parametrize(
    ("damage", "job", "what"),
    [
        ("UPDATE jobs SET holder = 'w' WHERE id = 'pending'", "pending", "holder"),
        ("UPDATE jobs SET holder = NULL WHERE id = 'running'", "running", "holder"),
        ("UPDATE jobs SET category = 'auth' WHERE id = 'completed'", "completed", "wrong"),
        ("UPDATE jobs SET at = 5 WHERE id = 'completed'", "completed", "wrong time"),
        ("UPDATE jobs SET suspect = 1 WHERE id = 'pending'", "pending", "wrong"),
        ("UPDATE jobs SET cause = 77 WHERE id = 'dead'", "dead", "group"),
        ("DELETE FROM payloads WHERE n = 1", "pending", "no payload"),
        ("INSERT INTO payloads (n, payload) VALUES (99, '{}')", "99", "payload"),
        ("INSERT INTO attempts VALUES (98, 1, '{}')", "98", "attempts"),
    ],
)
def test_rows_that_contradict_each_other_are_named(
    full: SqliteStore, path: Path, damage: str, job: str, what: str
) -> None:
    shell = sqlite3.connect(path)
    with shell:
        shell.execute(damage)
    shell.close()
    (problem, *_) = full.verify().problems
    assert f"job {job}" in problem.where
    assert what in problem.what
    assert problem.remedy


def test_a_state_that_is_none_of_the_five_cannot_be_written(full: SqliteStore, path: Path) -> None:
    """M2."""
    shell = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError), shell:
        shell.execute("UPDATE jobs SET state = 'failed'")
    shell.close()


def test_broken_pages_are_reported_not_raised(opener: Opener, path: Path) -> None:
    """F6: with the remedy."""
    store = opener()
    store.add([make_job(f"j{n:04d}") for n in range(2000)])
    store.close()
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * 9000)
    report = opener().verify()
    assert not report.ok
    assert "backup" in report.problems[0].remedy
