"""Groups of imported failures, by the rules of any other: by handler and category, from the text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from redrive.classify.fingerprint import OUTSIDE, Cause, of_text
from redrive.jobs.job import Failure, Job
from redrive.jobs.records import altered, evolve

STATUS = re.compile(r"\b(?:HTTP|status|code)\D{0,12}([45]\d\d)\b|^([45]\d\d)\b", re.IGNORECASE)


def grouped(job: Job) -> Job:
    """Return a job whose failures carry what they are grouped by."""
    if job.failure is None and not job.history:
        return job
    history = tuple(
        replace(one, failure=_grouped(one.failure, job.handler)) if one.failure else one
        for one in job.history
    )
    failure = job.failure and _grouped(job.failure, job.handler)
    return evolve(job, failure=failure, history=history)


def _grouped(failure: Failure, handler: str) -> Failure:
    is_outside = failure.category in OUTSIDE
    code = failure.code or ""
    cause = _cause(failure.type or "Error", failure.message, code, handler, outside=is_outside)
    return altered(failure, **cause._asdict())


@lru_cache(maxsize=512)  # each failure is asked for twice: in the history, and as the latest
def _cause(kind: str, message: str, code: str, handler: str, *, outside: bool) -> Cause:
    status = STATUS.search(message)
    keep = (code, (status[1] or status[2]) if status else "")
    return of_text(kind, message, keep=keep, handler=handler, outside=outside)
