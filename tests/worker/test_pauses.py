"""Pauses that an outage brings about: tripping, probes, the way back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Pause, Policy, Redrive, constant
from redrive.testing import ManualClock
from workkit import Log, all_done, number, until, url_of

PAUSING = Policy(attempts=20, wait=constant(1), pause=Pause(after=3, probe=60, release=10))


class Service:
    """Something that jobs depend on."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.calls = 0

    def call(self) -> None:
        """Answer, or fail as it was told to."""
        self.calls += 1
        if self.error is not None:
            raise self.error


@pytest.fixture
def clock() -> ManualClock:
    """A clock of the test's own."""
    return ManualClock()


@pytest.fixture
def service() -> Service:
    """A service that works."""
    return Service()


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock, service: Service) -> Iterator[Redrive]:
    """An app whose handler `mail` depends on the service."""
    with Redrive(url_of("sqlite", tmp_path), policy=PAUSING, clock=clock) as made:

        @made.handler("mail")
        def mail(number: int) -> None:
            service.call()

        yield made


def submit(app: Redrive, jobs: int) -> None:
    """Store some jobs."""
    entry = app.submitter.registry.need("mail")
    from redrive.submission import Options  # noqa: PLC0415

    for one in range(jobs):
        app.submitter.submit(entry, json.dumps({"number": one}), Options())


def test_an_outage_stops_the_lane_before_it_burns_attempts(app: Redrive, service: Service) -> None:
    told = Log()
    app.listen(lambda event: told.note((event.kind, event.detail)))
    service.error = ConnectionError("down")
    submit(app, 50)
    app.run_due()
    assert service.calls == 3
    assert sorted(job.attempts for job in app.desk.jobs.each()) == [0] * 47 + [1] * 3
    (note,) = app.store.notes("pause:")
    assert note.name == "pause:mail"
    assert "3 jobs failed in a row" in json.loads(note.value)["reason"]
    assert told.seen.count(("paused", "mail")) == 1
    app.run_due()
    assert service.calls == 3


def test_a_probe_that_fails_spends_nothing(
    app: Redrive, service: Service, clock: ManualClock
) -> None:
    service.error = ConnectionError("down")
    submit(app, 10)
    app.run_due()
    for _ in range(5):
        clock.advance(61)
        app.run_due()
        app.run_due()
    assert service.calls == 3 + 5
    assert sum(job.attempts for job in app.desk.jobs.each()) == 3
    assert len(app.store.notes("pause:")) == 1


def test_when_it_works_again_the_backlog_is_let_go_at_the_rate(
    app: Redrive, service: Service, clock: ManualClock
) -> None:
    told = Log()
    service.error = ConnectionError("down")
    submit(app, 100)
    app.run_due()
    app.listen(lambda event: told.note(event.kind))
    service.error, service.calls = None, 0
    clock.advance(61)
    app.run_due()
    assert service.calls == 1
    rates: list[int] = []
    while not all_done(app):
        before = service.calls
        clock.advance(1)
        app.run_due()
        rates.append(service.calls - before)
    assert max(rates) <= 10
    assert len(rates) >= 99 / 10
    assert number(app, "completed") == 100
    clock.advance(1)
    app.run_due()
    assert app.store.notes("pause:") == []
    assert told.seen.count("resumed") == 1


@pytest.mark.parametrize("error", [ValueError("no number"), LookupError("nothing there")])
def test_failures_of_the_jobs_own_do_not_count(
    app: Redrive, service: Service, error: Exception
) -> None:
    service.error = error
    submit(app, 10)
    app.run_due()
    assert app.store.notes("pause:") == []


def test_one_job_that_fails_again_and_again_is_no_outage(
    app: Redrive, service: Service, clock: ManualClock
) -> None:
    service.error = ConnectionError("down")
    submit(app, 1)
    for _ in range(6):
        app.run_due()
        clock.advance(5)
    assert app.store.notes("pause:") == []


def test_a_pause_of_a_person_is_neither_probed_nor_ended(
    app: Redrive, service: Service, clock: ManualClock
) -> None:
    submit(app, 3)
    app.desk.lanes.pause("mail", reason="they move house")
    clock.advance(3600)
    app.run_due()
    assert service.calls == 0
    app.desk.lanes.resume("mail")
    app.run_due()
    assert service.calls == 3


def test_a_worker_pauses_probes_and_lets_go(tmp_path: Path, service: Service) -> None:
    """The same by the worker, in real time."""
    quick = Policy(attempts=20, wait=constant(0.01), pause=Pause(after=3, probe=0.3, release=200))
    with Redrive(tmp_path / "jobs.db", policy=quick) as app:

        @app.handler("mail")
        def mail(number: int) -> None:
            service.call()

        service.error = ConnectionError("down")
        submit(app, 100)
        with app.worker(concurrency=2):
            until(app.desk.lanes.pauses)
            until(lambda: service.calls > 10)
            assert sum(job.attempts for job in app.desk.jobs.each(state="pending")) <= 20
            service.error = None
            until(lambda: number(app, "completed") == 100)
            until(lambda: not app.store.notes("pause:"))
