"""Records as people see them who may not reveal secrets: the desk returns jobs like this."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Action, Attempt, Failure, Group, Job
from redrive.jobs.records import evolve
from redrive.payloads import masking

T = TypeVar("T")
Mask = Callable[[str], str]


def masked(record: T, *names: str, mask: Mask = masking.mask_text) -> T:
    """Return a record with what looks secret hidden in these texts."""
    texts = {name: getattr(record, name) for name in names}
    changed = {name: text and mask(text) for name, text in texts.items()}
    return cast("T", replace(cast("Any", record), **changed))


def secrets_of(job: Job, *, first: bool = False) -> tuple[str, ...]:
    """Return the secrets in a job's payloads, of today and as it was first, to hide them elsewhere.

    With `first` only those of the payload as it was first, if it was edited.
    """
    secrets = () if first else masking.secrets_of(job.payload)
    if job.original is None:
        return secrets
    return tuple({**dict.fromkeys(secrets), **dict.fromkeys(masking.secrets_of(job.original))})


def seen(job: Job) -> Job:
    """Return a job with its secrets hidden in every text."""
    secrets = secrets_of(job)
    mask = masking.masker(secrets)
    changes: dict[str, Any] = {"payload": masking.mask_json(job.payload, secrets)}
    if job.original is not None:
        changes["original"] = masking.mask_json(job.original, secrets)
    if job.origin is not None:
        changes["origin"] = _origin(dict(job.origin), secrets)
    if job.history:
        changes["history"] = tuple(_attempt(attempt, mask) for attempt in job.history)
    together = "\n".join(_texts(job))
    if mask(together) != together:  # hardly ever, and quicker than one by one
        changes |= _texts_masked(job, mask)
    return evolve(job, **changes)


def seen_group(group: Group) -> Group:
    """Return a group with what looks secret hidden in its texts."""
    return replace(masked(group, "title"), record=seen_record(group.record))


def seen_record(record: GroupRecord) -> GroupRecord:
    """Return the record of a group like that."""
    return masked(record, *_RECORD_TEXTS)


def seen_action(action: Action) -> Action:
    """Return an action with what looks secret hidden in its texts."""
    detail = cast("Any", masking.mask_payload(cast("Any", dict(action.detail))))
    return replace(masked(action, "actor", "target", "reason"), detail=detail)


_RECORD_TEXTS = (
    *("title", "first_release", "last_release", "resolved_by", "reason", "note", "noted_by"),
)


def failures_masked(job: Job) -> Job:
    """Return a job whose errors are masked, as all are that are stored: another program wrote it."""
    mask = masking.masker(secrets_of(job))
    return evolve(
        job,
        failure=job.failure and _failure(job.failure, mask),
        history=tuple(_attempt(attempt, mask) for attempt in job.history),
    )


def _texts(job: Job) -> list[str]:
    texts = [job.key or "", job.release or "", job.failed_release or "", job.detail, *job.tags]
    if job.resolution:
        texts += [job.resolution.actor, job.resolution.reason]
    if job.failure:
        texts += [getattr(job.failure, name) or "" for name in _FAILURE_TEXTS]
    return texts


def _texts_masked(job: Job, mask: Mask) -> dict[str, object]:
    return {
        "key": job.key and mask(job.key),
        "release": job.release and mask(job.release),
        "failed_release": job.failed_release and mask(job.failed_release),
        "detail": mask(job.detail),
        "tags": tuple(map(mask, job.tags)),
        "failure": job.failure and _failure(job.failure, mask),
        "resolution": job.resolution and masked(job.resolution, "actor", "reason", mask=mask),
    }


_FAILURE_TEXTS = (
    *("type", "message", "title", "why", "traceback"),
    *("code", "request_id", "hint_source"),
)


def _failure(failure: Failure, mask: Mask) -> Failure:
    return masked(failure, *_FAILURE_TEXTS, mask=mask)


def _attempt(attempt: Attempt, mask: Mask) -> Attempt:
    failure = attempt.failure and _failure(attempt.failure, mask)
    return replace(masked(attempt, "worker", "provider", mask=mask), failure=failure)


def _origin(origin: dict[str, object], secrets: tuple[str, ...]) -> object:
    text = json.dumps(origin, default=str)
    try:
        return masking.mask_payload(masking.loads(text), secrets)
    except RecursionError:
        return {"origin": masking.mask_text(text, secrets)}
