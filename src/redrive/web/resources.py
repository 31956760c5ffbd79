"""What the API gives: each thing as one table of its fields, which is both its shape and its document.

The names are those of the documents that `--json` prints. All text of errors and payloads is masked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar, cast

from redrive import _hidden
from redrive.app import Mark, Note, Redrive, Scope
from redrive.errors import BadPayload
from redrive.job import (
    Act,
    Attempt,
    Category,
    Failure,
    Group,
    Job,
    Reason,
    Resolution,
    State,
)
from redrive.redact import mask_text, secrets_of
from redrive.runs import Counts, Run
from redrive.web.schema import (
    ANY,
    BOOLEAN,
    TIME,
    Schema,
    array,
    mapping,
    maybe,
    named,
    one_of,
    record,
)

Document = dict[str, Any]
HOUR = 3600.0
DAY_SPANS, DAY_WIDTH = 12, 2 * HOUR
"""A trend: a day, in spans of two hours."""
LISTED = 100
"""How many of the jobs that were left are named; all are counted."""

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_WORD = maybe(_TEXT)
_WHEN = maybe(TIME)

Get = Callable[[Any], object]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A thing the API gives: its name, and for each field its shape and where it comes from."""

    name: str
    fields: Mapping[str, tuple[Schema, Callable[[T], object]]]

    @property
    def schema(self) -> Schema:
        """Its shape: every field is always there."""
        return record({name: shape for name, (shape, _) in self.fields.items()})

    def __call__(self, thing: T) -> Document:
        """Make its document."""
        return {name: get(thing) for name, (_, get) in self.fields.items()}


def iso(at: float | None) -> str | None:
    """Say a moment in ISO 8601, UTC, to the millisecond."""
    if at is None:
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at)  # beyond the year 9999: somebody else's file said so
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _at(name: str) -> tuple[Schema, Get]:
    return _WHEN, lambda thing: iso(getattr(thing, name))


def _is(shape: Schema, name: str) -> tuple[Schema, Get]:
    return shape, lambda thing: getattr(thing, name)


def _or_null(name: str) -> tuple[Schema, Get]:
    return _WORD, lambda thing: getattr(thing, name) or None


def _same(shape: Schema, *names: str) -> dict[str, tuple[Schema, Get]]:
    return {name: _is(shape, name) for name in names}


def _error(failure: Failure | None, payload: str) -> Document | None:
    """Give a failure, the payload's own secrets hidden in it too."""
    if failure is None:
        return None
    secrets = secrets_of(payload)
    shown = ERROR(failure)
    for name in ("message", "why", "title"):
        shown[name] = mask_text(shown[name], secrets)
    return shown


def _origin(job: Job) -> object:
    if job.origin is None:
        return None
    return payload_of(json.dumps(dict(job.origin), default=str))


def payload_of(text: str | None) -> object:
    """Give a stored payload for showing: what is secret in it is a mark, numbers keep their text.

    Sent back with a mark in it, the hidden value stays as it was. One that nobody can read is text.
    """
    if text is None:
        return None
    try:
        return _hidden.parsed(_hidden.hide(text).text)
    except (BadPayload, ValueError, RecursionError):
        return mask_text(text)


def _history(job: Job) -> list[Document]:
    secrets = secrets_of(job.payload)
    shown: list[Document] = []
    for attempt in reversed(job.history):
        one = ATTEMPT(attempt)
        one["error"] = _error(attempt.failure, job.payload)
        if attempt.failure and attempt.failure.traceback:
            one["traceback"] = mask_text(attempt.failure.traceback, secrets)
        shown.append(one)
    return shown


def _resolution(job: Job) -> Document | None:
    return None if job.resolution is None else RESOLUTION(job.resolution)


def _spans(trend: list[int]) -> Document:
    return {"span_seconds": DAY_WIDTH, "numbers": trend}


ERROR: Resource[Failure] = Resource(
    "Error",
    {
        **_same(_TEXT, "type", "message"),
        "category": _is(one_of(Category), "category"),
        "why": _is(_TEXT, "why"),
        "code": _is(_WORD, "code"),
        "status": _is(maybe(_WHOLE), "status"),
        "hint": _is(maybe(_NUMBER), "hint"),
        "request_id": _is(_WORD, "request_id"),
        "title": _is(_TEXT, "title"),
    },
)

