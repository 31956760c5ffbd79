"""A job as a database keeps it: columns, and two sparse JSON texts for all the rest.

Columns are the fields that SQL searches, sorts or fences by (`COLUMNS`, `category_of`, `at_of`,
`transitions.is_suspect`). `given` has what a submit says once and nothing changes; `more` what
transitions change. Both are None for most jobs: a field that says nothing new is left out. A job that
simply worked has no `more`, so ends that are alike can be written by one statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from math import isfinite
from operator import attrgetter, itemgetter
from typing import Any, cast

from redrive.jobs.job import TERMINAL, Category, Job, Reason, State
from redrive.jobs.records import BLANK, job_of
from redrive.stores._codec import (
    KEYS,
    check_types,
    encode,
    failure_to_json,
    head_to_dict,
    job_fields,
    record_to_dict,
)

COLUMNS = (
    "id", "state", "lane", "handler", "created", "due", "updated", "attempts", "lease",
    "max_attempts", "key", "event", "first_failed", "group", "run", "holder",
    "lease_end", "payload", "original",
)  # fmt: skip
"""The fields of a job that are columns of some table, by their names in `Job`."""
GIVEN = ("tags", "release", "own_max_attempts", "origin")  # the fields in `given`
_REST = (
    "detail", "spent", "crashes", "redrives", "failure", "resolution", "edits", "folded", "died_at",
    "failed_release", "failed_in_run", "actions",
)  # fmt: skip
MORE = (*_REST, "reason", "finished", "since")
"""The fields in `more`. The last three are left out where state, last change or due time say them."""

_STATES = {
    state.value: (state, Reason.DONE if state is State.COMPLETED else None, state in TERMINAL)
    for state in State
}
"""Each state, the reason that needs no mention in it, and whether a job has ended in it."""
_CATEGORIES = {category.value: category for category in Category}
_given = attrgetter(*GIVEN)
_NOT_GIVEN = _given(BLANK)
_rest = itemgetter(*_REST)
_PLAIN = _rest(vars(BLANK))
blank_fields = dict(vars(BLANK)).copy
"""Returns the fields of a job that nothing is known of yet."""


def _pair(name: str, number: int) -> str:
    return f"{encode_basestring(name)}:{number}"


def _time(moment: float | None) -> str:
    if moment is not None and not isfinite(moment):
        raise ValueError(f"a time must be finite; found {moment}")
    return "null" if moment is None else repr(moment)


_WRITERS: dict[str, Callable[[Any], str]] = {
    "detail": encode_basestring,
    "spent": lambda spent: f"{{{','.join(_pair(*one) for one in spent.items())}}}",
    "crashes": str,
    "redrives": str,
    "edits": str,
    "folded": str,
    "failure": failure_to_json,
    "resolution": lambda one: encode(record_to_dict(one)),
    "died_at": _time,
    "finished": _time,
    "since": _time,
}
"""How a field of `more` is written, where `encode` is too slow or does not know it."""


def given_of(job: Job) -> str | None:
    """Write what a job was submitted with; None for nothing."""
    values = _given(job)
    if values == _NOT_GIVEN:
        return None
    return _given_text(*values) if job.origin is None else _encode_given(*values)


def _encode_given(*values: object) -> str:
    given = zip(GIVEN, values, _NOT_GIVEN, strict=True)
    return encode({KEYS.get(name, name): value for name, value, none in given if value != none})


_given_text = lru_cache(maxsize=1024)(_encode_given)


def more_of(job: Job) -> str | None:
    """Write what transitions have changed beside the columns; None for nothing."""
    fields = job.__dict__
    parts: list[str] = []
    values = _rest(fields)
    if values != _PLAIN:
        parts = [
            f'"{name}":{_WRITERS.get(name, encode)(value)}'
            for name, value, plain in zip(_REST, values, _PLAIN, strict=True)
            if value != plain
        ]
    _, usual_reason, has_ended = _STATES[job.state._value_]
    if job.reason is not usual_reason:
        parts.append(f'"reason":{encode(job.reason)}')
    if job.finished != (job.updated if has_ended else None):
        parts.append(f'"finished":{_time(job.finished)}')
    if job.since != job.due:
        parts.append(f'"since":{_time(job.since)}')
    return f"{{{','.join(parts)}}}" if parts else None


def job_from_fields(fields: dict[str, Any], given: str | None, more: str | None) -> Job:
    """Build a job, without history, from `blank_fields` with its columns in them, and its two texts.

    The dict belongs to it from now on; names that are no fields of a job stay in it. ValueError,
    KeyError, TypeError or RecursionError if a value is not what Redrive wrote.
    """
    fields["state"], fields["reason"], has_ended = _STATES[fields["state"]]
    fields["since"] = fields["due"]
    if has_ended:
        fields["finished"] = fields["updated"]
    if given is not None:
        fields.update(given_from(given))
    if more is not None:
        fields.update(more_from(more))
    return job_of(fields)


def more_from(text: str) -> dict[str, Any]:
    """Read `more`, by the names of fields in `Job`; raises as `job_from_fields` does."""
    data = cast("dict[str, Any]", json.loads(text))
    check_types(Job, data)
    return job_fields(data)


@lru_cache(maxsize=1024)
def given_from(text: str) -> dict[str, Any]:
    """Read `given` in the same way. Nearly all jobs of a program have one of a few: not to be changed."""
    return more_from(text)


def event_body(job: Job) -> str:
    """Write a job for an event: its head as the journal has it, its payload as text, no history."""
    return f'{{"job":{encode(head_to_dict(job))},"payload":{encode(job.payload)}}}'


def event_fields(body: str) -> tuple[dict[str, Any], str]:
    """Read the head and the payload of the job of an event."""
    data = cast("dict[str, Any]", json.loads(body))
    return data["job"], data["payload"]


def category_of(job: Job) -> str:
    """Return the category a job counts under: an open job's failure of a former life does not."""
    if job.failure is None or not (job.spent or job.state in TERMINAL):
        return ""
    return job.failure.category._value_


def category_from(text: str) -> Category | None:
    """Read the column back; a category of a newer version reads as unknown."""
    return _CATEGORIES.get(text, Category.UNKNOWN) if text else None


def at_of(job: Job) -> float:
    """Return the time that jobs of a state are sorted by: open ones when due, ended ones when changed."""
    return job.updated if job.state in TERMINAL else job.due
