"""Workers that die and handlers that never come back harm no other job."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crewkit import app_of, crew, fill
from redrive import Redrive, current
from redrive.attempts import leases
from redrive.errors import StoreBusy
from redrive.jobs.ids import new_holder
from redrive.worker import suspects
from redrive.worker.sweep import sweep
from workkit import LEASE, Log, all_done, app_on, number, until, url_of


@pytest.fixture(params=["beside", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redrive]:
    """An app on each store of one host."""
    with app_on(request.param, tmp_path) as made:
        yield made


def test_a_crashed_attempt_names_its_worker_its_start_and_its_release(app: Redrive) -> None:

    @app.handler("n")
    def n(number: int) -> None: ...

    job = n.submit(1)
    holder = new_holder()
    app.store.note(f"worker:{holder}", '{"release":"r7"}', expires_in=60)
    (claim,) = app.store.claim(["n"], limit=1, holder=holder, lease_for=0.01)
    time.sleep(0.05)
    sweep(app.submitter.runtime())
    (attempt,) = app.get(job.id).history
    assert attempt.worker == f"{socket.gethostname()}:{os.getpid()}"
    assert (attempt.started, attempt.release) == (claim.job.updated, "r7")


@pytest.mark.parametrize("attempts", [1, 2])
def test_only_a_last_attempt_that_began_is_spent_when_its_worker_dies(
    app: Redrive, attempts: int
) -> None:
    """Three workers died: one with a note of what it began, one before, one without a note."""

    @app.handler("n", attempts=attempts)
    def n(number: int) -> None: ...

    jobs = [n.submit(number) for number in range(4)]
    ends: list[tuple[str, int]] = []
    suspects.note_begun(app.store, "noting", ())
    for holder, only in (("noting", jobs[:2]), ("silent", jobs[2:])):
        for _ in range(attempts):
            ids = [job.id for job in only]
            claims = app.store.claim(["n"], limit=2, holder=holder, lease_for=0.01, only=ids)
            claims += [
                one
                for job in ids
                for one in app.store.claim(
                    ["n"], limit=1, holder=holder, lease_for=0.01, only=[job], suspects=True
                )
            ]
            assert len(claims) == 2
            if holder == "noting" and claims[0].job.attempts >= attempts:
                suspects.note_begun(app.store, holder, claims[:1])
            time.sleep(0.05)
            sweep(app.submitter.runtime())
            time.sleep(0.05)
    ends = [(app.get(job.id).state, app.get(job.id).attempts) for job in jobs]
    dead = ("dead", attempts)
    assert ends == [dead, ("pending", attempts - 1), dead, dead]


@pytest.mark.parametrize("began", [False, True])
def test_a_suspect_that_its_worker_never_began_has_no_further_crash(
    app: Redrive, began: bool
) -> None:
    """It only waited, until it could run alone, when its worker was stopped or killed."""

    @app.handler("n", attempts=9)
    def n() -> None: ...

    job = n.submit()
    for lives in range(4):
        suspects.note_begun(app.store, f"worker-{lives}", ())
        (claim,) = app.store.claim(
            ["n"], limit=1, holder=f"worker-{lives}", lease_for=0.01, suspects=lives > 0
        ) or (None,)
        if claim is not None and began:
            suspects.note_begun(app.store, f"worker-{lives}", [claim])
        time.sleep(0.05)
        sweep(app.submitter.runtime())
        time.sleep(0.05)
    found = app.get(job.id)
    assert (found.state, found.crashes) == (("dead", 3) if began else ("pending", 1))


def test_last_attempts_are_noted_and_the_note_goes_with_the_worker(app: Redrive) -> None:
    notes = Log()

    @app.handler("n", attempts=1)
    def n(number: int) -> None:
        (note,) = app.store.notes("began:")
        notes.note(current().job_id in note.value)

    for one in range(20):
        n.submit(one)
    with app.worker(concurrency=4):
        until(lambda: all_done(app))
    assert notes.seen == [True] * 20
    assert app.store.notes("began:") == []


def test_a_job_whose_handler_never_came_back_is_left_to_other_workers_for_a_while(
    app: Redrive,
) -> None:
    """Its slot is lost, so it must not take another; nor is it claimed without end."""
    free, runs, claims = threading.Event(), Log(), Log()

    @app.handler("stuck", timeout=0.05, attempts=2, isolation="thread")
    def stuck() -> None:
        runs.note(current().attempt)
        if len(runs.seen) == 1:
            free.wait(30)

    app.listen(lambda event: claims.note(event.kind) if event.kind == "claimed" else None)
    stuck.submit()
    with app.worker(concurrency=2):
        until(lambda: len(claims.seen) == 2)
        time.sleep(0.5)
        assert (runs.seen, len(claims.seen)) == ([1], 2)
        free.set()
        until(lambda: number(app, "completed") == 1)
    assert runs.seen == [1, 2]


def test_an_async_handler_that_ignores_its_limit_stops_nobody(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that wait in line behind it run, also when nothing new is claimed."""
    monkeypatch.setattr(leases, "_DEAF", 0.1)
    free = threading.Event()

    @app.handler("deaf", timeout=0.05, attempts=1)
    async def deaf() -> None:
        while not free.is_set():
            try:
                await asyncio.sleep(0.02)
            except asyncio.CancelledError:
                continue

    @app.handler("good")
    async def good() -> None: ...

    deaf.submit()
    for _ in range(5):
        good.submit()
    with app.worker(concurrency=1, batch=10):
        until(lambda: number(app, "completed") == 5)
        free.set()
    assert number(app, "dead") == 1


