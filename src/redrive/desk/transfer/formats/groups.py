"""Groups of imported failures, by the rules of any other: by handler and category, from the text."""

from __future__ import annotations

import re
from dataclasses import replace

from redrive.classify.fingerprint import OUTSIDE, of_text
from redrive.jobs.job import Failure, Job
from redrive.jobs.records import evolve

STATUS = re.compile(r"\b(?:HTTP|status|code)\D{0,12}([45]\d\d)\b|^([45]\d\d)\b", re.IGNORECASE)


def grouped(job: Job) -> Job:
    """Return a job whose failures carry what they are grouped by."""
    history = tuple(
        replace(one, failure=_grouped(one.failure, job.handler)) if one.failure else one
        for one in job.history
    )
    failure = job.failure and _grouped(job.failure, job.handler)
    return evolve(job, failure=failure, history=history)


def _grouped(failure: Failure, handler: str) -> Failure:
    status = STATUS.search(failure.message)
    cause = of_text(
        failure.type or "Error",
        failure.message,
        keep=(failure.code or "", (status[1] or status[2]) if status else ""),
        handler=handler,
        outside=failure.category in OUTSIDE,
    )
    return replace(failure, **cause._asdict())
