"""Threads share a sync, and each gets its own answer."""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kit import make_job
from redrive.errors import KeyConflict, StoreError, StoreFull
from redrive.jobs.job import Job
from redrive.stores.contract import Query
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock


class Gate:
    """Keeps the first sync waiting until all other callers have queued up behind it."""

    def __init__(self, store: JsonlStore, others: int) -> None:
        self._store = store
        self._others = others
        self.syncs = 0
        self.failure: BaseException | None = None

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        while self.syncs == 1 and len(self._store._combiner._waiting) < self._others:
            threading.Event().wait(0.001)
        if self.failure is not None:
            raise self.failure


@pytest.fixture
def store(tmp_path: Path) -> JsonlStore:
    return JsonlStore(tmp_path / "jobs.jsonl", clock=ManualClock())


def add_all(store: JsonlStore, jobs: list[Job]) -> list[Future[Any]]:
    with ThreadPoolExecutor(len(jobs)) as pool:
        return [pool.submit(store.add, [job]) for job in jobs]


def test_callers_that_wait_share_one_sync(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(store, others=15)
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    done = add_all(store, [make_job(f"job{n}") for n in range(16)])
    assert all(one.result()[0].is_new for one in done)
    assert gate.syncs == 2


def test_an_operation_that_is_refused_does_not_harm_those_beside_it(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(store, others=11)
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    jobs = [make_job(f"job{n:02}", key=f"k{n % 6}", payload=f'{{"n":{n}}}') for n in range(12)]
    done = add_all(store, jobs)
    refused = [one for one in done if isinstance(one.exception(), KeyConflict)]
    assert len(refused) == 6
    assert len(store.find(Query()).jobs) == 6
    assert store.verify().ok


def test_a_failed_sync_fails_everybody_it_was_for_and_keeps_nothing_of_theirs(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F9."""
    store.add([make_job("before")])
    gate = Gate(store, others=7)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", gate.sync)
        gate.failure = OSError(28, "No space left on device")
        done = add_all(store, [make_job(f"job{n}") for n in range(8)])
    assert all(isinstance(one.exception(), StoreError) for one in done)
    assert gate.syncs == 1
    assert [job.id for job in store.find(Query()).jobs] == ["before"]


def test_a_full_disk_fails_everybody_in_the_batch(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F10: and the next batch goes through."""
    real = os.write
    left = [5]

    def write(descriptor: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    failed = 0
    for number in range(8):
        try:
            store.add([make_job(f"job{number}")])
        except StoreFull:
            failed += 1
            store.add([make_job(f"job{number}")])
    assert failed == 1
    assert len(store.find(Query()).jobs) == 8
    assert store.verify().ok


def test_ctrl_c_in_one_thread_is_not_raised_in_the_others(
    store: JsonlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(store, others=0)
    raised: list[BaseException | None] = []
    entered = threading.Event()

    def slow() -> Any:
        entered.set()
        while len(store._combiner._waiting) < 4:
            threading.Event().wait(0.001)
        return store._add_all([make_job("slow")])

    def add(name: str) -> None:
        try:
            store.add([make_job(name)])
            raised.append(None)
        except BaseException as error:  # noqa: BLE001 - it is what we look at
            raised.append(error)

    leader = threading.Thread(target=lambda: store._write(slow, durable=False))
    leader.start()
    assert entered.wait(30)
    gate.failure = KeyboardInterrupt()
    monkeypatch.setattr(os, "fdatasync", gate.sync)
    others = [threading.Thread(target=add, args=(f"job{n}",)) for n in range(4)]
    for one in others:
        one.start()
    for one in (leader, *others):
        one.join(30)
    kinds = sorted(type(error).__name__ for error in raised)
    assert kinds == ["KeyboardInterrupt", "StoreLost", "StoreLost", "StoreLost"]
    monkeypatch.undo()
    assert store.add([make_job("later")])[0].is_new
    assert store.verify().ok
