"""Jobs that were just submitted: nearly all there are, and quicker to write than whole ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from redrive.jobs.job import Job
from redrive.stores._codec import encode
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
"""What a job has that was just submitted; the statements that add simple jobs say the same."""

_values_of: Callable[[Job], tuple[Any, ...]] = attrgetter(*_USUAL)
_usual_values = tuple(_USUAL.values())


def is_simple(jobs: Sequence[Job]) -> bool:
    """Whether one statement can add them all: just submitted, and no key to fall out over.

    A single job may have a key: if it is taken nothing was written, and one can look at ease.
    """
    if len(jobs) == 1:
        return _is_new(jobs[0])
    return len({job.id for job in jobs}) == len(jobs) and all(
        job.key is None and _is_new(job) for job in jobs
    )


def _is_new(job: Job) -> bool:
    return job.due == job.since and job.created == job.updated and _values_of(job) == _usual_values


def simple_row(job: Job) -> Row:
    """Give what a simple job has of its own."""
    return (
        job.id,
        job.lane,
        job.handler,
        job.key,
        job.created,
        job.due,
        job.own_max_attempts,
        job.max_attempts,
        encode(job.tags) if job.tags else None,
        job.release,
        job.payload,
    )
