"""Jobs, groups and acts as the documents that `--json` prints.

These names are a public face: they may grow, but none goes or changes its meaning without a new
schema version.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from redrive.cli.output.plain import iso
from redrive.job import Act, Attempt, Category, Failure, Group, Job

if TYPE_CHECKING:
    from redrive.looking import Scope

HOPELESS = frozenset({Category.AUTH, Category.INVALID, Category.PERMANENT})
"""Categories that another try does not help."""


def job_document(job: Job) -> dict[str, object]:
    """Give what a list shows of a job."""
    return {
        "id": job.id,
        "state": job.state,
        "reason": job.reason,
        "detail": job.detail or None,
        "handler": job.handler,
        "lane": job.lane,
        "attempts": job.attempts,
        "max_attempts": job.limit,
        "redrives": job.redrives,
        "crashes": job.crashes,
        "category": category_of(job),
        "error": error_document(job.failure),
        "group": group_name(job.group),
        "key": job.key,
        "tags": list(job.tags),
        "release": job.release,
        "run": run_name(job.run),
        "edits": job.edits,
        "created": iso(job.created),
        "due": iso(job.due),
        "updated": iso(job.updated),
        "finished": iso(job.finished),
        "first_failed": iso(job.first_failed),
    }


def error_document(failure: Failure | None) -> dict[str, object] | None:
    """Give what is known of a failure, without its traceback."""
    if failure is None:
        return None
    return {
        "type": failure.type,
        "message": failure.message,
        "category": failure.category,
        "why": failure.why,
        "code": failure.code,
        "status": failure.status,
        "hint": failure.hint,
        "request_id": failure.request_id,
        "title": failure.title,
    }


def attempt_document(attempt: Attempt) -> dict[str, object]:
    """Give the record of one attempt, traceback included."""
    return {
        "number": attempt.number,
        "life": attempt.life,
        "started": iso(attempt.started),
        "duration": attempt.duration,
        "worker": attempt.worker,
        "outcome": attempt.outcome,
        "provider": attempt.provider,
        "error": error_document(attempt.failure),
        "traceback": (attempt.failure.traceback or None) if attempt.failure else None,
    }


def group_document(group: Group) -> dict[str, object]:
    """Give a cause and how many jobs it took."""
    return {
        "group": group.name,
        "title": group.title,
        "jobs": group.jobs,
        "handlers": list(group.handlers),
        "category": group.category,
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "fingerprint": group.fingerprint,
    }


def scope_document(scope: Scope | None) -> dict[str, object] | None:
    """Say how far was looked, where no index could answer."""
    return None if scope is None else {"looked": scope.looked, "of": scope.of}


def act_document(act: Act) -> dict[str, object]:
    """Give a deed: who did what to which jobs, when, why, and what came of it."""
    return {
        "number": act.number,
        "at": iso(act.at),
        "actor": act.actor,
        "verb": act.verb,
        "target": act.target,
        "reason": act.reason,
        "done": act.done,
        "skipped": act.skipped,
    }


def group_name(number: int | None) -> str | None:
    """Say a group as people type it."""
    return None if number is None else f"G{number}"


def run_name(number: int | None) -> str | None:
    """Say a run as people type it; a job that waits for its run has the number with a minus."""
    return None if number is None else f"R{abs(number)}"


def category_of(job: Job) -> Category | None:
    """Give the category of a job's last failure."""
    return None if job.failure is None else job.failure.category


def error_line(failure: Failure | None) -> str | None:
    """Say a failure in one line: its type and message."""
    if failure is None:
        return None
    return ": ".join(part for part in (failure.type, failure.message) if part) or failure.why


def payload_of(text: str) -> object:
    """Read a stored payload for showing, with what is secret in it hidden.

    One that cannot be read (a file edited by hand) is shown as masked text.
    """
    from redrive.redact import mask_payload, mask_text  # noqa: PLC0415 - lists show no payload

    try:
        return mask_payload(json.loads(text))
    except (ValueError, RecursionError):
        return mask_text(text)


def payload_text(text: str) -> str:
    """Write a payload out over several lines, masked."""
    shown = payload_of(text)
    return shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)


def secrets_of(job: Job) -> tuple[str, ...]:
    """Give the secrets in a job's payload, to hide them in its errors too."""
    from redrive.redact import secrets_in  # noqa: PLC0415

    try:
        return secrets_in(json.loads(job.payload))
    except (ValueError, RecursionError):
        return ()
