"""What others do to the files behind our back."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from kit import make_job
from redrive.errors import StoreDamaged, StoreLost
from redrive.jobs.job import State
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import add_one, claim_one, found, get, settle

Opener = Callable[..., SqliteStore]


def test_a_file_that_was_removed_is_never_written_to(store: SqliteStore, path: Path) -> None:
    """F16: an unlinked file would take the work with it."""
    add_one(store, "a")
    path.unlink()
    with pytest.raises(StoreLost, match=r"was removed.*start again"):
        store.add([make_job("b")])
    with pytest.raises(StoreLost, match="was removed"):
        store.counts()


def test_a_file_that_was_renamed_away_works_again_when_it_is_back(
    store: SqliteStore, path: Path
) -> None:
    """F16: as log rotation does."""
    add_one(store, "a")
    path.rename(path.with_suffix(".1"))
    with pytest.raises(StoreLost):
        store.add([make_job("b")])
    path.with_suffix(".1").rename(path)
    add_one(store, "c")
    assert found(store) == ["c", "a"]


def test_a_file_that_was_replaced_is_neither_written_nor_read(
    store: SqliteStore, path: Path, tmp_path: Path
) -> None:
    """F16: a backup that was put back while we run."""
    add_one(store, "a")
    shutil.copy(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)  # noqa: PTH105
    for use in (store.counts, lambda: store.add([make_job("b")])):
        with pytest.raises(StoreLost, match="was replaced"):
            use()


def test_a_file_that_was_emptied_is_refused(opener: Opener, path: Path) -> None:
    """F17: `> jobs.db`, while the log still has the newest part."""
    store = opener()
    store.add([make_job(f"j{n}") for n in range(50)])
    store.close()
    store = opener()
    add_one(store, "a")
    with path.open("r+b") as file:
        file.truncate(0)
    with pytest.raises(StoreLost, match="cut short"):
        store.add([make_job("b")])
    with pytest.raises(StoreDamaged, match=r"emptied.*jobs.db-wal.*backup"):
        opener()


def test_a_vacuum_at_the_sqlite_shell_does_no_harm(opener: Opener, path: Path) -> None:
    """F17: the file shrinks, and that is right."""
    store = opener()
    add_one(store, "kept")
    store.add([make_job(f"j{n}", payload='{"x":"%s"}' % ("y" * 3000)) for n in range(200)])
    store.close()
    store = opener()
    add_one(store, "a")
    shell = sqlite3.connect(path, isolation_level=None)
    shell.execute("DELETE FROM payloads WHERE n > 1 AND n < 202")
    shell.execute("DELETE FROM jobs WHERE n > 1 AND n < 202")
    size = path.stat().st_size
    shell.execute("VACUUM")
    shell.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shell.close()
    assert path.stat().st_size < size
    add_one(store, "b")
    assert found(store) == ["kept", "b", "a"]
    assert store.verify().ok


def test_a_backup_from_before_the_claim_fences_the_claim_off(
    opener: Opener, path: Path, tmp_path: Path
) -> None:
    """M7: after a restore the lease number comes again, the holder does not."""
    store = opener()
    add_one(store, "a")
    store.close()
    shutil.copy(path, tmp_path / "backup")
    store = opener()
    late = claim_one(store, holder="w1")
    store.close()
    os.replace(tmp_path / "backup", path)  # noqa: PTH105
    store = opener()
    assert settle(store, late) is None
    assert get(store, "a").state is State.PENDING
    current = claim_one(store, holder="w2")
    assert current.job.lease == late.job.lease
    assert settle(store, late) is None
    assert store.renew([late], lease_for=60) == [False]
    assert get(store, "a").holder == "w2"
    assert settle(store, current) is not None
