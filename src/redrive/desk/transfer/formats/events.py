"""The lines of an event stream, and its dead letters: each line is an event as it stood then.

Many lines tell of one event; the latest says what became of it, the earlier ones what was tried. The
program that this format comes from gives each retry an id of its own: the line that ends the event
names them in `recovery_actions`, or they are known by their numbers. A line without a status is a line
of a log and no work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.fields import Fields, Raw
from redrive.desk.transfer.formats.record import EXTRA, Asked, Failing, Format, Line, Link
from redrive.jobs.job import Attempt, Failure, Job, Reason, State
from redrive.jobs.records import evolve

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
_OLD_ERROR: Final = {
    "error_type": "type",
    "error_message": "message",
    "error_category": "category",
    "stack_trace": "stacktrace",
}
"""Older names of the fields of an error; a dead letter of that time has them at the top."""
_OLD_RETRIES: Final = {"retry_count": "count"}
_OLD_CATEGORIES: Final = {
    "network": "transient",
    "api_error": "transient",
    "auth_error": "auth",
    "validation": "invalid",
}
_UNNAMED: Final = "event"
"""The type of an old dead letter, which names none, unless its context names an action."""
_MAX: Final = 3
_MOST_TOLD: Final = 20
"""How many failures of one event are kept, the latest."""
_IN: Final = {
    "pending": State.PENDING,
    "running": State.PENDING,
    "retrying": State.PENDING,
    "success": State.COMPLETED,
    "failed": State.DEAD,
    "dead_letter": State.DEAD,
}
_FAILED: Final = {"retrying", "failed", "dead_letter"}


def fits(value: Fields) -> bool:
    """Return True if a record has the shape of an event."""
    return "event_id" in value and ("event_type" in value or _is_old(value))


def _is_old(value: Fields) -> bool:
    """Return True for a dead letter as the program wrote them first: seven fields, no type."""
    return "event_type" not in value and value.keys() >= {"error_type", "error_message"}


def ignores(value: Fields) -> str:
    """Return why a line is no work: without a status it only tells that something happened."""
    return "" if value.get("status") is not None or _is_old(value) else "has no status"


def group(value: Fields) -> str:
    """Return what lines about one event have in common."""
    return fields.text(value, "event_id")


def names(job: Job) -> Iterable[str]:
    """Return the ids that the lines about a stored job had."""
    origin = record.origin_of(job, "events")
    return [str(name) for name in origin.get("ids") or [origin.get("id", "")]]


def ends(value: Fields) -> Iterable[str]:
    """Return the ids of the retries that a line says the end of."""
    actions = value.get("recovery_actions")
    for action in cast("list[object]", actions) if isinstance(actions, list) else []:
        name = cast("Fields", action).get("event_id") if isinstance(action, dict) else None
        if isinstance(name, str):
            yield name


def chain(value: Fields) -> Link | None:
    """Place a retry, or a failure that no retry can help, behind the retry before it.

    Lines of our own have one id and need none of this.
    """
    retries, error = value.get("retry_info"), value.get("error_info")
    if "job_id" in value or EXTRA in value or not isinstance(error, dict):
        return None
    context = cast("Fields", error).get("context")
    details = cast("Fields", context if isinstance(context, dict) else {})
    after, most = details.get("retry_count"), details.get("max_retries")
    if type(after) is not int or value.get("status") not in {"retrying", "failed"}:
        return None
    ready = cast("Fields", retries).get("next_retry_at") if isinstance(retries, dict) else None
    is_last = value["status"] == "failed"
    alike = [value.get(name) for name in ("event_type", "source", "data", "parent_event_id")]
    return Link(
        json.dumps([*alike, most], sort_keys=True),
        after,
        0 if is_last or not isinstance(ready, str) else after + 1,
        str(value.get("timestamp")),
        str(ready),
    )


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make one job of all the lines about an event."""
    lines = [line._replace(value=_modern(line.value)) for line in lines]
    timed = sorted(((_at(line, asked), line) for line in lines), key=lambda one: one[0])
    at, line = timed[-1]
    value = line.value
    status = fields.text(value, "status")
    if status not in _IN:
        msg = f"status cannot be {status!r}"
        raise ValueError(msg)
    retries = fields.inner(value, "retry_info")
    count, most = fields.count(retries, "count", 0), fields.count(retries, "max_retries", _MAX)
    state = _IN[status]
    attempts = count if state is State.PENDING else count + 1
    payload = _payload([line for _, line in timed])
    failings = [one for when, it in timed for one in _failing(it, when, payload)][-_MOST_TOLD:]
    attempts = max(attempts, len(failings) + (state is State.COMPLETED))
    name = fields.text(value, "event_id")
    about = _about([line.value for _, line in timed])
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
        handler=fields.text(about, "event_type"),
        payload=payload,
        state=state,
        reason=_reason(status, retries),
        created=timed[0][0],
        updated=at,
        due=asked.moment(retries, "next_retry_at"),
        attempts=attempts,
        failed=attempts - (state is State.COMPLETED),
        max_attempts=max(most + 1, 1),
        failings=failings,
        first_failed=failings[0].at if failings else None,
        finished=at,
        tags=(record.fit_name(name),),
        origin={**about, **_ids(lines, name), "fields": left},
        is_same=lambda one: one is state or (one is State.RESOLVED and status == "success"),
    )
    # A dead letter in the log of our own stream names the job that it is.
    own = value.get("job_id")
    known = {"id": own} if EXTRA not in value and record.is_id(own) else {}
    return evolve(job, event=name, **known)


