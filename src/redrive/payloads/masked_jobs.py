"""A job as people see it who may not reveal secrets: in every view, and in what selectors are asked of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from redrive.jobs.job import Attempt, Failure, Job
from redrive.jobs.records import evolve
from redrive.payloads import masking
from redrive.payloads.masking import mask_text


def secrets_of(job: Job, *, first: bool = False) -> tuple[str, ...]:
    """Return the secrets in a job's payloads, of today and as it was first, to hide them elsewhere.

    With `first` only those of the payload as it was first, if it was edited.
    """
    found = () if first else masking.secrets_of(job.payload)
    if job.original is None:
        return found
    return tuple({**dict.fromkeys(found), **dict.fromkeys(masking.secrets_of(job.original))})


def masked(job: Job) -> Job:
    """Return a job with its secrets hidden in every text but its payloads, wherever it came from."""
    secrets = secrets_of(job)
    job = _texts_masked(job, secrets)
    if not (job.detail or job.resolution or job.history):
        return job
    return evolve(
        job,
        detail=mask_text(job.detail, secrets),
        resolution=job.resolution
        and replace(job.resolution, reason=mask_text(job.resolution.reason, secrets)),
        history=tuple(_attempt(one, secrets) for one in job.history),
    )


def failures_masked(job: Job) -> Job:
    """Return a job whose errors are masked, as all are that are stored: another program wrote it."""
    secrets = secrets_of(job)
    return evolve(
        job,
        failure=job.failure and _failure(job.failure, secrets),
        history=tuple(_attempt(one, secrets) for one in job.history),
    )


def seen(job: Job) -> Job:
    """Return a job with its secrets hidden in the payloads too."""
    return _payloads_masked(masked(job), secrets_of(job))


def searched(job: Job) -> Job:
    """Return what a selector may be asked of: the same, as far as selectors go."""
    secrets = secrets_of(job)
    return _payloads_masked(_texts_masked(job, secrets), secrets)


def _payloads_masked(job: Job, secrets: Sequence[str]) -> Job:
    original = job.original and masking.mask_json(job.original, secrets)
    return evolve(job, payload=masking.mask_json(job.payload, secrets), original=original)


def _texts_masked(job: Job, secrets: Sequence[str]) -> Job:
    failure = job.failure
    texts = [job.key or "", job.release or "", *job.tags]
    if failure is not None:
        texts += _texts_of(failure)
    together = "\n".join(texts)
    if mask_text(together, secrets) == together:  # as nearly always, and quicker than one by one
        return job
    return evolve(
        job,
        key=job.key and mask_text(job.key, secrets),
        release=job.release and mask_text(job.release, secrets),
        tags=tuple(mask_text(tag, secrets) for tag in job.tags),
        failure=failure and _failure(failure, secrets),
    )


def _texts_of(failure: Failure) -> tuple[str, ...]:
    return (
        failure.type,
        failure.message,
        failure.title,
        failure.why,
        failure.traceback,
        failure.code or "",
        failure.request_id or "",
    )


def _failure(found: Failure, secrets: Sequence[str]) -> Failure:
    return replace(
        found,
        type=mask_text(found.type, secrets),
        message=mask_text(found.message, secrets),
        title=mask_text(found.title, secrets),
        why=mask_text(found.why, secrets),
        traceback=mask_text(found.traceback, secrets),
        code=found.code and mask_text(found.code, secrets),
        request_id=found.request_id and mask_text(found.request_id, secrets),
    )


def _attempt(found: Attempt, secrets: Sequence[str]) -> Attempt:
    return replace(found, failure=found.failure and _failure(found.failure, secrets))
