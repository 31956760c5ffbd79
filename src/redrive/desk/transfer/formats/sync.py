"""Documents about rows that did not reach a warehouse: only of jobs that have been dead letters."""

from __future__ import annotations

import hashlib
import json
from typing import Final, Literal, NamedTuple, cast

from redrive.desk.transfer.formats import times
from redrive.desk.transfer.formats.declaration import Declaration, declared, has_shape
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import Draft, Line
from redrive.jobs.job import Job, State

_MAX: Final = 10
_MAPPING: Final = Declaration.of(
    "sync",
    [
        "key=failureId",
        "payload=originalData",
        "error=error.message",
        "error.trace=error.stack",
        "attempts=retryCount",
        "died_at=createdAt",
        "created=createdAt",
        "failed_at=createdAt",
        "state=status:failed=dead,retrying=pending,resolved=resolved",
        "finished=resolvedAt",
    ],
    set=["handler=bigquery.sync", f"attempts={_MAX}"],
)
Status = Literal["failed", "retrying", "resolved"]
_AGAIN: Final = frozenset({State.PENDING, State.RUNNING, State.COMPLETED})
"""Its counts are those of another life than the one it died in."""


def _named(line: Line) -> Line:
    """Name a document: by what it stood under, or else by what is in it."""
    named = line.value.get("failureId")
    if isinstance(named, str) and named:
        return line
    content = [line.value["originalData"], line.value.get("createdAt")]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]
    return line._replace(value={**line.value, "failureId": line.name or digest})


class Entry(NamedTuple):
    """A dead letter as these documents have it; times in seconds since 1970."""

    message: str
    stack: str
    retry_count: int
    created: float
    status: Status
    resolved: float | None


def entry_of(job: Job) -> Entry:
    """Return a job that has been a dead letter as an entry."""
    last = next((attempt for attempt in reversed(job.history) if attempt.failure is not None), None)
    failure = (last and last.failure) or job.failure
    died, status = job.died_at, cast("Status", _MAPPING.word(job.state))
    if died is None:
        died = job.updated if last is None else round(last.started + last.duration, 6)
    return Entry(
        message=failure.message if failure else "",
        stack=failure.traceback if failure else "",
        retry_count=last.number if last and job.state in _AGAIN else job.attempts,
        created=died,
        status=status,
        resolved=(job.finished or job.updated) if status == "resolved" else None,
    )


def _lives(draft: Draft, line: Line) -> None:
    """Begin another life of what is being retried; only what was resolved has an end."""
    del line
    draft.max_attempts = max(draft.attempts, _MAX)
    if draft.state is State.PENDING:
        draft.attempts, draft.redrives = 0, 1
    if draft.state is not State.RESOLVED:
        draft.finished = None


def _death(job: Job, row: Fields) -> Fields:
    """Write how the job died, whatever became of it since; refuse one that never did."""
    if not (job.state in {State.DEAD, State.RESOLVED} or job.redrives):
        raise ValueError("it has never been a dead letter")
    entry = entry_of(job)
    row["createdAt"], row["retryCount"] = times.iso(entry.created), entry.retry_count
    row["error"] = {"message": entry.message, "stack": entry.stack}
    row["resolvedAt"] = None if entry.resolved is None else times.iso(entry.resolved)
    return {"due": job.due, "created": job.created}


FORMAT: Final = declared(
    _MAPPING, has_shape("originalData{} status"), prepare=_named, read=_lives, wrote=_death
)
