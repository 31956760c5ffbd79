"""The work that is measured: jobs with a kibibyte of JSON, and their good ends."""

from __future__ import annotations

import json
import time
from typing import Any

from redrive import _ids
from redrive.job import Attempt, Claim, Completed, Job, Reason, Settlement

PAYLOAD: dict[str, Any] = {"id": 7, "to": "ada@example.org", "tags": ["a", "b"], "text": "x" * 966}
TEXT = json.dumps(PAYLOAD, separators=(",", ":"))
BYTES = TEXT.encode()
assert len(BYTES) == 1024

HANDLER = "mail.send"


def new_job(**given: Any) -> Job:
    """Make a pending job that is due, or as `given`."""
    now = time.time()
    fields: dict[str, Any] = {
        "id": _ids.new_id(),
        "handler": HANDLER,
        "lane": HANDLER,
        "payload": TEXT,
        "created": now,
        "due": now,
        "since": now,
        "updated": now,
        "limit": 10,
    }
    return Job(**{**fields, **given})


def settlement(claim: Claim) -> Settlement:
    """Give the good end of a claim, with the attempt's record."""
    job = claim.job
    attempt = Attempt(
        ordinal=job.lease, number=job.attempts, life=job.redrives, started=job.updated,
        duration=0.001, worker="bench", outcome="done",
    )  # fmt: skip
    return Settlement(claim, Completed(Reason.DONE), attempt)
