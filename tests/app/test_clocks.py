"""Every time is an instant in UTC: neither time zones nor a clock that is set can run a job twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from redrive import Policy, Redrive, State, constant
from redrive.testing import ManualClock
from redrive.worker.sweep import sweep

HOUR, DAY = 3600.0, 86_400.0

# As rules, so that no table of time zones need be installed.
NEW_YORK = "EST5EDT,M3.2.0,M11.1.0"
KOLKATA = "IST-5:30"

CHANGES = {
    "an hour is left out": datetime(2026, 3, 8, 6, 30, tzinfo=UTC),
    "an hour comes twice": datetime(2026, 11, 1, 5, 30, tzinfo=UTC),
    "a leap second": datetime(2016, 12, 31, 23, 59, 59, tzinfo=UTC),
    "2038": datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC),
}


@pytest.fixture
def set_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Give this process another time zone, as an administrator or a program may."""

    def set_it(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_it
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("start", CHANGES.values(), ids=CHANGES)
def test_a_wait_across_a_change_of_local_time_is_as_long_as_it_was_said(
    app: Redrive, clock: ManualClock, set_zone: Callable[[str], None], start: datetime
) -> None:
    """A day is 86,400 seconds and runs once, whatever the clock on the wall shows."""
    set_zone(NEW_YORK)
    clock.jump(start.timestamp() - clock.now())
    ran: list[int] = []
    daily = app.handler("daily")(lambda: ran.append(1))
    job = daily.options(delay="1d").submit()
    assert job.due_at == start + timedelta(days=1)
    for step in (HOUR, 22 * HOUR, HOUR - 1):
        clock.advance(step)
        assert app.run_due().taken == 0
    clock.advance(1)
    assert app.run_due().succeeded == 1
    clock.advance(DAY)
    assert app.run_due().taken == 0
    assert ran == [1]


def test_another_time_zone_while_it_runs_changes_no_job(
    app: Redrive, clock: ManualClock, set_zone: Callable[[str], None]
) -> None:
    set_zone(NEW_YORK)
    seen: list[datetime] = []
    at = datetime(2026, 11, 1, 1, 30, tzinfo=timezone(timedelta(hours=-4)))

    @app.handler("note")
    def note(at: datetime) -> None:
        seen.append(at)

    job = note.options(delay=60).submit(at=at)
    set_zone(KOLKATA)
    kept = app.get(job.id)
    assert (kept.due, kept.due_at) == (job.due, job.due_at)
    assert kept.created_at.tzinfo is UTC
    assert app.run_due().taken == 0
    clock.advance(60)
    assert app.run_due().succeeded == 1
    assert seen == [at]
    assert seen[0].utcoffset() == at.utcoffset()


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 10 * 365 * DAY, -1_750_000_000.0])
def test_a_clock_that_is_set_while_a_handler_runs_costs_nothing(
    app: Redrive, clock: ManualClock, jump: float
) -> None:
    """It runs once, took no negative time, and its next wait counts from the new time."""
    ran: list[str] = []

    @app.handler("good")
    def good() -> None:
        ran.append("good")
        clock.jump(jump)

    @app.handler("bad", policy=Policy(attempts=3, wait=constant(60, jitter="none")))
    def bad() -> None:
        ran.append("bad")
        raise ConnectionError

    first = good.submit()
    app.run_due()
    second = bad.submit()
    app.run_due()
    sweep(app.submitter.runtime())
    assert sorted(ran) == ["bad", "good"]
    done, waiting = app.get(first.id), app.get(second.id)
    assert (done.state, done.attempts, done.crashes) == (State.COMPLETED, 1, 0)
    assert (waiting.attempts, waiting.due) == (1, clock.now() + 60)
    assert all(attempt.duration >= 0 for attempt in (*done.history, *waiting.history))