JOB: Resource[Job] = Resource(
    "Job",
    {
        "id": _is(_TEXT, "id"),
        "state": _is(one_of(State), "state"),
        "reason": _is(maybe(one_of(Reason)), "reason"),
        "detail": _or_null("detail"),
        **_same(_TEXT, "handler", "lane"),
        "attempts": _is(_WHOLE, "attempts"),
        "max_attempts": _is(_WHOLE, "limit"),
        **_same(_WHOLE, "redrives", "crashes"),
        "category": (
            maybe(one_of(Category)),
            lambda job: job.failure.category if job.failure else None,
        ),
        "error": (maybe(named("Error")), lambda job: _error(job.failure, job.payload)),
        "group": (_WORD, lambda job: None if job.group is None else f"G{job.group}"),
        "key": _is(_WORD, "key"),
        "tags": (array(_TEXT), lambda job: list(job.tags)),
        "release": _is(_WORD, "release"),
        "run": (_WORD, lambda job: f"R{abs(job.run)}" if job.run else None),
        "edits": _is(_WHOLE, "edits"),
        **{name: _at(name) for name in ("created", "due", "updated", "finished", "first_failed")},
    },
)

ATTEMPT: Resource[Attempt] = Resource(
    "Attempt",
    {
        **_same(_WHOLE, "number", "life"),
        "started": _at("started"),
        "duration": _is(_NUMBER, "duration"),
        **_same(_TEXT, "worker", "outcome"),
        "provider": _is(_WORD, "provider"),
        "error": (maybe(named("Error")), lambda _: None),
        "traceback": (_WORD, lambda _: None),
    },
)

RESOLUTION: Resource[Resolution] = Resource(
    "Resolution",
    {
        **_same(_TEXT, "actor", "reason"),
        "at": _at("at"),
        "was": _is(maybe(one_of(Reason)), "was"),
    },
)

WHOLE_JOB: Resource[Job] = Resource(
    "WholeJob",
    {
        **JOB.fields,
        "payload": (ANY, lambda job: payload_of(job.payload)),
        "original_payload": (ANY, lambda job: payload_of(job.original)),
        "spent": (mapping(_WHOLE), lambda job: dict(job.spent)),
        "folded": _is(_WHOLE, "folded"),
        "origin": (ANY, _origin),
        "resolution": (maybe(named("Resolution")), _resolution),
        "history": (array(named("Attempt")), _history),
    },
)

SUBMITTED: Resource[Job] = Resource("Submitted", {**JOB.fields, "new": _is(BOOLEAN, "is_new")})

GROUP: Resource[Group] = Resource(
    "Group",
    {
        "group": _is(_TEXT, "name"),
        "title": _is(_TEXT, "title"),
        "jobs": _is(_WHOLE, "jobs"),
        "handlers": (array(_TEXT), lambda group: list(group.handlers)),
        "category": _is(maybe(one_of(Category)), "category"),
        **{name: _at(name) for name in ("first_seen", "last_seen")},
        "fingerprint": _is(_TEXT, "fingerprint"),
    },
)


class Seen(NamedTuple):
    """A group, what was said about it, and how it goes on."""

    group: Group
    mark: Mark
    trend: list[int]
    hour: int


def _of_group(get: Callable[[Group], object]) -> Callable[[Seen], object]:
    return lambda seen: get(seen.group)


WHOLE_GROUP: Resource[Seen] = Resource(
    "WholeGroup",
    {
        **{name: (shape, _of_group(get)) for name, (shape, get) in GROUP.fields.items()},
        "status": (
            one_of(("open", "resolved", "regressed")),
            lambda seen: seen.mark.status(seen.group.last_seen),
        ),
        "resolved": (_WHEN, lambda seen: iso(seen.mark.resolved)),
        "resolved_by": (_WORD, lambda seen: seen.mark.by or None),
        "reason": (_WORD, lambda seen: seen.mark.reason or None),
        "note": (_WORD, lambda seen: seen.mark.note or None),
        "noted": (_WHEN, lambda seen: iso(seen.mark.noted)),
        "noted_by": (_WORD, lambda seen: seen.mark.noted_by or None),
        "deaths_last_hour": _is(_WHOLE, "hour"),
        "deaths_last_day": (
            record({"span_seconds": _NUMBER, "numbers": array(_WHOLE)}),
            lambda seen: _spans(seen.trend),
        ),
    },
)


def look(app: Redrive, groups: Iterable[Group]) -> list[Document]:
    """Give groups with how they go on."""
    found = list(groups)
    numbers = [group.number for group in found]
    days = app.deaths(DAY_WIDTH, DAY_SPANS, groups=numbers)
    hours = app.deaths(HOUR, 1, groups=numbers)
    marks = app.group_marks()
    return [
        WHOLE_GROUP(
            Seen(one, marks.get(one.number, Mark()), days[one.number], hours[one.number][0])
        )
        for one in found
    ]


