"""Running in place: try_now and capture keep what fails, and store nothing else."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
import uuid
from pathlib import Path

import pytest

import redrive
from redrive import Policy, Redrive, State, constant
from redrive.errors import Kept, UsageError
from redrive.testing import ManualClock
from redrive.worker.sweep import sweep


def test_try_now_gives_the_value_and_stores_nothing(app: Redrive) -> None:
    @app.handler("double")
    def double(number: int) -> int:
        return number * 2

    tried = double.try_now(4)
    assert (tried.done, tried.value, tried.job) == (True, 8, None)
    assert app.desk.jobs.counts() == []


def test_try_now_keeps_a_failure_as_attempt_one(app: Redrive, clock: ManualClock) -> None:
    """The failed inline run is attempt 1, with the policy's wait, and is retried later."""
    calls: list[int] = []

    @app.handler("once", policy=Policy(attempts=3, wait=constant(60, jitter="none")))
    def once(number: int) -> int:
        calls.append(number)
        if len(calls) == 1:
            raise ConnectionError("refused")
        return number

    tried = once.try_now(4)
    assert not tried.done
    assert tried.job is not None
    with pytest.raises(Kept, match=tried.job.id) as caught:
        _ = tried.value
    assert caught.value.job.id == tried.job.id
    kept = app.get(tried.job.id)
    assert (kept.state, kept.attempts, kept.due) == (State.PENDING, 1, clock.now() + 60)
    assert [a.outcome for a in kept.history] == ["failed"]
    assert kept.group is not None
    clock.advance(60)
    assert app.run_due().succeeded == 1
    assert [a.number for a in app.get(kept.id).history] == [1, 2]


def test_try_now_that_is_hopeless_is_a_dead_letter_at_once(app: Redrive) -> None:
    """J1, E."""

    @app.handler("bad")
    def bad() -> None:
        raise redrive.GiveUp("no such account")

    tried = bad.try_now()
    assert tried.job is not None
    assert (tried.job.state, tried.job.reason) == ("dead", "permanent")


def test_try_now_with_a_known_key_does_not_run_and_gives_that_job(
    app: Redrive, caplog: pytest.LogCaptureFixture
) -> None:
    """And warns, with the command, when that job is closed."""
    calls: list[int] = []

    @app.handler("keyed", policy=Policy(attempts=1))
    def keyed() -> None:
        calls.append(1)
        raise ValueError("no")

    first = keyed.options(key="k").try_now().job
    with caplog.at_level(logging.WARNING, "redrive"):
        second = keyed.options(key="k").try_now()
    assert first is not None
    assert second.job is not None
    assert (second.done, second.job.id, second.job.is_new) == (False, first.id, False)
    assert calls == [1]
    assert f"redrive retry {first.id}" in caplog.text


def test_a_durable_try_now_is_stored_before_it_runs_and_settled_after(app: Redrive) -> None:
    seen: list[State] = []

    @app.handler("durable", policy=Policy(attempts=2, wait=constant(5)))
    def durable(fail: bool) -> str:
        seen.append(app.get(redrive.current().job_id).state)
        if fail:
            raise ConnectionError("no")
        return "yes"

    worked = durable.options(durable=True).try_now(fail=False)
    failed = durable.options(durable=True).try_now(fail=True)
    assert seen == [State.RUNNING, State.RUNNING]
    assert worked.value == "yes"
    assert worked.job is not None
    assert worked.job.state is State.COMPLETED
    assert failed.job is not None
    assert (failed.job.state, failed.job.attempts) == (State.PENDING, 1)


def test_ctrl_c_in_a_durable_try_now_gives_the_job_back_unspent(app: Redrive) -> None:
    """An interruption is not an attempt."""

    @app.handler("stop")
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop.options(durable=True).try_now()
    [job] = app.desk.jobs.find().jobs
    assert (job.state, job.attempts) == (State.PENDING, 0)


def test_ctrl_c_in_a_pass_gives_back_everything_unspent(app: Redrive) -> None:
    @app.handler("stop")
    def stop() -> None:
        signal.raise_signal(signal.SIGINT)

    for _ in range(3):
        stop.submit()
    with pytest.raises(KeyboardInterrupt):
        app.run_due()
    assert {(j.state, j.attempts) for j in app.desk.jobs.find().jobs} == {(State.PENDING, 0)}


def test_sys_exit_in_a_handler_is_a_failure_never_a_success(app: Redrive) -> None:
    @app.handler("quit")
    def leave() -> None:
        raise SystemExit(0)

    job = leave.submit()
    assert app.run_due().failed == 1
    assert app.get(job.id).failure is not None


def test_capture_without_a_handler_is_dead_and_goes_on_up(app: Redrive) -> None:
    with pytest.raises(ZeroDivisionError), app.capture("etl.row", {"row": 7}):
        _ = 1 / 0
    [job] = app.desk.jobs.find(state="dead").jobs
    assert (job.handler, job.reason, job.payload) == ("etl.row", "captured", '{"row":7}')
    assert app.get(job.id).history[0].failure.type == "ZeroDivisionError"  # type: ignore[union-attr]


def test_capture_with_a_handler_is_retried_and_may_be_swallowed(app: Redrive) -> None:
    rows: list[int] = []

    @app.handler("etl.row", policy=Policy(attempts=3, wait=constant(0)))
    def load(row: int) -> None:
        rows.append(row)

    with app.capture("etl.row", {"row": 7}, reraise=False):
        raise ConnectionError("no")
    with app.capture("etl.row", {"row": 8}):
        pass
    assert app.run_due().succeeded == 1
    assert rows == [7]


