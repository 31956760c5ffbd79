"""What others do to the file while it is open: replaced, cut, deleted, restored, compacted."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from kit import make_job
from redrive.errors import StoreError, StoreLost, StoreReadOnly
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

CLOCK = ManualClock()
_ALL = Query()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


@pytest.fixture
def store(path: Path) -> JsonlStore:
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("a")])
    return store


def refuses(store: JsonlStore, path: Path) -> None:
    """Neither read nor written from here on, and the message names the file."""
    before = path.read_bytes() if path.exists() else None
    for work in (lambda: store.add([make_job("b")]), lambda: store.get("a")):
        with pytest.raises(StoreLost, match=r"jobs\.jsonl .* open it again"):
            work()
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_deleted_file_is_not_written_to_any_more(store: JsonlStore, path: Path) -> None:
    """F16: never to an unlinked inode."""
    path.unlink()
    refuses(store, path)


def test_another_store_in_its_place_is_not_taken_for_it(store: JsonlStore, path: Path) -> None:
    """F16."""
    other = path.with_name("other.jsonl")
    JsonlStore(other, clock=CLOCK).close()
    other.replace(path)
    refuses(store, path)


def test_an_older_backup_in_its_place_is_refused(store: JsonlStore, path: Path) -> None:
    """F16: what was acknowledged since would be lost in silence."""
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    store.add([make_job("b")])
    backup.replace(path)
    refuses(store, path)


def test_a_backup_of_now_in_its_place_is_used(store: JsonlStore, path: Path) -> None:
    """F16: the same lines in another inode."""
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    backup.replace(path)
    store.add([make_job("b")])
    assert {"a", "b"} == {job.id for job in store.find(_ALL).jobs}
    assert b'"id":"b"' in path.read_bytes()


@pytest.mark.parametrize("left", [0, 200])
def test_a_file_that_was_cut_is_refused(store: JsonlStore, path: Path, left: int) -> None:
    """F17: shorter than what was synced."""
    store.add([make_job("b")])
    os.truncate(path, left)
    refuses(store, path)


def test_a_store_refused_here_opens_again_as_what_is_there(store: JsonlStore, path: Path) -> None:
    """F16, F17: the remedy in the message works."""
    backup = path.with_name("backup")
    shutil.copy(path, backup)
    store.add([make_job("b")])
    backup.replace(path)
    refuses(store, path)
    again = JsonlStore(path, clock=CLOCK)
    assert again.get("a") is not None
    assert again.get("b") is None


def test_a_compaction_by_another_is_noticed(store: JsonlStore, path: Path) -> None:
    """T2: compaction is on-line."""
    other = JsonlStore(path, clock=CLOCK)
    reader = JsonlStore(path, clock=CLOCK, read_only=True)
    store.add([make_job("b")])
    other.compact()
    store.add([make_job("c")])
    other.compact()
    for one in (store, other, reader):
        assert {"a", "b", "c"} == {job.id for job in one.find(_ALL).jobs}
        assert one.verify().ok


def test_closing_another_descriptor_of_the_file_does_not_lose_the_lock(
    store: JsonlStore, path: Path
) -> None:
    """F19: the lock is not on the file itself."""
    other = JsonlStore(path, clock=CLOCK, patience=0.0)
    with store._lock.held():
        path.open("rb").close()
        with pytest.raises(StoreError, match="another process"):
            other.add([make_job("b")])
    other.add([make_job("b")])


def test_what_is_read_before_a_failed_sync_is_forgotten_with_it(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: a reader saw lines that were then taken back, and others came in their place."""
    reader = JsonlStore(path, clock=CLOCK, read_only=True)

    def fail(descriptor: int) -> None:
        assert reader.get("b") is not None
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreLost, match="syncing"):
            store.add([make_job("b")])
    store = JsonlStore(path, clock=CLOCK)
    store.add([make_job("c")])
    assert reader.get("b") is None
    assert reader.get("c") is not None


def test_after_a_failed_sync_nothing_is_written_until_it_is_opened_again(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: the sync is not tried again, and a later success does not hide the failure."""
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(StoreLost):
            store.add([make_job("b")])
    assert len(synced) == 1
    data = path.read_bytes()
    with pytest.raises(StoreLost, match="open it again"):
        store.add([make_job("b")])
    assert path.read_bytes() == data
    assert store.get("a") is not None
    store.close()
    again = JsonlStore(path, clock=CLOCK)
    assert again.add([make_job("b")])[0].is_new


def test_after_a_failed_sync_whoever_opens_it_writes_all_of_it_anew(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9: the system may have dropped older bytes too, and still show them to every reader."""
    store.note("n", "never synced")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(StoreLost):
            store.add([make_job("b")])
    doubtful = path.stat().st_ino
    again = JsonlStore(path, clock=CLOCK)
    assert path.stat().st_ino != doubtful
    assert [note.name for note in again.notes()] == ["n"]
    assert {job.id for job in again.find(_ALL).jobs} == {"a"}
    trusted = path.stat().st_ino
    JsonlStore(path, clock=CLOCK).close()
    assert path.stat().st_ino == trusted


@pytest.mark.parametrize("call", ["open", "unlink"])
def test_a_disk_that_fails_while_it_is_opened_is_said_in_words(
    store: JsonlStore, path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """F9: and not taken for a store that is missing."""
    with monkeypatch.context() as patch:
        patch.setattr(os, call, Mock(side_effect=OSError(5, "Input/output error")))
        with pytest.raises(StoreLost, match="Input/output error"):
            JsonlStore(path, clock=CLOCK)
    assert JsonlStore(path, clock=CLOCK).get("a") is not None


def test_a_job_that_was_written_but_never_synced_is_synced_before_a_repeat_is_acknowledged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T5, F1: the first caller died before its sync; the second is told that it is stored."""
    with monkeypatch.context() as patch:
        store = JsonlStore(path, clock=CLOCK)
        patch.setattr(os, "fdatasync", _die)
        with pytest.raises(KeyboardInterrupt):
            store.add([make_job("a")])
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd)))
    again = JsonlStore(path, clock=CLOCK)
    again.add([make_job("a")])
    assert synced


def _die(descriptor: int) -> None:
    raise KeyboardInterrupt


def test_a_read_only_store_refuses_to_write(store: JsonlStore, path: Path) -> None:
    reader = JsonlStore(path, clock=CLOCK, read_only=True)
    verbs: list[Callable[[], object]] = [
        lambda: reader.add([make_job()]),
        lambda: reader.note("n", "v"),
        reader.compact,
        reader.repair,
    ]
    for verb in verbs:
        with pytest.raises(StoreReadOnly):
            verb()
