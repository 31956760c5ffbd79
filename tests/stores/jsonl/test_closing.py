"""Closing waits its turn: what was acknowledged before, beside or after it is in the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kit import make_job
from redrive import Redrive
from redrive.errors import StoreBusy, StoreError
from redrive.handler import Handler
from redrive.stores._files import FileLock
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore

THREADS = 4


class Slow:
    """A write in the middle of which its thread waits, the lock held."""

    def __init__(self, store: JsonlStore) -> None:
        self.entered, self.leave = threading.Event(), threading.Event()
        self._store = store
        self._thread = threading.Thread(target=self._write)
        self._thread.start()
        assert self.entered.wait(30)

    def _write(self) -> None:
        def work() -> Any:
            self.entered.set()
            assert self.leave.wait(30)
            return self._store._add_all([make_job("slow")])

        self._store._write(work, durable=True)

    def end(self) -> None:
        self.leave.set()
        self._thread.join(30)


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def until_waiting(store: JsonlStore, count: int) -> None:
    for _ in range(10_000):
        if len(store._combiner._waiting) >= count:
            return
        threading.Event().wait(0.001)
    pytest.fail("nobody waits for its turn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.jsonl"


def send(to: str) -> None:
    """Do nothing: no worker runs here."""


def stored(path: Path) -> set[str]:
    store = JsonlStore(path)
    assert store.verify().ok, store.verify().problems
    assert not list(path.parent.glob("*.quarantine-*"))
    found = {job.id for job in store.find(Query(limit=100_000)).jobs}
    store.close()
    return found


def test_closing_keeps_the_lock_until_the_write_of_another_thread_is_done(path: Path) -> None:
    store = JsonlStore(path)
    other = FileLock(store._lock.place, patience=0)
    slow = Slow(store)
    closing = started(store.close)
    until_waiting(store, 1)
    with pytest.raises(StoreBusy), other.held():
        pass
    slow.end()
    closing.join(30)
    with other.held():
        pass
    other.close()
    assert stored(path) == {"slow"}


def test_what_was_settled_beside_a_closing_is_synced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = JsonlStore(path)
    slow = Slow(store)
    note = started(lambda: store.note("n", "x"))
    until_waiting(store, 1)
    closing = started(store.close)
    until_waiting(store, 2)
    syncs: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (syncs.append(fd), real(fd)))
    slow.end()
    note.join(30)
    closing.join(30)
    assert len(syncs) == 2
    assert b'"mark"' in path.read_bytes().splitlines()[-1]


@pytest.mark.parametrize("objects", [1, 2])
def test_threads_that_submit_while_the_app_is_closed_again_and_again_lose_nothing(
    path: Path, objects: int
) -> None:
    apps = [Redrive(f"jsonl:{path}") for _ in range(objects)]
    mails: list[Handler[..., None]] = [app.handler("mail")(send) for app in apps]
    kept: list[str] = []
    odd: list[BaseException] = []
    stop = threading.Event()

    def submit(mail: Handler[..., None]) -> None:
        while not stop.is_set():
            try:
                kept.append(mail.submit(to="ada").id)
            except StoreError as error:
                if "was closed" not in str(error):
                    odd.append(error)
            except BaseException as error:  # noqa: BLE001 - it is what we look at
                odd.append(error)

    threads = [started(partial(submit, mail)) for mail in mails for _ in range(THREADS)]
    for turn in range(12):
        while len(kept) < turn * 8 and not odd:
            threading.Event().wait(0.001)
        apps[turn % objects].close()
    stop.set()
    for one in threads:
        one.join(30)
    for app in apps:
        app.close()
    assert not odd
    assert stored(path) == set(kept)