def _count(name: str) -> tuple[Schema, Get]:
    return _WHOLE, lambda run: getattr(run.counts or Counts(), name)


def left_of(run: Run) -> Mapping[str, int]:
    """Say why jobs of a run were left, and how many."""
    since = (run.counts or Counts()).left
    return {**run.skipped, **({"not let go by the run": since} if since else {})}


RUN: Resource[Run] = Resource(
    "Run",
    {
        "run": _is(_TEXT, "id"),
        "phase": _is(
            one_of(("freezing", "live", "paused", "done", "stopped", "cancelled")), "phase"
        ),
        **{name: _or_null(name) for name in ("why", "name", "reason")},
        **_same(_TEXT, "by", "asked"),
        **{name: _at(name) for name in ("created", "ended")},
        "canary": (maybe(_WHOLE), lambda run: run.spec.canary or None),
        "rate": (maybe(_NUMBER), lambda run: run.spec.rate),
        "ramp": (BOOLEAN, lambda run: run.spec.ramp),
        "stop_on": (_WORD, lambda run: run.spec.stop_on or None),
        "total": _is(_WHOLE, "total"),
        **{
            name: _count(name)
            for name in ("waiting", "working", "failing", "succeeded", "failed", "closed")
        },
        "same_cause": _count("same"),
        "new_cause": (
            mapping(_WHOLE),
            lambda run: {f"G{one}": n for one, n in (run.counts or Counts()).new.items()},
        ),
        "left": (mapping(_WHOLE), left_of),
        "samples": (
            array(named("Left")),
            lambda run: [{"id": one, "why": why} for one, why in run.samples],
        ),
    },
)


LEFT: Resource[tuple[str, str]] = Resource(
    "Left", {"id": (_TEXT, lambda pair: pair[0]), "why": (_TEXT, lambda pair: pair[1])}
)

ACT: Resource[Act] = Resource(
    "Act",
    {
        "number": _is(_WHOLE, "number"),
        "at": _at("at"),
        **_same(_TEXT, "actor", "verb", "target", "reason"),
        **_same(_WHOLE, "done", "skipped"),
    },
)


def _told(note: Note, name: str) -> Any:
    """Give what a worker's note says; nothing if nobody can read it."""
    try:
        return cast("dict[str, Any]", json.loads(note.value)).get(name)
    except (ValueError, AttributeError):
        return None


PAUSE: Resource[Note] = Resource(
    "Pause",
    {
        "lane": (_TEXT, lambda note: note.name.partition(":")[2]),
        "by": (_WORD, lambda note: _told(note, "by")),
        "reason": (_WORD, lambda note: _told(note, "reason")),
        "seconds_left": _is(maybe(_NUMBER), "expires_in"),
    },
)


WORKER: Resource[Note] = Resource(
    "Worker",
    {
        "host": (_WORD, lambda note: _told(note, "host")),
        "pid": (maybe(_WHOLE), lambda note: _told(note, "pid")),
        "version": (_WORD, lambda note: _told(note, "version")),
        "since": (_WHEN, lambda note: iso(_told(note, "since"))),
        "lanes": (array(_TEXT), lambda note: list(_told(note, "lanes") or ())),
    },
)

SCOPE: Resource[Scope] = Resource("Scope", _same(_WHOLE, "looked", "of"))

OTHERS: Mapping[str, Schema] = {
    "LeftOut": record(
        {"total": _WHOLE, "reasons": mapping(_WHOLE), "samples": array(named("Left"))}
    ),
    "Problem": record(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": _WHOLE,
            "code": _TEXT,
            "detail": _TEXT,
        }
    ),
}
_RESOURCES = (
    ERROR, JOB, ATTEMPT, RESOLUTION, WHOLE_JOB, SUBMITTED, GROUP, WHOLE_GROUP, RUN, LEFT, ACT,
    PAUSE, WORKER, SCOPE,
)  # fmt: skip

SCHEMAS: Mapping[str, Schema] = {one.name: one.schema for one in _RESOURCES} | dict(OTHERS)


def scope(found: Scope | None) -> Document | None:
    """Say how far was looked, where no index could answer."""
    return None if found is None else SCOPE(found)


def left_out(pairs: Iterable[tuple[str, str]]) -> Document:
    """Count jobs that were left by why, and name some."""
    found = list(pairs)
    reasons: dict[str, int] = {}
    for _, why in found:
        reasons[why] = reasons.get(why, 0) + 1
    return {
        "total": len(found),
        "reasons": reasons,
        "samples": [LEFT(pair) for pair in found[:LISTED]],
    }
