"""Builders of the records that tests are made of; what a test does not name is unremarkable."""

from __future__ import annotations

import itertools
from typing import Any

from redrive.jobs.job import Action, Attempt, Category, Claim, Failure, Job, Settlement, Verdict

_numbers = itertools.count(1)

START = 1_750_000_000.0
"""When the manual clock of the tests starts."""


def make_job(job_id: str | None = None, **fields: Any) -> Job:
    """A pending job, due since START, of the handler `mail` in the lane of the same name."""
    handler = fields.pop("handler", "mail")
    created = fields.pop("created", START)
    due = fields.pop("due", created)
    return Job(
        **{
            "id": job_id or f"job{next(_numbers):09d}",
            "handler": handler,
            "lane": handler,
            "payload": "{}",
            "created": created,
            "due": due,
            "since": due,
            "updated": created,
            "max_attempts": 10,
            **fields,
        }
    )


def make_failure(category: Category | str = "transient", **fields: Any) -> Failure:
    """A failure of this category, with the fingerprint and title of a cause of its own."""
    name = Category(category)
    cause = fields.pop("cause", name.value)
    return Failure(
        **{
            "category": name,
            "why": f"because of {cause}",
            "type": "SomeError",
            "message": f"it is {cause}",
            "fingerprint": f"print-{cause}",
            "title": f"SomeError: {cause}",
            **fields,
        }
    )


def make_attempt(job: Job, failure: Failure | None = None, **fields: Any) -> Attempt:
    """The record of the attempt that this claimed job is in."""
    crashed = failure is not None and failure.category is Category.CRASH
    ended = "crashed" if crashed else "failed" if failure else "done"
    return Attempt(
        **{
            "ordinal": job.lease,
            "number": job.attempts,
            "life": job.redrives,
            "started": job.updated,
            "duration": 0.5,
            "worker": job.holder or "w",
            "outcome": ended,
            "failure": failure,
            **fields,
        }
    )


def make_settlement(
    claim: Claim,
    verdict: Verdict,
    failure: Failure | None = None,
    *,
    max_attempts: int | None = None,
) -> Settlement:
    """The end of a claim, with the attempt's record that belongs to it."""
    return Settlement(claim, verdict, make_attempt(claim.job, failure), max_attempts)


def make_action(verb: str = "retry", **fields: Any) -> Action:
    """A deed of ada's."""
    return Action(**{"actor": "ada", "verb": verb, "reason": "because", "target": "ids", **fields})
