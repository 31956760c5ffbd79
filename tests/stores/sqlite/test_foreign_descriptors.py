"""Closing any descriptor of a file drops all locks of its process on it: SQLite's, not ours.

SQLite believes to have them still. Another process that closes the file last, as it sees it, then
takes over the log and removes it, and what is written to the removed one is gone.
"""

from __future__ import annotations

import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreBusy, StoreLost
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import add_one, found
from stores.sqlite.programs import run, start

Opener = Callable[..., SqliteStore]

ANOTHER = """
store = SqliteStore(path)
store.add([make_job(sys.argv[2])])
store.close()
print(json.dumps([job.id for job in SqliteStore(path).find(Query()).jobs]))
"""
KILLED = """
store = SqliteStore(path)
store.add([make_job("left behind")])
os.kill(os.getpid(), signal.SIGKILL)
"""


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def test_nothing_that_we_do_ourselves_gives_up_sqlites_locks(
    opener: Opener, store: SqliteStore, path: Path
) -> None:
    """F19: reading, looking, opening a second time, and asking whether a shorter file was cut."""
    add_one(store, "a")
    store.counts()
    store.verify()
    store._file._watch._size = 1 << 40
    add_one(store, "b")
    second, reader = opener(), opener(read_only=True)
    second.counts()
    reader.close()
    second.close()
    assert run(ANOTHER, path, "c") == ["c", "b", "a"]
    assert log_of(path).exists(), "another process must see that we have the file open"
    add_one(store, "d")
    assert run(ANOTHER, path, "e") == ["e", "d", "c", "b", "a"]


def test_when_the_program_gave_them_up_itself_nothing_is_promised_that_would_be_lost(
    opener: Opener, store: SqliteStore, path: Path
) -> None:
    """F19: as a copy of the file made by the program would; opened again, it works again."""
    add_one(store, "a")
    path.open("rb").close()
    assert run(ANOTHER, path, "b") == ["b", "a"]
    for use in (store.counts, lambda: store.add([make_job("lost")])):
        with pytest.raises(StoreLost, match=r"jobs\.db was removed.*open the store again"):
            use()
    store.close()
    again = opener()
    add_one(again, "c")
    assert run(ANOTHER, path, "d") == found(again) == ["d", "c", "b", "a"]
    assert again.verify().ok


@pytest.mark.parametrize("reads", [True, False])
def test_a_log_that_another_left_behind_is_not_removed_by_who_lost_his(
    opener: Opener, store: SqliteStore, path: Path, reads: bool
) -> None:
    """F19, F1: the other one was killed; all that it was told is in the log."""
    add_one(store, "a")
    if reads:
        store.counts()
    path.open("rb").close()
    run(ANOTHER, path, "b")
    killed = start(KILLED, path)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    store.close()
    assert found(opener()) == ["left behind", "b", "a"]


def test_commits_and_the_last_close_happen_under_our_lock_only(
    opener: Opener, store: SqliteStore, path: Path
) -> None:
    """F23: so no two checkpoints ever meet, which older SQLite versions cannot bear."""
    add_one(store, "a")
    other = opener(patience=0.02)
    other.counts()
    with store._file._lock.held():
        with pytest.raises(StoreBusy):
            other.add([make_job("b")])
        other.close()
        assert log_of(path).stat().st_size > 0
    assert found(store) == ["a"]


def test_a_reader_never_takes_over_the_log(store: SqliteStore, path: Path) -> None:
    """F23: it holds no lock of ours."""
    add_one(store, "a")
    store.counts()
    reader = store._file._reader
    assert reader is not None
    size = log_of(path).stat().st_size
    with pytest.raises(sqlite3.OperationalError):
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert log_of(path).stat().st_size == size > 0
