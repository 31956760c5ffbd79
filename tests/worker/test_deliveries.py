"""A listener that took a process down runs in a child the next time, as a suspect job does."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from redrive import Redrive
from redrive.testing import ManualClock
from redrive.worker.deliveries import Deliveries
from workkit import until

PROGRAM = """
import os
from pathlib import Path
from redrive import Policy, Redrive, constant

app = Redrive("jobs.db")

@app.on("died", policy=Policy(attempts=9, alike=True, wait=constant(0)))
def tell(event):
    with Path("pids").open("a") as file:
        file.write(f"{os.getpid()}\\n")
    if Path("evil").exists():
        os._exit(7)

@app.on("resolved", timeout=0.3, policy=Policy(attempts=1))
def hang(event):
    import time
    time.sleep(60)
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A program that children can import."""
    (tmp_path / "listenshop.py").write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("listenshop")
    with module.app.capture("mail", {"to": "ada"}, reraise=False):
        raise ValueError("no such address")
    yield module
    module.app.close()
    del sys.modules["listenshop"]


def lose(shop: ModuleType) -> None:
    """Take the event as a process does that is killed then."""

    def taken() -> object:
        return shop.app.store.take_events(
            subscriptions=["tell"], holder="gone", lease_for=0.001, limit=1
        )

    until(taken)


def test_a_delivery_that_was_lost_runs_in_a_child(shop: ModuleType) -> None:
    lose(shop)
    until(lambda: shop.app.run_due() and not shop.app.store.waiting_events())
    (pid,) = Path("pids").read_text().split()
    assert int(pid) != os.getpid()


def test_a_listener_that_exits_its_process_leaves_this_one_alive(shop: ModuleType) -> None:
    lose(shop)
    Path("evil").touch()
    until(lambda: shop.app.run_due() and Path("pids").exists())
    Path("evil").unlink()
    until(lambda: shop.app.run_due() and not shop.app.store.waiting_events())
    first, second = Path("pids").read_text().split()
    assert os.getpid() not in {int(first), int(second)}


def test_a_listener_past_its_time_limit_is_ended(shop: ModuleType) -> None:
    shop.app.desk.resolve(state="dead")
    until(lambda: shop.app.run_due() and not shop.app.store.waiting_events())
    (dead,) = shop.app.desk.jobs.find(handler="redrive.on.hang").jobs
    assert dead.failure is not None
    assert dead.failure.category == "timeout"


@pytest.fixture
def clock() -> ManualClock:
    """A clock of the test's own."""
    return ManualClock()


@pytest.fixture
def deliveries(clock: ManualClock) -> Iterator[Deliveries]:
    """Deliveries of an app with one listener, `keeps`, and one event."""
    with Redrive("memory:", clock=clock) as app:
        app.on("died", name="keeps")(lambda _: None)
        die(app)
        yield Deliveries(app.submitter.runtime(), lambda: None)


def die(app: Redrive) -> None:
    with app.capture("mail", {}, reraise=False):
        raise ValueError("no such address")


def assert_put_off(deliveries: Deliveries, clock: ManualClock) -> None:
    """Take the event as another process: it was put off once, and never lost."""
    clock.advance(1)
    store = deliveries._runtime.store
    (event,) = store.take_events(subscriptions=["keeps"], holder="x", lease_for=1, limit=1)
    assert (event.attempts, event.lost) == (1, 0)


def test_an_event_that_is_taken_while_the_worker_stops_is_put_off(
    deliveries: Deliveries, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = deliveries._runtime.store
    take = store.take_events

    def take_last(**options: Any) -> object:
        deliveries.closing = True
        return take(**options)

    monkeypatch.setattr(store, "take_events", take_last)
    deliveries.start()
    until(lambda: not deliveries.is_busy)
    assert_put_off(deliveries, clock)


def test_a_delivery_that_fails_is_logged_with_the_name_of_its_listener(
    deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deliveries._runtime.store, "settle_events", None)
    deliveries.start()
    until(lambda: not deliveries.is_busy)
    assert "the delivery to listener keeps failed; trying again" in caplog.messages
