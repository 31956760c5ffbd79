"""When a key that is taken is the same work again, and when it is a mistake."""

from __future__ import annotations

from redrive.errors import KeyConflict
from redrive.jobs.job import Job
from redrive.payloads import strict_json


def check_same(stored: Job, job: Job) -> None:
    """Raise KeyConflict unless a job is what the stored one was submitted as."""
    if stored.handler != job.handler:
        msg = (
            f"the key {job.key!r} already stands for job {stored.id} of {stored.handler!r}, so it "
            f"cannot be given to {job.handler!r}: the handlers of a store share their keys; "
            f"use another one, such as {f'{job.handler}:{job.key}'!r}"
        )
        raise KeyConflict(msg, job_id=job.id)
    first = stored.payload if stored.original is None else stored.original
    if not strict_json.same(first, job.payload):
        msg = (
            f"the key {job.key!r} already stands for job {stored.id} of {stored.handler!r} with "
            "another payload; use another key, or submit the same payload"
        )
        raise KeyConflict(msg, job_id=job.id)
