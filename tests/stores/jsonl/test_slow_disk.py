"""A disk that takes its time: callers wait, readers do not, and nobody loses a lease (F13)."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kit import make_job, make_settlement
from redrive.jobs.job import Completed, Reason
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock


def test_a_sync_of_five_seconds_costs_no_lease_and_stops_no_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F13: the heartbeat waits for its turn, and is in time."""
    clock = ManualClock()
    store = JsonlStore(tmp_path / "jobs.jsonl", clock=clock)
    sweeper = JsonlStore(tmp_path / "jobs.jsonl", clock=clock, read_only=True)
    store.add([make_job("a")])
    (mine,) = store.claim(["mail"], limit=1, holder="w", lease_for=30)
    syncing, go_on = threading.Event(), threading.Event()

    def slow(_: int) -> None:
        syncing.set()
        assert go_on.wait(60)

    with ThreadPoolExecutor(2) as pool, monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", slow)
        added = pool.submit(store.add, [make_job("b")])
        assert syncing.wait(60)
        beat = pool.submit(store.renew, [mine], lease_for=30)
        clock.advance(5)
        assert sweeper.get("a") is not None, "another process reads meanwhile"
        assert not added.done(), "nothing is acknowledged before the sync is over"
        go_on.set()
        assert beat.result(60) == [True]
        assert added.result(60)[0].is_new
    clock.advance(29)
    assert store.seize(by="s", lease_for=30) == []
    assert store.settle([make_settlement(mine, Completed(Reason.DONE))])[0] is not None
    assert store.verify().ok
