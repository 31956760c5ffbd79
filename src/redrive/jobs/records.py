"""Jobs and failures with some fields changed, and records from their values, all fast.

`dataclasses.replace` and the constructor of a frozen class set every field by a call; that was half
the time of claiming and settling a job. So a job keeps its fields in a dict, which is copied whole.
"""

from __future__ import annotations

from redrive.jobs.clock import LATEST
from redrive.jobs.job import Attempt, Category, Failure, Job, Settlement

_new = object.__new__
# The setters of `__dict__` itself: object.__setattr__ looks for them at every call.
_fill_job = vars(Job)["__dict__"].__set__
_fill_failure = vars(Failure)["__dict__"].__set__
_fill_attempt = vars(Attempt)["__dict__"].__set__
_fill_settlement = vars(Settlement)["__dict__"].__set__

BLANK = Job(id="", handler="", lane="", payload="", created=0.0, due=0.0, since=0.0, updated=0.0)
"""A job that nothing is known of yet: new ones evolve from it."""


def evolve(job: Job, /, **changes: object) -> Job:
    """Return a copy of a job with these fields changed: `evolve(job, due=5.0)`."""
    new = _new(Job)
    _fill_job(new, job.__dict__ | changes)
    return new


def shifted(job: Job, by: float) -> Job:
    """Return a job with its times shifted to the store's clock, which decides what is due."""
    return evolve(
        job,
        created=job.created + by,
        due=min(job.due + by, LATEST),
        since=min(job.since + by, LATEST),
        updated=job.updated + by,
        finished=None if job.finished is None else job.finished + by,
        first_failed=None if job.first_failed is None else job.first_failed + by,
    )


def job_of(fields: dict[str, object]) -> Job:
    """Make a job of the values of all its fields; the dict belongs to it from now on."""
    new = _new(Job)
    _fill_job(new, fields)
    return new


def settlement_of(fields: dict[str, object]) -> Settlement:
    """Make the end of a claim of the values of all its fields; the same holds for the dict."""
    new = _new(Settlement)
    _fill_settlement(new, fields)
    return new


UNSAID = Failure(category=Category.UNKNOWN)  # a failure that nothing is known of yet


def altered(failure: Failure, /, **changes: object) -> Failure:
    """Return a copy of a failure with these fields changed."""
    new = _new(Failure)
    _fill_failure(new, {**failure.__dict__, **changes})
    return new


def attempt_of(fields: dict[str, object]) -> Attempt:
    """Make an attempt of the values of all its fields; the same holds for the dict."""
    new = _new(Attempt)
    _fill_attempt(new, fields)
    return new
