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
from redrive.worker.passes import PassRunner
from redrive.worker.sweep import sweep
from workkit import LEASE, QUICK, number, until


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    """An app on SQLite."""
    with Redrive(tmp_path / "jobs.db", policy=QUICK, lease=LEASE) as made:
        yield made


def crashed(app: Redrive, name: str) -> None:
    """Have a job of that handler orphaned and swept."""
    app.store.claim([name], limit=1, holder="gone", lease_for=0.01)
    time.sleep(0.05)
    sweep(app.submitter.runtime())


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


def test_a_failure_is_kept_when_nobody_can_say_whether_its_lane_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = Policy(attempts=1, pause=Pause())
    with Redrive(tmp_path / "jobs.db", policy=policy) as app:

        @app.handler("n")
        def n() -> None:
            raise ConnectionError

        def away(_prefix: str = "") -> Any:
            raise StoreBusy("away")

        job = n.submit()
        runtime = app.submitter.runtime()
        monkeypatch.setattr(runtime.pauses, "_tripped", away)
        PassRunner(runtime).run()
        assert app.get(job.id).reason == "exhausted"


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


def test_who_takes_over_and_dies_is_not_taken_for_one_who_never_began(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last attempt that began is never run again because its sweeper died."""

    def dies(*_: object) -> None:
        raise StoreBusy("the sweeper died")

    @app.handler("once", attempts=1)
    def once() -> None: ...

    job = once.submit()
    store = app.store
    store.note("began:a", "[]")
    (claim,) = store.claim(["once"], limit=1, holder="a", lease_for=0.01)
    store.note("began:a", json.dumps([[job.id, claim.job.lease]]))
    time.sleep(0.05)
    store.note("began:b", "[]")
    dying = app.submitter.runtime()
    dying.holder, dying.lease_for = "b", 0.01
    with monkeypatch.context() as patch:
        patch.setattr("redrive.worker.sweep._settle_crash", dies)
        with pytest.raises(StoreBusy):
            sweep(dying)
    time.sleep(0.05)
    sweep(app.submitter.runtime())
    assert (app.get(job.id).state, app.get(job.id).crashes) == ("dead", 1)


@pytest.mark.parametrize("note", ["null", "[1]", "nonsense", '{"a": 1}'])
def test_a_note_that_nobody_can_read_means_that_it_began(app: Redrive, note: str) -> None:
    @app.handler("once", attempts=1)
    def once() -> None: ...

    job = once.submit()
    app.store.note("began:gone", note)
    crashed(app, "once")
    assert app.get(job.id).state == "dead"


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


def test_a_lane_that_others_serve_too_is_not_let_go_by_one_who_has_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    policy = Policy(attempts=9, wait=constant(0.01), pause=Pause(after=2, probe=1, release=5))
    with Redrive(tmp_path / "jobs.db", policy=policy, clock=clock) as app:
        down = [True]

        @app.handler("mine", lane="shared")
        def mine(one: int) -> None:
            if down[0]:
                raise ConnectionError

        for one in range(40):
            mine.submit(one)
        app.run_due()
        down[0] = False
        clock.advance(2)
        app.run_due()
        clock.advance(1)
        with Redrive(tmp_path / "jobs.db", policy=policy, clock=clock) as other:

            @other.handler("theirs", lane="shared")
            def theirs() -> None: ...

            other.run_due()
        assert len(app.store.notes("pause:")) == 1
