"""The lines of an event stream, and its dead letters: each line is an event as it stood then.

Many lines tell of one event; the latest says what became of it, the earlier ones what was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from redrive._evolve import evolve
from redrive.exchange import fields, record, times
from redrive.exchange.fields import Fields, Raw
from redrive.exchange.record import EXTRA, Asked, Failing, Format, Line
from redrive.job import Attempt, Failure, Job, Reason, State

_ABOUT: Final = ("event_type", "source", "parent_event_id", "tags", "importance")
_KNOWN: Final = {
    "event_id": None,
    "timestamp": None,
    **dict.fromkeys(_ABOUT),
    "data": None,
    "status": None,
    "error_info": {"category": None, "message": None, "type": None, "stacktrace": None},
    "retry_info": dict.fromkeys(
        ("count", "max_retries", "next_retry_at", "backoff_seconds", "exhausted")
    ),
    "latency_ms": None,
    "job_id": None,
    EXTRA: None,
}
_MAX: Final = 3
_MOST_TOLD: Final = 20
"""How many failures of one event are kept, the latest."""
_IN: Final = {
    "pending": State.PENDING,
    "retrying": State.PENDING,
    "success": State.COMPLETED,
    "failed": State.DEAD,
    "dead_letter": State.DEAD,
}
_FAILED: Final = {"retrying", "failed", "dead_letter"}


def fits(value: Fields) -> bool:
    """Tell an event by its shape."""
    return "event_id" in value and "event_type" in value


def group(value: Fields) -> str:
    """Say what lines about one event have in common."""
    return fields.text(value, "event_id")


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make one job of all the lines about an event."""
    timed = sorted(((_at(line, asked), line) for line in lines), key=lambda one: one[0])
    at, line = timed[-1]
    value = line.value
    status = fields.text(value, "status", "pending")
    if status not in _IN:
        msg = f"status cannot be {status!r:.80}"
        raise ValueError(msg)
    retries = fields.inner(value, "retry_info")
    count, most = fields.count(retries, "count", 0), fields.count(retries, "max_retries", _MAX)
    attempts = count if status in {"pending", "retrying"} else count + 1
    payload = "{}" if value.get("data") is None else fields.cut(line.text, "data")
    failings = [one for when, it in timed for one in _failing(it, when, payload)][-_MOST_TOLD:]
    state = _IN[status]
    name = fields.text(value, "event_id")
    left: Fields = {}
    for _, one in timed:
        left = {**left, **fields.rest(one.value, _KNOWN)}
    if "latency_ms" in value and not failings:
        left["latency_ms"] = value["latency_ms"]
    job = record.made(
        asked,
        [line],
        format="events",
        ident=name,
        handler=fields.text(value, "event_type"),
        payload=payload,
        state=state,
        reason=_reason(status, retries),
        created=timed[0][0],
        updated=at,
        due=asked.moment(retries, "next_retry_at"),
        attempts=max(attempts, len(failings)),
        failed=max(attempts, len(failings)) - (state is State.COMPLETED),
        limit=max(most + 1, 1),
        failings=failings,
        first_failed=failings[0].at if failings else None,
        finished=at,
        tags=(record.fit_name(name),),
        origin={**_about(value), "fields": left},
        is_same=lambda one: one is state or (one is State.RESOLVED and status == "success"),
    )
    # A dead letter in the log of our own stream names the job that it is.
    own = value.get("job_id")
    return evolve(job, id=own) if EXTRA not in value and record.is_id(own) else job


def _at(line: Line, asked: Asked) -> float:
    return asked.needed(line.value, "timestamp")


def _about(value: Fields) -> Fields:
    usual: Fields = {
        "source": value["event_type"],
        "parent_event_id": None,
        "tags": [],
        "importance": 3,
    }
    return {name: value.get(name, usual.get(name)) for name in _ABOUT}


def _reason(status: str, retries: Fields) -> Reason | None:
    if status == "success":
        return Reason.DONE
    if status in {"pending", "retrying"}:
        return None
    is_exhausted = status == "dead_letter" and retries.get("exhausted") is not False
    return Reason.EXHAUSTED if is_exhausted else Reason.PERMANENT


def _failing(line: Line, at: float, payload: str) -> Iterable[Failing]:
    """Give the failure that a line tells of, if it does."""
    value = line.value
    error = fields.inner(value, "error_info")
    told = any(error.get(name) for name in ("message", "type", "category"))
    if not told or value.get("status") not in _FAILED:
        return
    took = value.get("latency_ms")
    yield record.failing(
        at,
        fields.text(error, "message", ""),
        payload,
        kind=fields.text(error, "type", ""),
        stack=fields.text(error, "stacktrace", ""),
        category=fields.text(error, "category", ""),
        duration=round(took / 1000, 6) if type(took) in (int, float) and took else 0.0,
    )


def _write(job: Job, asked: Asked) -> Iterable[Fields]:
    """Write an event: its beginning, each failure before the last, and what became of it."""
    del asked
    failed = [one for one in job.history if one.failure is not None]
    ends_failed = job.state in {State.PENDING, State.RUNNING, State.DEAD} and job.attempts > 0
    last = failed.pop() if failed and ends_failed else None
    times_told = [_end(one) for one in failed] + [job.updated]
    if job.created < times_told[0]:
        yield {**_base(job, job.created, "pending"), "retry_info": _retries(job, 0)}
    for one in failed:
        retries = _retries(job, one.number)
        yield {**_base(job, _end(one), "retrying"), **_told(one), "retry_info": retries}
    status = _status(job)
    line = _base(job, job.updated, status)
    if last is not None:
        line |= _told(last)
    count = job.attempts if status in {"pending", "retrying"} else max(0, job.attempts - 1)
    line["retry_info"] = _retries(job, count)
    if status == "retrying":
        wait = round(max(0.0, job.due - job.updated), 6)
        line["retry_info"] |= {"next_retry_at": times.iso(job.due), "backoff_seconds": wait}
    if status == "dead_letter":
        line["retry_info"]["exhausted"] = job.reason is Reason.EXHAUSTED
        line["job_id"] = job.id
    line[EXTRA] = record.beside(job)
    yield fields.joined(line, record.origin_of(job, "events").get("fields") or {})


def _base(job: Job, at: float, status: str) -> Fields:
    origin = record.origin_of(job, "events")
    about: Fields = {name: origin[name] for name in _ABOUT if name in origin}
    return {
        "event_id": origin.get("id") or job.id,
        "timestamp": times.iso(at),
        "event_type": job.handler,
        "source": job.lane,
        "parent_event_id": None,
        "tags": [],
        "importance": 3,
        **about,
        "data": Raw(job.payload),
        "status": status,
        "error_info": None,
    }


def _told(attempt: Attempt) -> Fields:
    failure: Any = attempt.failure
    return {"error_info": _error(failure), "latency_ms": round(attempt.duration * 1000, 3)}


def _error(failure: Failure) -> Fields:
    return {
        "category": failure.category.value,
        "message": failure.message,
        "type": failure.type,
        "stacktrace": failure.traceback,
    }


def _retries(job: Job, count: int) -> Fields:
    return {"count": count, "max_retries": max(0, job.limit - 1)}


def _end(attempt: Attempt) -> float:
    return round(attempt.started + attempt.duration, 6)


def _status(job: Job) -> str:
    if job.state is State.DEAD:
        return "dead_letter"
    if job.state in {State.COMPLETED, State.RESOLVED}:
        return "success"
    return "retrying" if job.attempts else "pending"


FORMAT: Final = Format(name="events", fits=fits, job=job, write=record.each(_write), group=group)
