"""The clock of the tests: it moves when told to, and only as far."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from kit import START, make_attempt, make_job
from redrive.testing import ManualClock
from tablekit import each_row


def test_it_stands_still_advances_and_jumps() -> None:
    clock = ManualClock(1000.0)
    assert clock.now() == clock.now() == 1000.0
    clock.advance(2.5)
    assert clock.now() == 1002.5
    clock.jump(-902.5)
    assert clock.now() == 100.0


@each_row("seconds", [-1, -0.001, math.nan])
def test_time_passes_forwards_only(seconds: float) -> None:
    with pytest.raises(ValueError, match="forwards"):
        ManualClock().advance(seconds)


def test_records_show_their_times_to_people_as_aware_datetimes() -> None:
    job = make_job(created=START, due=START + 1, updated=START + 2, finished=START + 3)
    first = datetime.fromtimestamp(START, UTC)
    assert job.created_at == first
    assert [t and t.timestamp() - START for t in (job.due_at, job.updated_at, job.finished_at)] == [
        1,
        2,
        3,
    ]
    assert make_job().finished_at is None
    assert make_attempt(job, started=START).started_at == first
    assert job.created_at.tzinfo is UTC
