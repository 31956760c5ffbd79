"""Documents about rows that did not reach a warehouse: only of jobs that have been dead letters."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.fields import Fields, Raw
from redrive.desk.transfer.formats.record import EXTRA, Asked, Format, Line
from redrive.jobs.job import Job, Reason, State

_KNOWN: Final = {
    "failureId": None,
    "originalData": None,
    "error": {"message": None, "stack": None},
    "retryCount": None,
    "createdAt": None,
    "status": None,
    "resolvedAt": None,
    EXTRA: None,
}
_HANDLER: Final = "bigquery.sync"
_MAX: Final = 10
_IN: Final = {
    "failed": (State.DEAD, Reason.EXHAUSTED),
    "retrying": (State.PENDING, None),
    "resolved": (State.RESOLVED, Reason.RESOLVED),
}
_OUT: Final[Mapping[State, Literal["failed", "retrying", "resolved"]]] = {
    State.DEAD: "failed",
    State.PENDING: "retrying",
    State.RUNNING: "retrying",
    State.COMPLETED: "resolved",
    State.RESOLVED: "resolved",
}
_AGAIN: Final = frozenset({State.PENDING, State.RUNNING, State.COMPLETED})
"""Its counts are those of another life than the one it died in."""


def fits(value: Fields) -> bool:
    """Return True if a record has the shape of a document."""
    return isinstance(value.get("originalData"), dict) and "status" in value


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make a job of a document; what is being retried has begun another life."""
    line = lines[-1]
    value = line.value
    status = value["status"]
    if status not in _IN:
        msg = f"status cannot be {status!r}"
        raise ValueError(msg)
    state, reason = _IN[status]
    died = asked.needed(value, "createdAt")
    ended = asked.moment(value, "resolvedAt") if status == "resolved" else None
    last = died if ended is None else max(died, ended)
    payload = fields.cut(line.text, "originalData")
    error = fields.inner(value, "error")
    failed = fields.count(value, "retryCount", _MAX)
    failing = record.failing(
        died,
        fields.text(error, "message", ""),
        payload,
        stack=fields.text(error, "stack", ""),
    )
    is_again = state is State.PENDING
    return record.made(
        asked,
        lines,
        format="sync",
        ident=_ident(line),
        handler=_HANDLER,
        payload=payload,
        state=state,
        reason=reason,
        created=died,
        updated=last,
        attempts=0 if is_again else failed,
        failed=failed,
        max_attempts=max(failed, _MAX),
        failings=[failing],
        first_failed=died,
        finished=died if state is State.DEAD else last,
        died_at=died,
        redrives=int(is_again),
        origin={"fields": fields.rest(value, _KNOWN)},
        is_same=lambda one: _OUT[one] == status,
    )


def _ident(line: Line) -> str:
    """Return the document's name; one without is known by what is in it."""
    named = line.value.get("failureId") or line.name
    if isinstance(named, str) and named:
        return named
    content = [line.value["originalData"], line.value["createdAt"]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:20]


class Entry(NamedTuple):
    """A dead letter as these documents have it; times in seconds since 1970."""

    message: str
    stack: str
    retry_count: int
    created: float
    status: Literal["failed", "retrying", "resolved"]
    resolved: float | None


def entry_of(job: Job) -> Entry:
    """Return a job that has been a dead letter as an entry."""
    last = next((attempt for attempt in reversed(job.history) if attempt.failure is not None), None)
    failure = (last and last.failure) or job.failure
    died, status = job.died_at, _OUT[job.state]
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


def _write(job: Job, asked: Asked) -> Iterable[Fields]:
    del asked
    was_dead = job.state is State.DEAD or job.redrives or job.state is State.RESOLVED
    if not was_dead:
        msg = "it has never been a dead letter"
        raise ValueError(msg)
    origin, entry = record.origin_of(job, "sync"), entry_of(job)
    document: Fields = {
        "failureId": origin.get("id") or job.id,
        "originalData": Raw(job.payload),
        "error": {"message": entry.message, "stack": entry.stack},
        "retryCount": entry.retry_count,
        "createdAt": times.iso(entry.created),
        "status": entry.status,
        "resolvedAt": None if entry.resolved is None else times.iso(entry.resolved),
    }
    document[EXTRA] = record.beside(job, _HANDLER, due=job.due, created=job.created)
    yield fields.joined(document, origin.get("fields") or {})


FORMAT: Final = Format(name="sync", fits=fits, job=job, write=record.each(_write))
