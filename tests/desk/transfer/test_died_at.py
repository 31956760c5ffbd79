"""died_at: imports carry the time of death, exports write it, and it survives both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kit import START
from redrive import Redrive
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.jobs.job import Job
from redrive.testing import ManualClock
from shopkit import dead_letter

DAY = 86400.0
ISO = "2025-06-15T15:06:40Z"
SYNC = {
    "failureId": "f1",
    "originalData": {"n": 1},
    "error": {"message": "no", "stack": ""},
    "retryCount": 3,
    "createdAt": ISO,
    "status": "failed",
    "resolvedAt": None,
}
SUMMARY = {
    "job_id": "j1",
    "article_id": 7,
    "status": "dead_letter",
    "retry_count": 3,
    "max_retries": 3,
    "error_message": "no",
    "created_at": ISO,
    "started_at": None,
    "completed_at": "2025-06-16T15:06:40Z",
}


def imported(app: Redrive, *lines: str) -> Job:
    told = list(
        app.desk.transfer.import_lines(
            [f"{line}\n".encode() for line in lines], asked=TransferOptions()
        )
    )
    assert [one.fate for one in told] == ["added"], told
    (job,) = app.desk.jobs.find(state="dead").jobs or app.desk.jobs.find().jobs
    return job


@pytest.fixture
def app(clock: ManualClock) -> Redrive:
    return Redrive("memory:", clock=clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START + 9 * DAY)


@pytest.mark.parametrize(
    ("line", "died_at"),
    [
        (SYNC, START),
        ({**SYNC, "status": "resolved", "resolvedAt": "2025-06-16T15:06:40Z"}, START),
        (SUMMARY, START + DAY),
        ({**SUMMARY, "status": "pending", "completed_at": None}, None),
    ],
    ids=["dead", "resolved", "completed_at", "pending"],
)
def test_an_import_carries_the_time_of_death(
    app: Redrive, line: dict[str, Any], died_at: float | None
) -> None:
    assert imported(app, json.dumps(line)).died_at == died_at


@pytest.mark.parametrize("name", ["redrive", "sync", "summaries"])
def test_an_export_writes_the_time_of_death(app: Redrive, clock: ManualClock, name: str) -> None:
    """Also of a job that was closed and reopened since, whose end is later."""
    app.store.add([dead_letter(1, payload='{"article_id":7}')])
    (job,) = app.desk.jobs.find().jobs
    app.desk.resolve(job.id)
    clock.advance(DAY)
    app.desk.reopen(job.id)
    found = app.get(job.id)
    assert found.died_at == START + 60
    (line,) = app.desk.transfer.export_lines([found], format=name)
    other = Redrive("memory:", clock=clock)
    again = imported(other, line)
    assert (again.died_at, again.finished) == (START + 60, found.finished)


def test_a_line_of_an_older_redrive_died_when_it_ended(app: Redrive, clock: ManualClock) -> None:
    app.store.add([dead_letter(1)])
    (line,) = app.desk.transfer.export_lines(app.desk.jobs.find().jobs)
    value = json.loads(line)
    del value["job"]["died_at"]
    other = Redrive("memory:", clock=clock)
    assert imported(other, json.dumps(value)).died_at == START + 60
