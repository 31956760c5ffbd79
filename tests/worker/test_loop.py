"""Every end on the event loop is somebody's, and nobody else's."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crewkit import crew, fill
from loopkit import LIMIT, MUTE, SHAPES, THRICE, Mute, handlers
from redrive import Redrive
from redrive.attempts import executions
from workkit import all_done, number, until

SLOW = 120.0
"""Seconds until something must have come about; the machine may be busy."""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redrive]:
    """An app on SQLite with handlers that harm their loop."""
    monkeypatch.setattr(executions, "BLOCKED", LIMIT)
    with Redrive(tmp_path / "jobs.db", policy=THRICE, lease=2.0) as made:
        handlers(made)
        yield made
    gc.collect()  # what asyncio logs of tasks that nobody awaited is logged here, not in other tests


def submit(app: Redrive, *names: str) -> tuple[list[str], list[str]]:
    """Store innocent jobs, some for each moment, and culprits among them; give both."""
    good = fill(app, "good", [{"seconds": 1.0} for _ in range(3)])
    evil = fill(app, "evil", [{"name": name} for name in names])
    good += fill(app, "good", [{"seconds": 0.1} for _ in range(6)])
    good += fill(app, "plain", [{} for _ in range(6)])
    return evil, good


def judge(app: Redrive, evil: list[str], good: list[str]) -> None:
    """See that the culprits died of three attempts, and that nobody else paid anything."""
    for job in map(app.get, evil):
        assert (job.state, job.attempts, sum(job.spent.values())) == ("dead", 3, 3), job
    for job in map(app.get, good):
        ends = [one.outcome for one in job.history]
        assert (job.state, job.attempts, job.crashes, ends) == ("completed", 1, 0, ["done"]), job


@pytest.mark.parametrize("name", ["blocks", "task_blocks", "cancels_all", "closes", "mute_leaves"])
def test_a_culprit_on_the_loop_dies_of_it_and_those_beside_it_pay_nothing(
    app: Redrive, name: str
) -> None:
    """Inside a program, where no process can be replaced."""
    evil, good = submit(app, name)
    with app.worker(concurrency=5, grace=1.0):
        until(lambda: all_done(app), SLOW)
    judge(app, evil, good)


def test_culprits_of_all_shapes_under_a_supervisor_die_and_those_beside_them_pay_nothing(
    tmp_path: Path,
) -> None:
    """`redrive work` with one process, as by default."""
    url = str(tmp_path / "jobs.db")
    with Redrive(url, policy=THRICE) as app:
        handlers(app)
        evil, good = submit(app, *SHAPES)
        with crew(tmp_path, url, program="loopkit:app", LOOP_URL=url) as made:
            until(lambda: all_done(app) or made.process is None, 2 * SLOW)
            made.terminate()
            assert made.end() == 0
        judge(app, evil, good)


def test_while_the_loop_is_blocked_others_run_in_children(tmp_path: Path) -> None:
    url = str(tmp_path / "jobs.db")
    more = {"LOOP_URL": url, "LOOP_LIMIT": "10000", "LOOP_SLEEP": "10000"}
    with Redrive(url, policy=THRICE) as app:
        handlers(app)
        (evil,) = fill(app, "evil", [{"name": "blocks"}])
        with crew(tmp_path, url, program="loopkit:app", **more):
            until(lambda: app.get(evil).state == "running", SLOW)
            good = fill(app, "good", [{"seconds": 0.1} for _ in range(4)])
            until(lambda: number(app, "completed") == 4, SLOW)
            assert app.get(evil).state == "running"
        judge(app, [], good)


def test_who_blocks_a_loop_is_in_the_sign_of_life_while_it_does(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executions, "BLOCKED", 10_000.0)
    free = threading.Event()

    @app.handler("stuck")
    async def stuck() -> None:
        free.wait(SLOW)

    def blocked() -> list[object]:
        return [one.blocked["job"] for one in app.desk.lanes.workers() if one.blocked]

    job = stuck.submit()
    with app.worker(grace=1.0):
        until(lambda: blocked() == [job.id], SLOW)
        free.set()
        until(lambda: app.desk.lanes.workers() and not blocked(), SLOW)
    assert app.get(job.id).state == "completed"


def test_the_error_of_a_blocked_loop_says_where_it_stood(app: Redrive) -> None:
    (job,) = fill(app, "evil", [{"name": "blocks"}])
    with app.worker(grace=1.0):
        until(lambda: app.get(job).crashes == 1, SLOW)
    (first, *_) = app.get(job).history
    assert (first.outcome, first.failure and first.failure.type) == ("crashed", "BlockedLoop")
    assert first.failure is not None
    assert "time.sleep(" in first.failure.traceback
    assert "asyncio.to_thread" in first.failure.message


def test_many_handlers_that_each_take_their_time_block_nothing(app: Redrive) -> None:
    """Together they hold the loop for longer than the limit; none of them does."""

    @app.handler("busy")
    async def busy(one: int) -> None:
        time.sleep(LIMIT / 4)  # noqa: ASYNC251 - that is the point

    for one in range(16):
        busy.submit(one)
    with app.worker(concurrency=16):
        until(lambda: all_done(app), SLOW)
    assert number(app, "completed") == 16
    assert [job.crashes for job in app.desk.jobs.each(state="completed")] == [0] * 16


def test_a_loop_that_comes_back_too_late_settles_nothing_twice(app: Redrive) -> None:
    free, runs = threading.Event(), list[int]()

    @app.handler("late")
    async def late() -> None:
        runs.append(1)
        if len(runs) == 1:
            free.wait(SLOW)

    job = late.submit()
    with app.worker(grace=1.0):
        until(lambda: app.get(job.id).state == "completed", SLOW)
        free.set()
        time.sleep(0.2)
    assert [one.outcome for one in app.get(job.id).history] == ["crashed", "done"]


def test_a_job_beside_a_loop_that_nobody_is_blamed_for_is_returned_once_and_then_alone(
    app: Redrive,
) -> None:
    """What hides who it is: a callback without a context. Alone, the end is its own."""
    beside = list[int]()

    @app.handler("hidden")
    async def hidden() -> None:
        tasks = [one for one in asyncio.all_tasks() if one.get_name().startswith("redrive-")]
        beside.append(len(tasks) - 1)
        loop = asyncio.get_running_loop()
        loop.call_soon(time.sleep, 60, context=contextvars.Context())
        await asyncio.sleep(60)

    good = fill(app, "good", [{"seconds": 0.5} for _ in range(3)])
    evil = [hidden.submit().id]
    with app.worker(concurrency=5, grace=1.0):
        until(lambda: all_done(app), SLOW)
    judge(app, evil, good)
    assert beside[1:] == [0, 0, 0], "after it was returned it ran alone"


@pytest.mark.parametrize("name", MUTE)
def test_errors_that_cannot_be_read_cost_no_slot(app: Redrive, name: str) -> None:
    """Eight of them stopped a worker with eight slots."""

    @app.handler("mute")
    def mute(number: int) -> None:
        raise Mute(MUTE[name])

    evil = [mute.submit(one).id for one in range(8)]
    with app.worker(concurrency=2):
        until(lambda: all_done(app), SLOW)
        good = fill(app, "plain", [{}])
        until(lambda: all_done(app), SLOW)
    judge(app, evil, good)


@pytest.mark.parametrize("name", ["cancels_all", "closes", "leaves", "mute_leaves"])
def test_in_a_pass_each_end_is_the_jobs_own_too(app: Redrive, name: str) -> None:
    """run_due() goes on whatever a handler does to the loop; one that blocks blocks its caller."""
    evil, good = submit(app, name)
    for _ in range(3):
        app.run_due(ignore_backoff=True)
    judge(app, evil, good)


def test_what_an_ended_job_left_on_the_loop_of_a_pass_fails_no_other(app: Redrive) -> None:
    @app.handler("leaves")
    async def leaves() -> None:
        asyncio.get_running_loop().call_later(0.05, exit, 3)

    leaves.submit()
    good = fill(app, "good", [{"seconds": 0.3}])
    app.run_due()
    judge(app, [], good)


def test_a_worker_that_ends_leaves_no_loop_behind(app: Redrive) -> None:
    before = set(threading.enumerate())  # loops that handlers of other tests block for ever
    fill(app, "good", [{"seconds": 0.01}])
    with app.worker():
        until(lambda: all_done(app), SLOW)
        new = set(threading.enumerate()) - before
        (thread,) = [one for one in new if one.name == "redrive-loop"]
    until(lambda: not thread.is_alive(), SLOW)
