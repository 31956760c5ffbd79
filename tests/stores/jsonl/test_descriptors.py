"""A program that closes all descriptors and opens files: they are its own, and stay as they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kit import make_job
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock

CONTENT = b"precious " * 100


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    store = JsonlStore(tmp_path / "jobs.jsonl", clock=ManualClock())
    store.add([make_job("a")])
    return store


def take(descriptor: int, path: Path) -> None:
    """Close a descriptor behind the store's back, and give its number to another file."""
    path.write_bytes(CONTENT)
    other = os.open(path, os.O_RDWR | os.O_APPEND)
    os.dup2(other, descriptor)
    os.close(other)


def test_a_file_that_got_the_number_of_our_lock_keeps_every_byte(
    store: JsonlStore, tmp_path: Path
) -> None:
    taken = store._lock._descriptor
    take(taken, tmp_path / "theirs")
    store.add([make_job("b")])
    store.close()
    assert os.pread(taken, 2000, 0) == CONTENT
    os.close(taken)


def test_a_file_that_got_the_number_of_our_journal_keeps_every_byte(
    store: JsonlStore, tmp_path: Path
) -> None:
    taken = store._journal.descriptor
    take(taken, tmp_path / "theirs")
    store.add([make_job("b")])
    assert store.get("a") is not None
    store.close()
    assert os.pread(taken, 2000, 0) == CONTENT
    os.close(taken)
    again = JsonlStore(tmp_path / "jobs.jsonl", clock=ManualClock())
    assert [job.id for job in again.find(Query()).jobs] == ["b", "a"]
    assert again.verify().ok


def test_descriptors_that_were_closed_behind_our_back_are_opened_again(store: JsonlStore) -> None:
    os.close(store._lock._descriptor)
    os.close(store._journal.descriptor)
    assert store.add([make_job("b")])[0].is_new
    os.close(store._journal.descriptor)
    assert store.get("a") is not None
    os.close(store._lock._descriptor)
    store.close()