def _at(line: Line, asked: Asked) -> float:
    return asked.needed(line.value, "timestamp")


def _modern(value: Fields) -> Fields:
    """Return a line with the names that its fields have today."""
    if _is_old(value):
        error = {name: value[name] for name in _OLD_ERROR if name in value}
        count = value.get("retry_count")
        others = value.keys() - error.keys() - _OLD_RETRIES.keys()
        return {
            **{name: value[name] for name in value if name in others},
            "status": "dead_letter",
            "error_info": _renamed(error, _OLD_ERROR),
            "retry_info": {"count": count, "exhausted": False},
        }
    return {
        **value,
        "error_info": _renamed(value.get("error_info"), _OLD_ERROR),
        "retry_info": _renamed(value.get("retry_info"), _OLD_RETRIES),
    }


def _renamed(value: object, old: Mapping[str, str]) -> object:
    """Return an object with newer names of its members; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return {old.get(name, name): inner for name, inner in cast("Fields", value).items()}


def _payload(lines: Sequence[Line]) -> str:
    """Return the data of the latest line that has some; old dead letters have only a context."""
    for name in ("data", "context"):
        for line in reversed(lines):
            if line.value.get(name) is not None:
                return fields.cut(line.text, name)
    return "{}"


def _ids(lines: Sequence[Line], name: str) -> Fields:
    """Return all ids that an event had, if it had more than one."""
    more = [name for line in lines for name in _more_ids(line.value)]
    ids = dict.fromkeys([name, *more])
    return {"ids": list(ids)} if len(ids) > 1 else {}


def _more_ids(value: Fields) -> Iterable[str]:
    yield fields.text(value, "event_id")
    yield from ends(value)
    kept = fields.inner(value, EXTRA).get("ids")
    yield from map(str, cast("list[object]", kept) if isinstance(kept, list) else [])


def _about(values: Sequence[Fields]) -> Fields:
    """Return what an event is about, as the latest line says that tells it."""
    context = values[-1].get("context")
    action = cast("Fields", context).get("action") if isinstance(context, dict) else None
    about: Fields = {
        "event_type": action if isinstance(action, str) and action else _UNNAMED,
        "parent_event_id": None,
        "tags": [],
        "importance": 3,
    }
    for value in values:
        about |= {name: value[name] for name in _ABOUT if name in value}
    return {name: about.get(name, about["event_type"]) for name in _ABOUT}


def _reason(status: str, retries: Fields) -> Reason | None:
    if status == "success":
        return Reason.DONE
    if _IN[status] is State.PENDING:
        return None
    is_exhausted = status == "dead_letter" and retries.get("exhausted") is not False
    return Reason.EXHAUSTED if is_exhausted else Reason.PERMANENT


def _failing(line: Line, at: float, payload: str) -> Iterable[Failing]:
    """Yield the failure that a line reports, if it does."""
    value = line.value
    error = fields.inner(value, "error_info")
    has_error = any(error.get(name) for name in ("message", "type", "category"))
    if not has_error or value.get("status") not in _FAILED:
        return
    took = value.get("latency_ms")
    category = fields.text(error, "category", "")
    yield record.failing(
        at,
        fields.text(error, "message", ""),
        payload,
        kind=fields.text(error, "type", ""),
        stack=fields.text(error, "stacktrace", ""),
        category=_OLD_CATEGORIES.get(category, category),
        duration=round(took / 1000, 6) if type(took) in (int, float) and took else 0.0,
    )


def _write(job: Job, asked: Asked) -> Iterable[Fields]:
    """Write an event: its beginning, each failure before the last, and what became of it."""
    del asked
    failed = [attempt for attempt in job.history if attempt.failure is not None]
    ends_failed = job.state in {State.PENDING, State.RUNNING, State.DEAD} and job.attempts > 0
    last = failed.pop() if failed and ends_failed else None
    times_told = [_end(attempt) for attempt in failed] + [job.updated]
    if job.created < times_told[0]:
        yield {**_base(job, job.created, "pending"), "retry_info": _retries(job, 0)}
    for attempt in failed:
        retries = _retries(job, attempt.number)
        yield {**_base(job, _end(attempt), "retrying"), **_told(attempt), "retry_info": retries}
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
    origin = record.origin_of(job, "events")
    usual = record.fit_name(str(origin.get("event_type", job.handler)))
    due = job.due if status == "pending" and job.due > job.updated else None
    line[EXTRA] = record.beside(job, usual, ids=origin.get("ids"), due=due)
    yield fields.joined(line, origin.get("fields") or {})


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
    return {"count": count, "max_retries": max(0, job.max_attempts - 1)}


def _end(attempt: Attempt) -> float:
    return round(attempt.started + attempt.duration, 6)


def _status(job: Job) -> str:
    if job.state is State.DEAD:
        return "dead_letter"
    if job.state in {State.COMPLETED, State.RESOLVED}:
        return "success"
    return "retrying" if job.attempts else "pending"


FORMAT: Final = Format(
    name="events",
    fits=fits,
    job=job,
    write=record.each(_write),
    group=group,
    names=names,
    ignores=ignores,
    ends=ends,
    chain=chain,
)
