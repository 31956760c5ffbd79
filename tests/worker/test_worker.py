"""The worker inside a program: batches, slots, the loop, timeouts, shutdown."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Event, GiveUp, Policy, Redrive, RetryLater, Skip, constant, current
from redrive.attempts import presence, worker_notes
from redrive.worker.sweep import sweep
from workkit import LEASE, Log, all_done, app_on, number, until


@pytest.fixture(params=["beside", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redrive]:
    """An app that is settled in its own thread, or beside it as on a server."""
    with app_on(request.param, tmp_path) as made:
        yield made


def test_it_runs_what_was_submitted_before_and_what_comes_later(app: Redrive) -> None:
    log = Log()

    @app.handler("n")
    def n(number: int) -> None:
        log.note(number)

    for one in range(50):
        n.submit(one)
    with app.worker(concurrency=4):
        until(lambda: len(log.seen) == 50)
        n.submit(50)
        until(lambda: len(log.seen) == 51)
    assert sorted(map(int, log.seen)) == list(range(51))  # type: ignore[call-overload]
    assert number(app, "completed") == 51


def test_its_heartbeat_says_what_its_slots_are_busy_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SIGN_EVERY", 0.02)
    go_on = threading.Event()
    with app_on("memory", tmp_path) as app:
        mail = app.handler("mail.send")(lambda: go_on.wait(30))
        for _ in range(3):
            mail.submit()

        def slots() -> worker_notes.Slots | None:
            (*_, worker) = [None, *app.desk.lanes.workers()]
            return worker.slots if worker else None

        began = app.store.now()
        with app.worker(concurrency=2):
            until(lambda: (seen := slots()) is not None and seen.busy == 2)
            seen = slots()
            go_on.set()
        assert seen is not None
        ((handler, jobs, since),) = seen.running
        assert (handler, jobs, seen.total) == ("mail.send", 2, 2)
        assert began - 1 <= since <= (seen.since or 0.0) <= app.store.now() + 1


def test_a_worker_that_drains_sends_heartbeats_and_serves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "SIGN_EVERY", 0.02)
    go_on = threading.Event()
    with app_on("memory", tmp_path) as app:
        mail = app.handler("mail.send")(lambda: go_on.wait(30))
        mail.submit()
        with app.worker(concurrency=1) as worker:
            until(lambda: number(app, "running") == 1)
            mail.submit()
            worker.stop(30)
            until(lambda: "mail.send" in app.desk.lanes.unserved())
            versions: set[int] = set()
            until(lambda: versions.update(note_versions(app)) or len(versions) > 3)
            (seen,) = app.desk.lanes.workers()
            go_on.set()
    assert (seen.lanes, seen.slots and seen.slots.busy) == ((), 1)


def note_versions(app: Redrive) -> list[int]:
    """Return how often each worker wrote its note."""
    return [note.version for note in app.store.notes(worker_notes.WORKER)]


def test_async_handlers_run_side_by_side_on_one_loop(app: Redrive) -> None:
    threads, together = set[int](), asyncio.Event()
    waiting = Log()

    @app.handler("meet")
    async def meet(who: int) -> None:
        threads.add(threading.get_ident())
        waiting.note(who)
        if len(waiting.seen) == 5:
            together.set()
        await asyncio.wait_for(together.wait(), 10)

    for one in range(5):
        meet.submit(one)
    with app.worker(concurrency=5):
        until(lambda: number(app, "completed") == 5)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_no_more_handlers_run_at_once_than_asked_for(app: Redrive) -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def enter(by: int) -> None:
        nonlocal inside, most
        with lock:
            inside += by
            most = max(most, inside)

    @app.handler("plain")
    def plain(number: int) -> None:
        enter(1)
        time.sleep(0.01)
        enter(-1)

    for one in range(30):
        plain.submit(one)
    with app.worker(concurrency=3):
        until(lambda: all_done(app))
    assert most == 3


def test_failures_are_retried_with_their_wait_and_end_dead(app: Redrive) -> None:
    tries = Log()

    @app.handler("bad")
    def bad() -> None:
        tries.note(current().attempt)
        raise ConnectionError("down")

    job = bad.submit()
    with app.worker():
        until(lambda: number(app, "dead") == 1)
    assert tries.seen == [1, 2, 3]
    dead = app.get(job.id)
    assert (dead.reason, dead.attempts, len(dead.history)) == ("exhausted", 3, 3)


def test_skip_give_up_and_retry_later_mean_what_they_say(app: Redrive) -> None:
    @app.handler("skip")
    def skip() -> None:
        raise Skip("nothing to do")

    @app.handler("stop")
    def stop() -> None:
        raise GiveUp("no use")

    @app.handler("later")
    def later() -> None:
        if current().attempt == 1:
            raise RetryLater(0.05)

    ids = [skip.submit().id, stop.submit().id, later.submit().id]
    with app.worker():
        until(lambda: all_done(app))
    jobs = [app.get(one) for one in ids]
    assert [(job.state, job.reason) for job in jobs] == [
        ("completed", "skipped"),
        ("dead", "permanent"),
        ("completed", "done"),
    ]


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), BaseException("odd")])
def test_whatever_a_handler_raises_is_a_failure_of_its_job_only(
    app: Redrive, error: BaseException
) -> None:
    @app.handler("odd", attempts=1)
    def odd() -> None:
        raise error

    @app.handler("good")
    def good() -> None: ...

    odd.submit()
    for _ in range(10):
        good.submit()
    with app.worker(concurrency=2):
        until(lambda: all_done(app))
    assert (number(app, "completed"), number(app, "dead")) == (10, 1)


def test_an_async_handler_past_its_limit_is_ended(app: Redrive) -> None:
    @app.handler("slow", timeout=0.05, attempts=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    job = slow.submit()
    with app.worker():
        until(lambda: number(app, "dead") == 1)
    failure = app.get(job.id).failure
    assert failure is not None
    assert (failure.category, failure.why) == ("timeout", "ran past its time limit of 0.05 s")


def test_a_thread_that_ignores_its_limit_is_given_up_and_its_slot_replaced(
    app: Redrive, caplog: pytest.LogCaptureFixture
) -> None:
    """Its late result changes nothing."""
    free, ended = threading.Event(), threading.Event()

    @app.handler("stuck", timeout=0.1, attempts=1, isolation="thread")
    def stuck() -> None:
        free.wait(30)
        ended.set()

    @app.handler("good")
    def good() -> None: ...

    job = stuck.submit()
    with app.worker(concurrency=1):
        until(lambda: number(app, "dead") == 1)
        good.submit()
        until(lambda: number(app, "completed") == 1)
        free.set()
        until(ended.is_set)
    dead = app.get(job.id)
    assert (dead.state, dead.failure and dead.failure.category) == ("dead", "timeout")
    assert "its slot is lost" in caplog.text


def test_after_some_lost_slots_the_worker_asks_to_be_replaced(app: Redrive) -> None:
    free = threading.Event()

    @app.handler("stuck", timeout=0.05, attempts=1, isolation="thread")
    def stuck(number: int) -> None:
        free.wait(30)

    for one in range(4):
        stuck.submit(one)
    worker = app.worker(concurrency=4, grace=5, replaced=True)
    worker.run()  # ends by itself
    free.set()
    assert worker.wants_replacement
    assert number(app, "running") == 0


def test_a_shutdown_lets_jobs_end_and_gives_back_what_was_not_begun(app: Redrive) -> None:
    """Nothing is spent for a job that never began."""
    begun = Log()

    @app.handler("slow")
    def slow(number: int) -> None:
        begun.note(number)
        time.sleep(0.3)

    for one in range(20):
        slow.submit(one)
    with app.worker(concurrency=2):
        until(lambda: len(begun.seen) >= 2)
    assert number(app, "running") == 0
    assert number(app, "completed") == len(begun.seen)
    waiting = list(app.desk.jobs.each(state="pending"))
    assert len(waiting) == 20 - len(begun.seen)
    assert {job.attempts for job in waiting} == {0}


def test_what_does_not_end_in_its_grace_is_given_back_and_its_late_result_is_refused(
    app: Redrive,
) -> None:
    begun, free, lost = threading.Event(), threading.Event(), Log()

    @app.handler("long")
    def long() -> None:
        me = current()
        begun.set()
        free.wait(30)
        lost.note(me.lease_lost)

    job = long.submit()
    with app.worker(grace=0.1):
        until(begun.is_set)
    assert (app.get(job.id).state, app.get(job.id).attempts) == ("pending", 0)
    free.set()
    until(lambda: lost.seen)
    assert lost.seen == [True]
    assert app.get(job.id).state == "pending"


def test_cancelled_async_handlers_are_given_back_at_the_end_of_the_grace(app: Redrive) -> None:
    begun = threading.Event()

    @app.handler("long")
    async def long() -> None:
        begun.set()
        await asyncio.sleep(600)

    job = long.submit()
    with app.worker(grace=0.1):
        until(begun.is_set)
    assert (app.get(job.id).state, app.get(job.id).attempts) == ("pending", 0)


def test_leases_are_renewed_while_a_handler_runs_longer_than_one(app: Redrive) -> None:
    tries = Log()

    @app.handler("long")
    def long() -> None:
        tries.note(current().attempt)
        time.sleep(LEASE * 1.6)

    long.submit()
    with app.worker(), app.worker():
        until(lambda: number(app, "completed") == 1)
    assert tries.seen == [1]


def test_listeners_hear_everything_and_can_stop_nothing(app: Redrive) -> None:
    told, block = Log(), threading.Event()

    @app.handler("ok")
    def ok() -> None: ...

    def blocking(event: Event) -> None:
        if event.kind == "succeeded":
            block.wait(20)

    app.listen(lambda event: told.note(event.kind))
    app.listen(blocking)
    for _ in range(20):
        ok.submit()
    with app.worker():
        until(lambda: number(app, "completed") == 20)
        block.set()
    assert [told.seen.count(kind) for kind in ("submitted", "claimed", "succeeded")] == [20] * 3


def test_a_store_that_fails_for_a_while_loses_no_result(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A result is kept until it is settled."""
    from redrive.errors import StoreBusy  # noqa: PLC0415

    runs, usual, left = Log(), app.store.settle, [3]

    def settle(results: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise StoreBusy("not now")
        return usual(results)  # type: ignore[arg-type]

    @app.handler("once")
    def once() -> None:
        runs.note(1)

    monkeypatch.setattr(app.store, "settle", settle)
    once.submit()
    with caplog.at_level(logging.WARNING), app.worker():
        until(lambda: number(app, "completed") == 1)
    assert runs.seen == [1]
    assert "trying again: not now" in caplog.text


def test_a_job_that_crashed_before_runs_when_nothing_else_does(app: Redrive) -> None:
    """M5, in a program that no child could import."""
    inside, alone, lock = 0, Log(), threading.Lock()

    def enter(by: int) -> int:
        nonlocal inside
        with lock:
            inside += by
            return inside

    @app.handler("n")
    def n(number: int) -> None:
        here = enter(1)
        if number == 0:
            alone.note(here)
        time.sleep(0.005)
        if number == 0:
            alone.note(enter(0))
        enter(-1)

    job = n.submit(0)
    app.store.claim(["n"], limit=1, holder="gone", lease_for=0.01)
    time.sleep(0.05)
    sweep(app.submitter.runtime())
    assert app.get(job.id).crashes == 1
    for one in range(1, 100):
        n.submit(one)
    with app.worker(concurrency=4):
        until(lambda: all_done(app))
    assert alone.seen == [1, 1]


def test_an_app_can_have_a_worker_again_and_again(app: Redrive) -> None:
    @app.handler("ok")
    def ok() -> None: ...

    before = threading.active_count()
    for _ in range(5):
        ok.submit()
        with app.worker():
            until(lambda: all_done(app))
    assert number(app, "completed") == 5
    until(lambda: threading.active_count() <= before)


def test_a_wait_is_kept_and_not_much_more() -> None:
    """A retry's due time is known here, so nobody has to look for it."""
    app = Redrive("memory:", policy=Policy(attempts=2, wait=constant(0.2)))
    times = Log()

    @app.handler("twice")
    def twice() -> None:
        times.note(time.monotonic())
        if current().attempt == 1:
            raise ConnectionError

    twice.submit()
    with app.worker(poll=600):
        until(lambda: number(app, "completed") == 1)
    first, second = times.seen
    assert isinstance(first, float)
    assert isinstance(second, float)
    assert second - first > 0.1


def test_last_attempts_never_wait_in_line_and_still_all_run(app: Redrive) -> None:
    """ADR 8: what a crash would end must have begun."""

    @app.handler("once", attempts=1)
    def once(number: int) -> None: ...

    for one in range(200):
        once.submit(one)
    with app.worker(concurrency=4):
        until(lambda: number(app, "completed") == 200)
    assert {job.attempts for job in app.desk.jobs.each()} == {1}
