"""Writing new jobs: most in one statement, the unusual ones whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from redrive.job import Job
from redrive.stores._codec import encode
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.rows import attempt_to_json, job_to_row
from redrive.stores.sql.tx import Row

_USUAL: dict[str, object] = {
    "state": "pending",
    "reason": None,
    "detail": "",
    "attempts": 0,
    "spent": {},
    "crashes": 0,
    "redrives": 0,
    "finished": None,
    "first_failed": None,
    "failure": None,
    "lease": 0,
    "holder": None,
    "lease_end": None,
    "boot": None,
    "group": None,
    "run": None,
    "resolution": None,
    "edits": 0,
    "original": None,
    "folded": 0,
    "origin": None,
    "history": (),
    "is_new": True,
}
"""What a job has that was just submitted; the table's defaults say the same."""

_values_of: Callable[[Job], tuple[Any, ...]] = attrgetter(*_USUAL)
_usual_values = tuple(_USUAL.values())


def is_simple(jobs: Sequence[Job]) -> bool:
    """Whether one statement can add them all: just submitted, and no key to fall out over.

    A single job may have a key: if it is taken nothing was written, and one can look at ease.
    """
    return len({job.id for job in jobs}) == len(jobs) and all(
        (job.key is None or len(jobs) == 1)
        and job.due == job.since
        and job.created == job.updated
        and _values_of(job) == _usual_values
        for job in jobs
    )


def add_simple(tx: PostgresTx, jobs: Sequence[Job], version: int) -> bool:
    """Write jobs that were just submitted; False if not all were new, whatever became of the rest.

    `version` is the schema's last that we know; a newer one takes nothing from us.
    """
    if len(jobs) == 1:
        return tx.one("add_one", (version, *_row(jobs[0]))) == (True,)
    rows = [_row(job) for job in jobs]
    cursor = tx.batch("add_new", rows, version)
    return cursor is not None and cursor.rowcount == len(jobs)


def _row(job: Job) -> Row:
    return (
        job.id,
        job.lane,
        job.handler,
        job.key,
        job.created,
        job.due,
        job.max_attempts,
        job.limit,
        encode(job.tags) if job.tags else None,
        job.release,
        job.payload,
    )


def add_whole(tx: PostgresTx, jobs: Sequence[Job]) -> bool:
    """Write jobs with all they have; False if others took an id or key meanwhile.

    Keys are taken in one order, so that two who want the same do not wait for each other.
    """
    jobs = sorted(jobs, key=lambda job: job.key or "")
    cursor = tx.batch("add_whole", [(*job_to_row(job), job.payload, job.original) for job in jobs])
    if cursor is None:
        return True
    made = {job_id for (job_id,) in cursor.fetchall()}
    tx.many(
        "add_attempts",
        [
            (job.id, attempt.ordinal, attempt_to_json(attempt))
            for job in jobs
            if job.id in made
            for attempt in job.history
        ],
    )
    return len(made) == len(jobs)
