"""The end of an execution: the verdict, and the record of the attempt, as the store settles them."""

from __future__ import annotations

import random
from collections.abc import Mapping

from redrive.attempts.executions import finished
from redrive.jobs import transitions
from redrive.jobs.interrupts import may_be_ctrl_c
from redrive.jobs.job import Attempt, Category, Claim, Dead, Job, Return, Settlement
from redrive.jobs.logger import log
from redrive.jobs.outcomes import (
    AlreadyDone,
    Done,
    Failed,
    Interrupted,
    Outcome,
    Returned,
    Skipped,
)
from redrive.jobs.records import attempt_of, settlement_of
from redrive.policies import decide
from redrive.policies.policy import Policy
from redrive.registry import Entry
from redrive.strategies import Rand

_OUTCOMES: Mapping[type[object], str] = {
    Done: "done",
    Skipped: "skipped",
    AlreadyDone: "already_done",
}
"""The recorded names of successful ends."""


def conclude(
    claim: Claim,
    outcome: Outcome,
    entry: Entry | None,
    *,
    started: float,
    duration: float,
    worker: str,
    release: str | None,
    now: float,
    rand: Rand = random.random,
) -> Settlement:
    """Decide, ask `already_done` before a dead letter, and return what the store settles."""
    job = claim.job
    policy = Policy(attempts=max(1, job.max_attempts)) if entry is None else entry.policy
    verdict = decide.decide(job, outcome, policy, now, rand)
    if isinstance(outcome, Failed) and entry is not None:
        unseen = outcome.failure.category is Category.CRASH
        if (unseen or isinstance(verdict, Dead)) and _was_done(entry, job):
            outcome = AlreadyDone()
            verdict = decide.decide(job, outcome, policy, now, rand)
    if isinstance(outcome, Interrupted | Returned):
        return Settlement(claim, verdict)
    record = record_of(
        job, outcome, started=started, duration=duration, worker=worker, release=release
    )
    return settlement_of(
        {
            "claim": claim,
            "verdict": verdict,
            "attempt": record,
            "max_attempts": decide.max_attempts_after(job, outcome, policy),
        }
    )


def settled_job(settlement: Settlement, *, now: float) -> Job:
    """Return the job after a settlement, the attempt in its history; nothing is stored."""
    attempt = settlement.attempt
    job = transitions.settled(
        settlement.claim.job,
        settlement.verdict,
        attempt.failure if attempt else None,
        now=now,
        group=None,
        max_attempts=settlement.max_attempts,
        release=attempt.release if attempt else None,
    )
    return transitions.with_attempt(job, attempt) if attempt else job


def returned(claim: Claim, delay: float | None = None) -> Settlement:
    """Return a claim whose attempt did not begin, or did not end: it uses up no attempt."""
    return Settlement(claim, Return(delay))


def record_of(
    job: Job,
    outcome: Outcome,
    *,
    started: float,
    duration: float,
    worker: str,
    release: str | None,
) -> Attempt:
    """Return the record of one execution that ended."""
    name, failure = _OUTCOMES.get(type(outcome), "failed"), None
    if isinstance(outcome, Failed):
        failure = outcome.failure
        name = "crashed" if failure.category is Category.CRASH else "failed"
    return attempt_of(
        {
            "ordinal": job.lease,
            "number": job.attempts,
            "life": job.redrives,
            "started": started,
            "duration": int(duration * 1e6 + 0.5) / 1e6,  # round() takes six times as long
            "worker": worker,
            "outcome": name,
            "failure": failure,
            "provider": getattr(outcome, "provider", None),
            "release": release,
        }
    )


def _was_done(entry: Entry, job: Job) -> bool:
    """Return the result of `already_done`; False if it raises."""
    if entry.already_done is None:
        return False
    try:
        return bool(finished(entry.already_done(**entry.arguments.load(job.payload))))
    except BaseException as error:  # a CancelledError, say
        if may_be_ctrl_c(error):
            raise
        log.exception("already_done of %s failed for job %s; treated as False", entry.name, job.id)
        return False