def test_async_handlers_and_callers(app: Redrive) -> None:
    """Async twins of submit and try_now, async handlers in a pass, any verb by aio."""

    @app.handler("twice", policy=Policy(attempts=2, wait=constant(0)))
    async def twice(number: int) -> int:
        await asyncio.sleep(0)
        if number < 0:
            raise ValueError("negative")
        return number * 2

    async def program() -> None:
        assert (await twice.atry_now(4)).value == 8
        assert not (await twice.atry_now(-1)).done
        job = await twice.asubmit(5)
        with pytest.raises(UsageError, match=r"app\.aio"):
            app.run_due()
        done = await app.aio(app.run_due)
        assert (done.succeeded, done.died) == (1, 1)
        assert (await app.aio(app.get, job.id)).state is State.COMPLETED

    asyncio.run(program())
    with pytest.raises(UsageError, match="atry_now"):
        twice.try_now(1)


def test_an_async_handler_past_its_time_limit_is_a_timeout(app: Redrive) -> None:
    """E: the category timeout, not transient."""

    @app.handler("slow", timeout=0.01)
    async def slow() -> None:
        await asyncio.Event().wait()

    @app.handler("own")
    async def own() -> None:
        raise TimeoutError("the other side")

    slow_job, own_job = slow.submit(), own.submit()
    app.run_due()
    assert app.get(slow_job.id).spent == {"timeout": 1}
    assert app.get(own_job.id).spent == {"transient": 1}


def test_a_vanished_worker_counts_as_a_crash_and_the_third_one_is_death(
    app: Redrive, clock: ManualClock
) -> None:
    """Counted at claim, so kill -9 is seen; the job ends by itself."""

    @app.handler("poison")
    def poison() -> None: ...

    job = poison.submit()
    for number in range(1, 4):
        claims = app.store.claim(
            ["poison"],
            limit=1,
            holder=f"w{number}",
            lease_for=30,
            suspects=number > 1,
            ignore_waits=True,
        )
        assert len(claims) == 1
        clock.advance(31)
        sweep(app.submitter.runtime())
        assert app.get(job.id).crashes == number
    dead = app.get(job.id)
    assert (dead.state, dead.reason) == ("dead", "crash")
    assert [a.outcome for a in dead.history] == ["crashed"] * 3
    assert dead.history[0].worker == "w1"


def test_already_done_is_asked_before_death_and_after_an_unseen_end(
    app: Redrive, clock: ManualClock
) -> None:
    paid = {1}

    @app.handler("pay", policy=Policy(attempts=1), already_done=lambda invoice: invoice in paid)
    def pay(invoice: int) -> None:
        raise ConnectionError("no answer")

    @app.handler("fenced", policy=Policy(attempts=1), already_done=lambda: 1 / 0)
    def fenced() -> None:
        raise ConnectionError("no answer")

    known, new, hostile = pay.submit(1), pay.submit(2), fenced.submit()
    app.run_due()
    assert (app.get(known.id).state, app.get(known.id).reason) == ("completed", "already_done")
    assert app.get(new.id).state is State.DEAD
    assert app.get(hostile.id).state is State.DEAD
    unseen = pay.submit(1)
    app.store.claim(["pay"], limit=1, holder="gone", lease_for=1)
    clock.advance(2)
    app.run_due()
    assert app.get(unseen.id).reason == "already_done"


def test_listeners_are_told_after_it_is_true_and_cannot_stop_anything(app: Redrive) -> None:
    """design: user code is fenced."""
    told: list[str] = []

    @app.handler("ok")
    def ok() -> None: ...

    def hostile(event: redrive.Event) -> None:
        raise RuntimeError("listener")

    app.listen(hostile)
    stop = app.listen(lambda event: told.append(event.kind))
    ok.submit()
    app.run_due()
    stop()
    ok.submit()
    assert told == ["submitted", "claimed", "succeeded"]


def test_a_handler_is_told_that_its_lease_is_gone_and_its_result_does_not_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The heartbeat notices; the late result goes to the log and nowhere else."""
    with Redrive(tmp_path / "jobs.db", lease=0.03) as app:

        @app.handler("slow")
        def slow() -> None:
            current = redrive.current()
            app.store.seize(by="thief", lease_for=60, holder=app.submitter.holder)
            while not current.lease_lost:
                threading.Event().wait(0.001)

        job = slow.submit()
        with caplog.at_level(logging.WARNING, "redrive"):
            assert app.run_due().taken == 0
        assert app.get(job.id).holder == "thief"
        assert "was discarded" in caplog.text


def test_a_time_limit_of_a_plain_function_is_said_not_to_be_kept_here_once(
    app: Redrive,
) -> None:
    @app.handler(f"slow-{uuid.uuid4()}", timeout=0.001)
    def slow() -> None:
        time.sleep(0.01)

    slow.submit()
    with pytest.warns(RuntimeWarning, match=f"limit of handler '{slow.name}' is not enforced here"):
        assert slow.try_now().done
    assert app.run_due().succeeded == 1


def test_who_asks_for_a_process_of_its_own_is_not_run_in_this_one(app: Redrive) -> None:
    @app.handler("wild", isolation="process")
    def wild() -> None: ...

    job = wild.submit()
    for run in (app.run_due, app.worker):
        with pytest.raises(UsageError, match=r"'wild' asks for a process of its own.*program="):
            run()
    assert app.get(job.id).attempts == 0
