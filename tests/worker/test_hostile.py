"""What an attacker found: nothing that a store, a clock or user code does stops a worker."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive import Policy, Redrive, constant
from redrive.errors import StoreBusy
from redrive.policies.policy import Pause
from redrive.stores.note_verbs import PAUSE
from redrive.testing import ManualClock
from redrive.worker import suspects
from redrive.worker.sweep import sweep
from workkit import LEASE, QUICK, number, until


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    """An app on SQLite."""
    with Redrive(tmp_path / "jobs.db", policy=QUICK, lease=LEASE) as made:
        yield made


def test_a_result_is_not_lost_when_the_store_cannot_be_asked_the_time(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = threading.Event()
    usual = app.store.now

    def now() -> float:
        if away.is_set():
            raise StoreBusy("away")
        return usual()

    @app.handler("n")
    def n() -> None:
        away.set()

    job = n.submit()
    with monkeypatch.context() as patch:
        patch.setattr(app.store, "now", now)
        with app.worker():
            until(lambda: number(app, "completed") == 1)
    assert [one.outcome for one in app.get(job.id).history] == ["done"]


def test_many_suspects_that_can_never_be_alone_stop_nobody_for_ever(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suspects, "ALONE", 3.0)
    free = threading.Event()

    @app.handler("long")
    def long() -> None:
        free.wait(120)

    @app.handler("suspect")
    def suspect() -> None: ...

    @app.handler("good")
    def good() -> None: ...

    for _ in range(30):
        suspect.submit()
    app.store.claim(["suspect"], limit=30, holder="gone", lease_for=0.01)
    time.sleep(0.05)
    sweep(app.submitter.runtime())
    long.submit()
    with app.worker(concurrency=4):
        until(lambda: number(app, "running") > 1)
        for _ in range(60):
            good.submit()
        until(lambda: number(app, "completed") >= 60, 40)
        assert number(app, "pending") + number(app, "running") >= 30, "the suspects wait meanwhile"
        free.set()


def test_already_done_may_hang_or_raise_anything_in_a_sweep(app: Redrive) -> None:
    free = threading.Event()

    def raises(**_: object) -> bool:
        raise asyncio.CancelledError

    @app.handler("hang", already_done=lambda: free.wait(20))
    def hang() -> None: ...

    @app.handler("raise", already_done=raises)
    def raise_() -> None: ...

    @app.handler("good")
    def good() -> None: ...

    hang.submit()
    raise_.submit()
    app.store.claim(["hang", "raise"], limit=2, holder="gone", lease_for=0.01)
    with app.worker():
        time.sleep(0.3)
        good.submit()
        until(lambda: number(app, "completed") >= 1)
        free.set()
        until(lambda: number(app, "completed") == 3)


def test_a_settlement_that_cannot_be_written_holds_no_slot(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = app.store.settle

    def settle(results: Any) -> Any:
        if any(one.claim.job.handler == "bad" for one in results):
            raise RuntimeError("cannot be written")
        return usual(results)

    @app.handler("bad")
    def bad() -> None: ...

    @app.handler("good")
    def good() -> None: ...

    bad.submit()
    with monkeypatch.context() as patch:
        patch.setattr(app.store, "settle", settle)
        with app.worker(concurrency=1):
            time.sleep(0.2)
            good.submit()
            until(lambda: number(app, "completed") == 1)


@pytest.mark.parametrize("value", ['{"mode": "releasing", "at": "x", "probe": 1, "rate": 1}', "[]"])
def test_a_pause_that_nobody_can_read_is_left_to_people(app: Redrive, value: str) -> None:
    @app.handler("n", policy=Policy(pause=Pause()))
    def n() -> None: ...

    n.submit()
    app.store.note(PAUSE + "n", value)
    app.store.note("worker:other", '{"handlers": 5, "lanes": {"a": 1}}')
    assert list(app.desk.lanes.unserved()) == ["n"]
    assert app.run_due().taken == 0
    assert [note.name for note in app.store.notes("pause:")] == [PAUSE + "n"]


def test_a_clock_that_is_put_back_does_not_hold_a_backlog() -> None:
    clock = ManualClock()
    policy = Policy(attempts=3, wait=constant(0.01), pause=Pause(after=1, probe=1, release=10))
    app = Redrive("memory:", policy=policy, clock=clock)
    down = [True]

    @app.handler("n")
    def n(one: int) -> None:
        if down[0]:
            raise ConnectionError

    for one in range(30):
        n.submit(one)
    app.run_due()
    down[0] = False
    clock.advance(2)
    app.run_due()
    later = clock.now() + 3600
    note = app.store.notes("pause:")[0]
    app.store.note(note.name, json.dumps({**json.loads(note.value), "at": later}))
    for _ in range(60):
        clock.advance(1)
        app.run_due()
    assert number(app, "completed") == 30
