"""The lines of an event stream, and its dead letters: each line is an event as it stood then.

Many lines tell of one event; the latest says what became of it, the earlier ones what was tried. The
program that this format comes from gives each retry an id of its own: the line that ends the event
names them in `recovery_actions`, or they are known by their numbers. A line without a status is a line
of a log and no work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.declaration import Declaration, declared, job_of
from redrive.desk.transfer.formats.failings import Failing
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.record import EXTRA, Draft, Line, Link, TransferOptions
from redrive.jobs.job import Attempt, Job, Reason, State
from redrive.jobs.records import evolve

_ABOUT: Final = ("event_type", "source", "parent_event_id", "tags", "importance")
_MAPPING: Final = Declaration.of(
    "events",
    [
        "key=event_id",
        "tags=event_id",
        "created=timestamp",
        "handler=event_type",
        "payload=data",
        "state=status:pending=pending,running=pending,retrying=pending,success=completed,"  # noqa: ISC004
        "failed=dead.permanent,dead_letter=dead",
        "error.category=error_info.category:network=transient,api_error=transient,"  # noqa: ISC004
        "auth_error=auth,validation=invalid,*=*",
        "error=error_info.message",
        "error.type=error_info.type",
        "error.trace=error_info.stacktrace",
        "attempts=retry_info.count",
        "max_attempts=retry_info.max_retries:+1",
        "due=retry_info.next_retry_at",
    ],
    set=["max_attempts=4", "payload={}"],
)
_KNOWN: Final = {
    **_MAPPING.known(),
    **dict.fromkeys((*_ABOUT, "job_id")),
    "retry_info": dict.fromkeys(
        ("count", "max_retries", "next_retry_at", "backoff_seconds", "exhausted")
    ),
}
_OLD_ERROR: Final = {
    "error_type": "type",
    "error_message": "message",
    "error_category": "category",
    "stack_trace": "stacktrace",
}
"""Older names of the fields of an error; a dead letter of that time has them at the top."""
_OLD_RETRIES: Final = {"retry_count": "count"}
_UNNAMED: Final = "event"
"""The type of an old dead letter, which names none, unless its context names an action."""
_MOST_FAILURES: Final = 20  # how many failures of one event are kept, the latest
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


def job(lines: Sequence[Line], asked: TransferOptions) -> Job:
    """Make one job of all the lines about an event."""
    lines = [_modern(line) for line in lines]
    pairs = sorted(((_read(line, asked), line) for line in lines), key=lambda one: one[0].began)
    draft, line = pairs[-1]
    draft.payload = _payload([line for _, line in pairs])
    draft.failings = [
        failing for one, it in pairs for failing in _failings(one, it, draft.payload)
    ][-_MOST_FAILURES:]  # fmt: skip
    is_done = draft.state is State.COMPLETED
    made = draft.attempts + (draft.state is not State.PENDING)
    draft.attempts = max(made, len(draft.failings) + is_done)
    draft.failed = draft.attempts - is_done
    if fields.inner(line.value, "retry_info").get("exhausted") is False and draft.reason:
        draft.reason = Reason.DONE if is_done else Reason.PERMANENT
    draft.created, draft.finished = pairs[0][0].created, draft.created
    draft.updated = draft.finished
    about = _about([it.value for _, it in pairs])
    draft.handler = fields.text(about, "event_type")
    draft.origin = {**about, **_ids(lines, draft.ident)}
    known = {**_KNOWN, **({"latency_ms": None} if draft.failings else {})}
    job = job_of(_MAPPING, draft, [it for _, it in pairs], asked, known)
    # A dead letter in the log of our own stream names the job that it is.
    own = line.value.get("job_id")
    is_own = EXTRA not in line.value and record.is_id(own)
    return evolve(job, event=draft.ident, **({"id": own} if is_own else {}))


def _read(line: Line, asked: TransferOptions) -> Draft:
    draft = _MAPPING.draft(line, asked)
    if draft.created is None:
        raise ValueError("timestamp is missing")
    return draft


def _modern(line: Line) -> Line:
    """Return a line with the names that its fields have today, and data."""
    value = line.value
    if _is_old(value):
        error = {name: value[name] for name in _OLD_ERROR if name in value}
        count = value.get("retry_count")
        others = value.keys() - error.keys() - _OLD_RETRIES.keys()
        value = {
            **{name: value[name] for name in value if name in others},
            "status": "dead_letter",
            "error_info": error,
            "retry_info": {"count": count, "exhausted": False},
        }
    value = {
        **value,
        "error_info": _renamed(value.get("error_info"), _OLD_ERROR),
        "retry_info": _renamed(value.get("retry_info"), _OLD_RETRIES),
    }
    return line._replace(value=value)


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
    yield from record.kept_ids(value)


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


def _failings(draft: Draft, line: Line, payload: str) -> list[Failing]:
    """Return the failure that a line reports, if it does, with the time it took."""
    if draft.value not in _FAILED:
        return []
    took = line.value.get("latency_ms")
    duration = round(took / 1000, 6) if type(took) in (int, float) and took else 0.0
    draft.payload = payload
    return [
        Failing(draft.began, failing.failure, duration)
        for failing in _MAPPING.failings(draft, line.value)
    ]


def _write(job: Job, asked: TransferOptions) -> Iterable[Fields]:
    """Write an event: its beginning, each failure before the last, and what became of it."""
    del asked
    failed = [attempt for attempt in job.history if attempt.failure is not None]
    ends_failed = job.state in {State.PENDING, State.RUNNING, State.DEAD} and job.attempts > 0
    last = failed.pop() if failed and ends_failed else None
    times_written = [_end(attempt) for attempt in failed] + [job.updated]
    if job.created < times_written[0]:
        yield _line(job, job.created, "pending", 0, None)
    for attempt in failed:
        yield _line(job, _end(attempt), "retrying", attempt.number, attempt)
    status = _status(job)
    count = job.attempts if status in {"pending", "retrying"} else max(0, job.attempts - 1)
    line = _line(job, job.updated, status, count, last)
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


def _line(job: Job, at: float, status: str, count: int, attempt: Attempt | None) -> Fields:
    """Write an event as it stood at one time, after an attempt that failed, if there was one."""
    history = (attempt,) if attempt else ()
    then = evolve(job, created=at, attempts=count, failure=None, history=history)
    line = _MAPPING.row(then, TransferOptions())
    del line["retry_info"]["next_retry_at"]
    origin = record.origin_of(job, "events")
    line |= {"source": job.lane, "parent_event_id": None, "tags": [], "importance": 3}
    line |= {name: origin[name] for name in _ABOUT if name in origin} | {"status": status}
    if attempt is None:
        return {**line, "error_info": None}
    error = {name: text or "" for name, text in line["error_info"].items()}
    return {**line, "error_info": error, "latency_ms": round(attempt.duration * 1000, 3)}


def _end(attempt: Attempt) -> float:
    return round(attempt.started + attempt.duration, 6)


def _status(job: Job) -> str:
    if job.state is State.DEAD:
        return "dead_letter"
    if job.state in {State.COMPLETED, State.RESOLVED}:
        return "success"
    return "retrying" if job.attempts else "pending"


FORMAT: Final = declared(
    _MAPPING,
    fits,
    job=job,
    write=record.each(_write),
    group=group,
    names=names,
    ignores=ignores,
    ends=ends,
    chain=chain,
)