def test_a_store_that_fails_between_two_suspects_costs_nothing(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, usual, failures = Log(), app.store.claim, [3]

    @app.handler("n")
    def n(number: int) -> None:
        runs.note(number)

    def claim(*args: object, **options: object) -> object:
        if options.get("suspects") and runs.seen and failures[0] > 0:
            failures[0] -= 1
            raise StoreBusy("not now")
        return usual(*args, **options)  # type: ignore[arg-type]

    for one in range(5):
        n.submit(one)
    app.store.claim(["n"], limit=5, holder="gone", lease_for=0.01)
    time.sleep(0.05)
    sweep(app.submitter.runtime())
    monkeypatch.setattr(app.store, "claim", claim)
    with app.worker(concurrency=2, grace=600):  # so long it waits for a task that is forgotten
        until(lambda: all_done(app))
    assert sorted(map(str, runs.seen)) == list("01234")


@pytest.mark.parametrize("fault", ["raises", "hangs"])
def test_a_handler_is_told_before_its_lease_ends_when_it_cannot_be_renewed(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """By a store that refuses, and by one that does not answer."""
    told, mended = Log(), threading.Event()

    def renew(*_: object, **__: object) -> list[bool]:
        if fault == "hangs":
            mended.wait(20)
        raise StoreBusy("not now")

    @app.handler("long")
    def long() -> None:
        began, me = time.monotonic(), current()
        while not me.lease_lost:
            time.sleep(0.01)
        told.note(time.monotonic() - began)

    monkeypatch.setattr(app.store, "renew", renew)
    long.submit()
    with app.worker():
        until(lambda: told.seen)
        mended.set()
    (after,) = told.seen
    assert isinstance(after, float)
    assert LEASE / 2 < after < LEASE


@pytest.mark.parametrize("handler", ["work", "beside"])
def test_a_job_that_kills_the_whole_tree_dies_of_its_third_crash_and_alone(
    tmp_path: Path, handler: str
) -> None:
    """Counted before it starts, so it ends across restarts too."""
    url = url_of("sqlite", tmp_path)
    with app_of(url) as app:
        payloads = [{"number": n, "deed": "tree" if n == 20 else ""} for n in range(100)]
        fill(app, handler, payloads)
        with crew(tmp_path, url, CREW_LEASE="0.5") as made:
            for _ in range(3):
                made.end()
                made.start()
            until(lambda: all_done(app))
        assert (number(app, "dead"), number(app, "completed")) == (1, 99)
        (dead,) = app.desk.jobs.each(state="dead")
        assert (dead.reason, dead.crashes) == ("crash", 3)
        assert len([one for one in made.ran() if one.number == 20]) == 3
