"""Hooks that a script could not post, one object a line, as that script kept them.

It added a line with a new id whenever a retry failed, so many lines may tell of one hook: lines with
the same hook and endpoint are one job.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from redrive.desk.transfer.formats import fields, record
from redrive.desk.transfer.formats.fields import Fields, Raw
from redrive.desk.transfer.formats.record import EXTRA, Asked, Format, Line
from redrive.jobs.job import Job, Reason, State
from redrive.jobs.records import evolve
from redrive.payloads import strict_json

_HANDLER: Final = "hook.post"
_DATA: Final = ("hook", "endpoint")
_KNOWN: Final = {
    "jobId": None,
    "data": dict.fromkeys(_DATA),
    "attemptsMade": None,
    "maxAttempts": None,
    "timestamp": None,
    "nextRetry": None,
    "error": {"message": None, "code": None},
    "state": None,
    "resolvedAt": None,
    EXTRA: None,
}
_MAX: Final = 5
_LATEST: Final = 253402300799_000
"""The end of the year 9999."""
_OUT: Final = {
    State.PENDING: "pending",
    State.RUNNING: "retrying",
    State.DEAD: "exhausted",
    State.COMPLETED: "resolved",
    State.RESOLVED: "resolved",
}


def fits(value: Fields) -> bool:
    """Return True if a record has the shape of a hook."""
    return "jobId" in value and isinstance(value.get("data"), dict) and "attemptsMade" in value


def group(value: Fields) -> str:
    """Return what lines about one hook have in common."""
    data = fields.inner(value, "data", needed=True)
    return _digest(data.get("hook"), data.get("endpoint"))


def names(job: Job) -> Iterator[str]:
    """Yield that of a stored job, and the ids its lines had."""
    payload = strict_json.loads(job.payload)
    if "hook" in payload:
        yield _digest(payload["hook"], payload.get("endpoint"))
    origin = record.origin_of(job, "hooks")
    yield from origin.get("ids") or [job.key or ""]


def _digest(hook: object, endpoint: object) -> str:
    text = json.dumps([hook, endpoint], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _Delivery(NamedTuple):
    """What one line says."""

    line: Line
    at: float
    made: int
    most: int
    next: float | None
    resolved: float | None
    ids: list[str]

    @property
    def state(self) -> str:
        return str(self.line.value["state"])


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make one job of all the lines about a hook; the one that got furthest tells most."""
    deliveries = sorted((_read(line, asked) for line in lines), key=lambda delivery: delivery.at)
    first, last = deliveries[0], deliveries[-1]
    furthest = max(deliveries, key=lambda delivery: (delivery.made, delivery.at))
    line = furthest.line
    state, reason = _state(deliveries)
    extra = fields.inner(line.value, EXTRA)
    payload = _payload(line, is_body=extra.get("body") is True)
    is_keyless = extra.get("id") == first.ids[0]
    left: Fields = {}
    for delivery in deliveries:
        left = {**left, **fields.rest(delivery.line.value, _KNOWN)}
    ended = [delivery.resolved for delivery in deliveries if delivery.resolved is not None]
    failings = _failings(line, last.at, payload)
    job = record.made(
        asked,
        [line],
        format="hooks",
        ident=first.ids[0],
        handler=_HANDLER,
        payload=payload,
        state=state,
        reason=reason,
        created=first.at,
        updated=last.at,
        due=max((known.next for known in deliveries if known.next is not None), default=None),
        attempts=furthest.made,
        max_attempts=furthest.most,
        failings=failings,
        first_failed=first.at if furthest.made or failings else None,
        finished=max(ended, default=last.at) if state is State.COMPLETED else last.at,
        key=record.visible(first.ids[0], "hooks"),
        origin={"ids": _unique(name for known in deliveries for name in known.ids), "fields": left},
        is_same=lambda state: _OUT[state] == furthest.state,
    )
    return evolve(job, key=None) if is_keyless else job


