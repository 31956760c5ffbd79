"""A disk that fails: whoever waited is told, and no later success covers it up."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kit import make_job
from redrive.errors import StoreLost
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import add_one, found
from stores.sqlite.test_concurrent_writers import together

Opener = Callable[..., SqliteStore]


class Failing:
    """The writing connection of a store whose next commit cannot be synced."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.commits = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *args: Any) -> Any:
        if statement == "COMMIT":
            self.commits += 1
            if self.commits == 1:
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
                raise error
        return self._connection.execute(statement, *args)


def break_disk(store: SqliteStore) -> Failing:
    assert store._file._writer is not None
    failing = Failing(store._file._writer)
    store._file._writer = failing  # type: ignore[assignment]
    return failing


def test_after_a_failed_sync_nothing_is_written_until_it_is_opened_again(
    opener: Opener, store: SqliteStore, path: Path
) -> None:
    """F9: the sync is not tried again, and what is stored can be read meanwhile."""
    add_one(store, "a")
    failing = break_disk(store)
    with pytest.raises(StoreLost, match=r"jobs\.db failed \(disk I/O error\).*open it again"):
        store.add([make_job("b")])
    with pytest.raises(StoreLost, match=r"earlier write to .*jobs\.db failed"):
        store.add([make_job("b")])
    assert failing.commits == 1
    assert found(store) == ["a"]
    store.close()
    again = opener()
    assert again.add([make_job("b")])[0].is_new
    assert found(again) == ["b", "a"]
    assert again.verify().ok


def test_a_failed_sync_fails_everybody_it_was_for(opener: Opener, store: SqliteStore) -> None:
    """F9: no one's part of a shared commit is tried on its own."""
    add_one(store, "a")
    failing = break_disk(store)
    failing.commits = -1  # the first caller commits alone, the others share the one that fails
    calls = [lambda name=name: store.add([make_job(name)]) for name in "bcdef"]
    results = together(store, *calls)
    assert results[0][0].is_new
    assert [type(each) for each in results[1:]] == [StoreLost] * 4
    assert failing.commits == 1
    assert found(store) == ["b", "a"]


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the store's files that we sync ourselves, not SQLite."""
    names: list[str] = []
    sync = os.fsync

    def watched(descriptor: int) -> None:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        names.extend([name] if name.startswith("jobs") else [])
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return names


def test_after_a_failed_sync_the_log_is_written_again_before_anything_else(
    opener: Opener, store: SqliteStore, path: Path, synced: list[str]
) -> None:
    """F9: the system may have dropped bytes of the log that it still shows to every reader."""
    add_one(store, "a")
    log = path.with_name("jobs.db-wal")
    before = log.read_bytes()
    break_disk(store)
    with pytest.raises(StoreLost):
        store.add([make_job("b")])
    again = opener()
    assert synced == ["jobs.db-wal"]
    assert log.read_bytes() == before
    assert found(again) == ["a"]
    again.add([make_job("b")])
    assert found(opener()) == ["b", "a"]
    assert synced == ["jobs.db-wal"]


def test_a_store_that_failed_writes_its_log_again_when_it_is_closed(
    opener: Opener, store: SqliteStore, synced: list[str]
) -> None:
    """F9: closing takes the log over, and must not begin with one that has a hole."""
    add_one(store, "a")
    break_disk(store)
    with pytest.raises(StoreLost):
        store.add([make_job("b")])
    store.close()
    assert synced == ["jobs.db-wal"]
    assert found(opener()) == ["a"]


def test_a_disk_that_still_fails_is_not_written_to(
    opener: Opener, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: what cannot be brought to the disk is not built upon; the next one tries again."""
    add_one(store, "a")
    break_disk(store)
    with pytest.raises(StoreLost):
        store.add([make_job("b")])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(StoreLost, match="Input/output error"):
            opener()
    assert opener().add([make_job("b")])[0].is_new
