"""SIGTERM under load: what runs may end, what cannot is given back, nothing is spent."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgkit
from crewkit import Crew, app_of, crew, fill, wait_for
from redrive import Redrive
from redrive.attempts.conclusions import returned
from redrive.errors import StoreBusy
from redrive.worker.sweep import sweep
from workkit import LEASE, QUICK, Log, all_done, number, until, url_of

WAYS = ("work", "asleep", "apart")
"""In a thread, on the loop, in a child."""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A store for a crew."""
    if request.param != "postgresql":
        yield url_of(request.param, tmp_path)
        return
    schema = pgkit.fresh_name()
    yield pgkit.url_of(schema)
    pgkit.drop(schema)


@pytest.fixture
def app(url: str) -> Iterator[Redrive]:
    """An app on that store."""
    with app_of(url) as made:
        yield made


def load(app: Redrive, seconds: float, jobs: int = 100) -> None:
    """Store jobs for each way to run them, mixed."""
    for one in range(jobs):
        for way in WAYS:
            fill(app, way, [{"number": one, "seconds": seconds}])


def stop(made: Crew, *more: float) -> None:
    """Send SIGTERM, once more after each of these seconds; wait for a successful exit."""
    made.terminate()
    for seconds in more:
        time.sleep(seconds)
        made.terminate()
    assert made.end() == 0


def test_sigterm_under_load_lets_jobs_end_and_spends_nothing(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    load(app, 0.2)
    processes = "1" if url.startswith("jsonl:") else "2"
    with crew(tmp_path, url, "--processes", processes, "--grace", "60s") as made:
        wait_for(made, 20)
        stop(made)
        began, ended = made.ran(), made.ran("ended")
    assert {one.job for one in began} == {one.job for one in ended}
    assert len(began) == len(ended) == number(app, "completed")
    waiting = list(app.desk.jobs.each(state="pending"))
    assert len(waiting) == 300 - len(began)
    assert {(job.attempts, job.crashes) for job in waiting} == {(0, 0)}


def test_what_does_not_end_is_given_back_and_all_is_over_within_the_grace(
    app: Redrive, url: str, tmp_path: Path
) -> None:
    load(app, 600, jobs=10)
    with crew(tmp_path, url, "--grace", "10s") as made:
        wait_for(made, 8)
        stop(made)
        assert "it is killed" not in made.log()
    assert number(app, "pending") == 30
    assert {(job.attempts, job.crashes) for job in app.desk.jobs.each()} == {(0, 0)}


def test_a_second_sigterm_is_faster(tmp_path: Path) -> None:
    url = url_of("sqlite", tmp_path)
    with app_of(url) as app:
        load(app, 600, jobs=10)
        with crew(tmp_path, url, "--grace", "600s") as made:
            wait_for(made, 8)
            stop(made, 2)
        assert number(app, "pending") == 30
        assert {(job.attempts, job.crashes) for job in app.desk.jobs.each()} == {(0, 0)}


def test_a_signal_to_every_process_of_a_service_hurries_nobody(tmp_path: Path) -> None:
    """As terminals and service managers send it: workers get it twice, from them and from us."""
    url = url_of("sqlite", tmp_path)
    with app_of(url) as app:
        load(app, 2, jobs=10)
        with crew(tmp_path, url, "--processes", "2") as made:
            wait_for(made, 8)
            for pid in (made.pid, *made.workers()):
                os.kill(pid, signal.SIGINT)
            assert made.end() == 0
            assert len(made.ran()) == len(made.ran("ended")) == number(app, "completed") > 0
        assert {job.attempts for job in app.desk.jobs.each(state="pending")} <= {0}


@pytest.mark.parametrize("number_sent", [signal.SIGTERM, signal.SIGINT], ids=["TERM", "INT"])
def test_a_worker_started_with_sigint_ignored_is_still_stopped_by_signals(
    tmp_path: Path, number_sent: signal.Signals
) -> None:
    """As in the background of a script, or under nohup."""
    url = url_of("sqlite", tmp_path)
    with app_of(url) as app:
        load(app, 0.1, jobs=10)
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with crew(tmp_path, url) as made:
                wait_for(made, 1)
                os.kill(made.pid, number_sent)
                assert made.end() == 0
        finally:
            signal.signal(signal.SIGINT, before)
        assert {job.attempts for job in app.desk.jobs.each(state="pending")} <= {0}


@pytest.fixture
def own() -> Iterator[Redrive]:
    """An app with a worker in this process."""
    with Redrive("memory:", policy=QUICK, lease=LEASE) as made:
        yield made


def test_a_drain_takes_no_more_suspects(own: Redrive) -> None:
    """When one that crashed before ends during a drain, the next one is left for others."""
    runs, free, claims = Log(), threading.Event(), Log()

    @own.handler("n")
    def n(number: int) -> None:
        runs.note(number)
        free.wait(100)

    for one in range(3):
        n.submit(one)
    own.store.claim(["n"], limit=3, holder="gone", lease_for=0.01)
    time.sleep(0.05)
    sweep(own.submitter.runtime())
    own.listen(lambda event: claims.note(event.kind) if event.kind == "claimed" else None)
    with own.worker(grace=100) as worker:
        until(lambda: runs.seen)
        worker.stop()
        free.set()
    assert len(runs.seen) == len(claims.seen) == 1
    assert number(own, "pending") == 2


def test_the_last_results_are_kept_when_the_store_is_busy(
    own: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, usual, left = threading.Event(), own.store.settle, [2]

    def settle(results: object) -> object:
        if left[0] > 0:
            left[0] -= 1
            raise StoreBusy("not now")
        return usual(results)  # type: ignore[arg-type]

    @own.handler("long")
    def long() -> None:
        begun.set()
        time.sleep(30)

    job = long.submit()
    with own.worker(grace=1):
        until(begun.is_set)
        monkeypatch.setattr(own.store, "settle", settle)
    assert (own.get(job.id).state, own.get(job.id).attempts) == ("pending", 0)


def test_a_job_lost_and_claimed_again_by_the_same_worker_ends_both_times(own: Redrive) -> None:
    """The older run learns that it lost, its result is refused, and no slot is lost with it."""
    runs, free = Log(), threading.Event()

    @own.handler("twice")
    def twice() -> None:
        from redrive import current  # noqa: PLC0415

        me = current()
        runs.note(me)
        if len(runs.seen) == 1:
            free.wait(100)
            runs.note(me.lease_lost)

    twice.submit()
    with own.worker(concurrency=2, grace=600) as worker:  # it must not wait for what had ended
        until(lambda: runs.seen)
        (claim,) = own.store.seize(by="thief", lease_for=60, holder=worker.runtime.holder)
        own.store.settle([returned(claim)])
        until(lambda: all_done(own))
        free.set()
        until(lambda: len(runs.seen) == 3)
    assert runs.seen[2] is True
    assert number(own, "completed") == 1
