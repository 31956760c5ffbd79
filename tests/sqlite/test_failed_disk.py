"""A disk that fails: whoever waited is told, and no later success covers it up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.verbs import add_one, found
from kit import make_job
from redrive.errors import StoreLost
from redrive.stores.sqlite import SqliteStore
from sqlite.test_turns import together

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
