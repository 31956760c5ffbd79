"""The work that is measured: jobs with a kibibyte of JSON, and their good ends."""

from __future__ import annotations

import time
from typing import Any

from payload import BYTES, PAYLOAD, TEXT

from redrive.jobs import ids
from redrive.jobs.job import Attempt, Claim, Completed, Job, Reason, Settlement
from redrive.jobs.records import BLANK, evolve

__all__ = ["BYTES", "HANDLER", "PAYLOAD", "TEXT", "new_job", "settlement"]

HANDLER = "mail.send"


def new_job(**given: Any) -> Job:
    """Make a pending job that is due, the way a submit does, or as `given`."""
    now = time.time()
    job = evolve(
        BLANK, id=ids.new_id(), handler=HANDLER, lane=HANDLER, payload=TEXT,
        created=now, due=now, since=now, updated=now, max_attempts=10,
    )  # fmt: skip
    return evolve(job, **given) if given else job


def settlement(claim: Claim) -> Settlement:
    """Give the good end of a claim, with the attempt's record."""
    job = claim.job
    attempt = Attempt(
        ordinal=job.lease, number=job.attempts, life=job.redrives, started=job.updated,
        duration=0.001, worker="bench", outcome="done",
    )  # fmt: skip
    return Settlement(claim, Completed(Reason.DONE), attempt)
