"""Writing new jobs: most in one statement, the unusual ones whole."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.errors import UniqueViolation

from redrive.jobs.job import Job
from redrive.stores._codec import attempt_to_json
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.rows import job_to_row
from redrive.stores.sql.simple import simple_row


def add_simple(tx: PostgresTx, jobs: Sequence[Job], version: int) -> bool:
    """Write jobs that were just submitted, all or, if not all are new, none: then gives False.

    `version` is the schema's last that we know; a newer one takes nothing from us.
    """
    try:
        if len(jobs) == 1:
            return tx.is_true("add_one", (version, *simple_row(jobs[0])))
        tx = tx.apart()
        columns = zip(*map(simple_row, jobs), strict=True)
        _, made = tx.one("add_many", (version, *tx.packed("add_many", columns))) or (None, False)
        return bool(made)
    except UniqueViolation:
        return False


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
