"""C2: one place says if there is an incident, and why; then what changed in the last hour."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from kit import make_job
from redrive import Redrive
from redrive.desk.status import FEWEST, status_of
from redrive.jobs.job import Failure
from redrive.testing import ManualClock
from shopkit import HOUR, ODD, TIMEOUT, dead_letter, tried


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def app(clock: ManualClock) -> Iterator[Redrive]:
    with Redrive("memory:", clock=clock) as opened:
        yield opened


def died(app: Redrive, numbers: range, failure: Failure = TIMEOUT) -> None:
    now = app.store.now()
    app.store.add([dead_letter(n, failure, updated=now) for n in numbers])


def changes(app: Redrive) -> list[tuple[str, str, float]]:
    now = app.store.now()
    return [(one.kind, one.subject, now - one.since) for one in status_of(app.desk).changes()]


def worker(app: Redrive, **fields: object) -> None:
    value = {"host": "w3", "pid": 7, "lanes": ["mail"], "handlers": ["mail"], **fields}
    app.store.note("worker:x", json.dumps(value), expires_in=3600)


def test_without_anything_wrong_it_is_ok(app: Redrive) -> None:
    app.store.add([make_job("job-1", due=app.store.now() + 60)])
    assert status_of(app.desk).verdict() == ("OK", "No errors detected - system is healthy!")
    assert changes(app) == []


def test_a_group_that_grows_is_an_incident(app: Redrive, clock: ManualClock) -> None:
    died(app, range(1, FEWEST))
    clock.advance(120)
    assert status_of(app.desk).verdict().level == "DEGRADED"
    died(app, range(FEWEST, FEWEST + 1))
    level, why = status_of(app.desk).verdict()
    assert level == "INCIDENT"
    assert why == "G1 grows: 10 died in 10 minutes, it began 2m ago: SomeError: refused"
    reasons = [reason.why for reason in status_of(app.desk).reasons()]
    assert sum("G1" in reason for reason in reasons) == 1  # not once more because it is new
    app.desk.retry("G1")
    assert status_of(app.desk).verdict().level == "INCIDENT"  # a retry erases no death


def test_jobs_that_nobody_takes_are_an_incident(app: Redrive, clock: ManualClock) -> None:
    app.store.add([make_job("job-1", due=app.store.now())])
    clock.advance(300)
    level, why = status_of(app.desk).verdict()
    assert (level, why.startswith("jobs are due that no worker serves")) == ("DEGRADED", True)
    clock.advance(301)
    assert status_of(app.desk).verdict().level == "INCIDENT"
    app.desk.lanes.pause("mail")
    assert status_of(app.desk).verdict().level == "DEGRADED"


def test_an_unserved_lane_is_named_beside_one_that_is_late(
    app: Redrive, clock: ManualClock
) -> None:
    app.store.add([make_job("job-1", due=app.store.now())])
    clock.advance(700)
    app.store.add([make_job("job-2", handler="pay", due=app.store.now())])
    late, unserved = [reason.why for reason in status_of(app.desk).reasons()]
    assert "in the lane mail, the oldest due for 11m40s" in late
    assert unserved == (
        "jobs are due that no worker serves, in the lane pay: "
        "start a worker whose program has the handlers"
    )


def test_dead_letters_that_wait_are_no_incident(app: Redrive, clock: ManualClock) -> None:
    died(app, range(1, 21))
    clock.advance(2 * HOUR)
    assert status_of(app.desk).verdict() == (
        "DEGRADED",
        "20 dead letters wait for a person; 0 died in the last hour",
    )
    assert changes(app) == []


def test_what_began_in_the_last_hour_is_a_change(app: Redrive, clock: ManualClock) -> None:
    died(app, range(1, 2))
    app.desk.groups.mark("G1", resolved=True)
    clock.advance(2 * HOUR)
    worker(app, release="1.8.2", since=app.store.now() - 600)
    died(app, range(2, 3))
    app.store.add([make_job("job-9", handler="pay", due=app.store.now())])
    app.desk.lanes.pause("mail", reason="deploy")
    clock.advance(60)
    died(app, range(3, 4), ODD)
    assert changes(app) == [
        ("new", "G2", 0),
        ("regressed", "G1", 60),
        ("release", "1.8.2", 660),
        ("paused", "mail", 60),
        ("unserved", "pay", 60),
    ]
    clock.advance(2 * HOUR)
    assert changes(app) == []


def test_an_old_group_that_grows_again_is_a_change(app: Redrive, clock: ManualClock) -> None:
    died(app, range(1, 2))
    clock.advance(2 * HOUR)
    died(app, range(2, 2 + FEWEST))
    assert [one[:2] for one in changes(app)] == [("growing", "G1")]


def test_jobs_that_retry_for_over_an_hour_are_shown(app: Redrive, clock: ManualClock) -> None:
    now = app.store.now()
    times = {"job-old": now, "job-late": now + HOUR, "job-too": now}
    jobs = [make_job(one, created=at, since=at, due=now + 9 * HOUR) for one, at in times.items()]
    app.store.add([tried(job, TIMEOUT) for job in jobs])
    clock.advance(HOUR + 1)
    assert status_of(app.desk).retrying == {"mail": (2, now)}
    assert status_of(app.desk).verdict() == (
        "DEGRADED",
        "2 jobs retrying for over an hour, the first for 1h",
    )


def test_a_new_life_does_not_retry_since_the_old_one(app: Redrive, clock: ManualClock) -> None:
    now = app.store.now()
    job = make_job("job-again", created=now - 9 * HOUR, since=now, due=now + 9 * HOUR)
    app.store.add([tried(job, TIMEOUT)])
    assert status_of(app.desk).retrying == {}
    clock.advance(HOUR + 1)
    assert status_of(app.desk).retrying == {"mail": (1, now)}


def test_a_clock_that_was_set_back_makes_no_negative_age(app: Redrive, clock: ManualClock) -> None:
    died(app, range(1, 21))
    worker(app, release="1", since=app.store.now())
    app.store.fold()
    clock.jump(-2 * HOUR)
    assert all(age >= 0 for *_, age in changes(app))
    assert " -" not in status_of(app.desk).verdict().why
