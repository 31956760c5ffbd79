"""Settling beside the steering thread: nothing is settled twice, lost, or left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.errors import StoreBusy
from redrive.jobs.job import Job, Settlement
from workkit import Log, all_done, app_on, number, until


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    with app_on("beside", tmp_path) as made:
        yield made


class Slow:
    """Stands in the way of a store's settle."""

    def __init__(self, app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
        self.errors: list[BaseException] = []
        """Raised for batches."""
        self.alone: list[Exception] = []
        """Raised for single ones."""
        self.gate = threading.Event()
        self.gate.set()
        self.threads = set[str]()
        self.sizes: list[int] = []
        self.seconds = 0.0
        self.is_inside = False
        self._settle = app.store.settle
        monkeypatch.setattr(app.store, "settle", self)

    def __call__(self, results: Sequence[Settlement]) -> list[Job | None]:
        self.threads.add(threading.current_thread().name)
        assert self.gate.wait(20)
        self.is_inside = True
        time.sleep(self.seconds)
        self.is_inside = False
        if self.errors and len(results) > 1:
            raise self.errors.pop()
        if self.alone and len(results) == 1:
            raise self.alone.pop()
        self.sizes.append(len(results))
        return self._settle(results)


@pytest.fixture
def slow(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(app, monkeypatch)


def fill(app: Redrive, jobs: int) -> Log:
    log = Log()

    @app.handler("n")
    def n(number: int) -> None:
        log.note(number)

    for one in range(jobs):
        n.submit(one)
    return log


def test_what_the_store_could_not_take_is_settled_later(app: Redrive, slow: Slow) -> None:
    log = fill(app, 30)
    slow.errors = [StoreBusy("later") for _ in range(3)]
    with app.worker(concurrency=4, batch=10):
        until(lambda: all_done(app))
    assert (len(log.seen), slow.errors) == (30, []), "none ran twice"


def test_an_error_of_ours_and_then_one_of_the_store_loses_nothing(app: Redrive, slow: Slow) -> None:
    log = fill(app, 30)
    slow.alone = [StoreBusy("later")]
    slow.errors = [ValueError("one of them")]
    with app.worker(concurrency=4, batch=10):
        until(lambda: all_done(app))
    assert (len(log.seen), number(app, "completed"), slow.alone) == (30, 30, [])


@pytest.mark.parametrize("grace", [0, 1])
def test_what_has_ended_is_settled_whatever_the_grace(
    app: Redrive, slow: Slow, grace: float
) -> None:
    log = fill(app, 4)
    slow.seconds = 0.3
    with app.worker(concurrency=4, grace=grace):
        until(lambda: len(log.seen) == 4)
    assert number(app, "running") == 0
    assert number(app, "completed") == 4


def test_a_worker_that_stops_waits_for_what_is_being_settled(app: Redrive, slow: Slow) -> None:
    log = fill(app, 20)
    slow.gate.clear()
    threading.Timer(0.5, slow.gate.set).start()
    with app.worker(concurrency=4, batch=10, grace=10):
        until(lambda: len(log.seen) >= 10)
    assert number(app, "running") == 0
    assert number(app, "completed") == len(log.seen)