def _payload(line: Line, *, is_body: bool) -> str:
    """Return the arguments as the handler of hooks takes them, or those of an endpoint of ours."""
    hook = fields.cut(line.text, "data", "hook")
    if is_body:
        return f'{{"body":{hook}}}'
    return f'{{"hook":{hook},"endpoint":{fields.cut(line.text, "data", "endpoint")}}}'


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _read(line: Line, asked: Asked) -> _Delivery:
    """Check one line."""
    value = line.value
    data = fields.inner(value, "data", needed=True)
    fields.text(data, "endpoint")
    if "hook" not in data:
        msg = "data has no hook"
        raise ValueError(msg)
    if value.get("state") not in {"pending", "retrying", "exhausted", "resolved"}:
        msg = f"state cannot be {value.get('state')!r}"
        raise ValueError(msg)
    at = _moment(value, "timestamp", asked)
    if at is None:
        msg = "timestamp is missing"
        raise ValueError(msg)
    more = fields.inner(value, EXTRA).get("ids")
    others = [str(name) for name in cast("list[object]", more)] if isinstance(more, list) else []
    return _Delivery(
        line,
        at,
        fields.count(value, "attemptsMade"),
        fields.count(value, "maxAttempts", _MAX, least=1),
        _moment(value, "nextRetry", asked),
        _moment(value, "resolvedAt", asked),
        [fields.text(value, "jobId"), *others],
    )


def _moment(value: Fields, name: str, asked: Asked) -> float | None:
    """Read a time: here numbers are milliseconds, however small."""
    moment: Any = value.get(name)
    if type(moment) not in (int, float):
        return asked.moment(value, name)
    if abs(moment) > _LATEST:
        msg = f"{name} is not a time: {moment!r}"
        raise ValueError(msg)
    return round(float(moment) / 1000, 6)


def _failings(line: Line, at: float, payload: str) -> list[record.Failing]:
    error = fields.inner(line.value, "error")
    message, code = fields.text(error, "message", ""), fields.text(error, "code", "") or None
    if not message and code is None:
        return []
    return [record.failing(at, message, payload, code=code)]


def _state(deliveries: list[_Delivery]) -> tuple[State, Reason | None]:
    states = {delivery.state for delivery in deliveries}
    if "resolved" in states:
        return State.COMPLETED, Reason.DONE
    if "exhausted" in states:
        return State.DEAD, Reason.EXHAUSTED
    return State.PENDING, None


def _write(job: Job, asked: Asked) -> Iterable[Fields]:
    payload = record.members_of(job)
    is_body = payload.keys() == {"body"}
    data = _sent(job, payload, asked) if is_body else {name: payload[name] for name in _DATA}
    origin = record.origin_of(job, "hooks")
    ids: list[str] = origin.get("ids") or [job.key or job.id]
    failure = job.failure
    line: Fields = {
        "jobId": ids[0],
        "data": data,
        "attemptsMade": job.attempts,
        "maxAttempts": job.max_attempts or _MAX,
        "timestamp": _ms(job.created if job.first_failed is None else job.first_failed),
        "nextRetry": _ms(job.due),
        "error": None if failure is None else {"message": failure.message, "code": failure.code},
        "state": _OUT[job.state],
    }
    if line["state"] == "resolved":
        line["resolvedAt"] = _ms(job.finished or job.updated)
    made = job.created if job.first_failed not in {None, job.created} else None
    line[EXTRA] = record.beside(
        job, _HANDLER, ids=ids[1:] or None, body=is_body or None, created=made, key=None
    )
    yield fields.joined(line, origin.get("fields") or {})


def _sent(job: Job, payload: Fields, asked: Asked) -> Fields:
    """Return the hook of an endpoint's job, which says only what is sent and not where."""
    if job.handler not in asked.urls:
        msg = f"the URL of endpoint {job.handler} is not known; name its program with --app"
        raise ValueError(msg)
    return {"hook": payload["body"], "endpoint": asked.urls[job.handler]}


def _ms(at: float) -> Raw:
    number = round(at * 1000, 3)
    return Raw(int(number) if number.is_integer() else number)


FORMAT: Final = Format(
    name="hooks",
    fits=fits,
    job=job,
    write=record.each(_write),
    group=group,
    names=names,
    url="endpoint",
)
