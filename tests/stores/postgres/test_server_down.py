"""The server goes away and comes back: nothing acknowledged is lost, nothing is done twice (F26, F28, T5)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

import psycopg
import pytest

import pgkit
from kit import make_job
from redrive.errors import StoreLost
from redrive.jobs.job import State
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import add_one, claim, claim_one, get, history, settle

Opener = Callable[..., PostgresStore]


class Load:
    """Threads that submit and others that work, and what they were told."""

    def __init__(self, stores: list[PostgresStore]) -> None:
        self._stores = stores
        self._over = threading.Event()
        self.added: list[str] = []
        self.settled: list[tuple[str, int]] = []
        self.errors: list[Exception] = []
        kinds = (self._submit, self._work)
        self._threads = [
            threading.Thread(target=self._loop, args=(kinds[n % 2], n)) for n in range(len(stores))
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
        assert not self.errors

    def until(self, added: int, settled: int) -> None:
        """Wait until so many more were submitted and settled."""
        added, settled = added + len(self.added), settled + len(self.settled)
        while len(self.added) < added or len(self.settled) < settled:
            assert not self.errors
            time.sleep(0.005)

    def _loop(self, step: Callable[[PostgresStore, str], None], number: int) -> None:
        try:
            for turn in range(100_000):
                if self._over.is_set():
                    return
                step(self._stores[number], f"{number}-{turn}")
        except Exception as error:  # noqa: BLE001 - told to the test
            self.errors.append(error)

    def _submit(self, store: PostgresStore, name: str) -> None:
        (job,) = store.add([make_job(name, created=1.0)])
        assert job.is_new
        self.added.append(job.id)

    def _work(self, store: PostgresStore, name: str) -> None:
        for each in claim(store, limit=3, holder=name, lease_for=600.0):
            if settle(store, each) is not None:
                self.settled.append((each.job.id, each.job.lease))


def check(load: Load, store: PostgresStore) -> None:
    """Nothing lost, nothing twice, and what was called settled has one record of it."""
    assert len(load.settled) == len(set(load.settled))
    assert len({job_id for job_id, _ in load.settled}) == len(load.settled)
    for name in load.added:
        job = get(store, name)
        assert len(history(store, name)) == (job.state is State.COMPLETED)
    for name, _ in load.settled:
        assert get(store, name).state is State.COMPLETED
    assert store.verify().ok


def test_sessions_that_are_ended_under_load_cost_nothing(
    opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """F28."""
    stores = [opener(clock=None) for _ in range(4)]
    with Load(stores) as load:
        for _ in range(12):
            load.until(added=4, settled=2)
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'redrive'"
            )
        load.until(added=4, settled=2)
    check(load, stores[0])


def test_a_server_that_is_stopped_at_once_and_started_again_has_everything(opener: Opener) -> None:
    """F26: clients wait for it; claims and fences hold."""
    stores = [opener(clock=None) for _ in range(4)]
    add_one(stores[0], "held", handler="other", created=1.0)
    mine = claim_one(stores[0], "other", lease_for=600.0)
    with Load(stores) as load:
        for _ in range(2):
            load.until(added=20, settled=10)
            pgkit.stop_at_once()
            pgkit.start_again()
        load.until(added=20, settled=10)
    assert claim(stores[1], "other", holder="w2") == []
    assert stores[1].seize(by="s", lease_for=60) == []
    assert settle(stores[0], mine) is not None
    assert settle(stores[1], mine) is None
    for name in load.added:  # a settlement may be forgotten by a server that crashed, a job never
        assert get(stores[0], name) is not None
    assert stores[0].verify().ok


def test_a_server_that_stays_away_is_an_error_in_the_end(opener: Opener) -> None:
    store = opener(patience=0.3)
    add_one(store, "a")
    pgkit.stop_at_once()
    try:
        with pytest.raises(StoreLost, match="is it running"):
            store.counts()
        with pytest.raises(StoreLost):
            opener()
    finally:
        pgkit.start_again()
    assert get(store, "a").state is State.PENDING
