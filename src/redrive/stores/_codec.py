"""Records as JSON and back: the shape of a job in the journal, of an attempt in a column.

Fields at their default are left out, so that lines stay short and readable. Unknown fields are
ignored on reading: a newer Redrive may add some.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import cache
from json.encoder import encode_basestring
from math import isfinite
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from redrive.jobs.job import Action, Attempt, Category, Failure, Job, Reason, Resolution, State
from redrive.jobs.records import BLANK, UNSAID, altered, evolve

T = TypeVar("T")

encode: Callable[[object], str] = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), allow_nan=False
).encode

KEYS = {"own_max_attempts": "max_attempts", "max_attempts": "limit"}
"""The keys of a job in JSON that differ from its fields: journals of today have them."""
_TRANSIENT = {"is_new", "payload", "history"}  # fields of a job that are not part of its head


def head_to_dict(job: Job) -> dict[str, Any]:
    """Return everything about a job but its payload and history."""
    head = {
        key: value
        for key, default, value in zip(_HEAD_KEYS, _HEAD_DEFAULTS, _head_values(job), strict=True)
        if value is not default and value != default
    }
    if job.failure is not None:
        head["failure"] = record_to_dict(job.failure)
    if job.resolution is not None:
        head["resolution"] = record_to_dict(job.resolution)
    return head


def job_from_dict(data: dict[str, Any], payload: str) -> Job:
    """Build a job from its head, its payload and, where there is one, its history."""
    known = job_fields(data)
    known["payload"] = payload
    if not known.keys() >= _REQUIRED:
        raise ValueError(f"a job without {', '.join(sorted(_REQUIRED - known.keys()))}")
    return evolve(BLANK, **known)


def job_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Read fields of a job, by their names in `Job`; unknown ones are left out."""
    known = {_JOB_FIELDS[key]: value for key, value in data.items() if key in _JOB_FIELDS}
    if "state" in known:
        known["state"] = State(known["state"])
    _convert(known, "reason", Reason)
    _convert(known, "tags", tuple)
    _convert(known, "actions", tuple)
    _convert(known, "failure", failure_from_dict)
    _convert(known, "resolution", resolution_from_dict)
    _convert(known, "history", lambda rows: tuple(attempt_from_dict(r) for r in rows))
    return known


def check_types(kind: type[Any], data: object) -> None:
    """Raise TypeError unless the fields of a record read from JSON are of the types it says."""
    if not isinstance(data, dict):
        raise TypeError(f"{kind.__name__.lower()} cannot be {data!r:.80}")
    fields = cast("dict[str, Any]", data)
    shape = (kind, *fields, *map(type, fields.values()))
    if shape not in _good_shapes:  # nearly all records have one of a few
        _check_shape(kind, fields)
        if len(_good_shapes) < _MOST_SHAPES:
            _good_shapes.add(shape)
    for name in _INSIDE:
        if name in fields:
            _check_inside(name, fields[name])


def _check_shape(kind: type[Any], fields: dict[str, Any]) -> None:
    types = _types(kind)  # type: ignore[arg-type]  # a class is hashable, whatever mypy says
    for name, value in fields.items():
        if name in types and type(value) not in types[name]:
            raise TypeError(f"{name} cannot be {value!r:.80}")


def _check_inside(name: str, value: Any) -> None:
    """Check what a field of a record holds: records, or plain values."""
    kind = _INSIDE[name]
    if kind in _DEFAULTS:
        records: list[object] = value if name == "history" else [value] if value else []
        for one in records:
            check_types(kind, one)
        return
    for one in value.values() if name == "spent" else value:
        if type(one) is not kind:
            raise TypeError(f"{name} cannot hold {one!r:.80}")


def attempt_to_json(attempt: Attempt) -> str:
    """Write an attempt as `encode` would; its text is spelled out, for the encoder takes far longer."""
    rest = "" if attempt.failure is None else f',"failure":{failure_to_json(attempt.failure)}'
    if attempt.provider is not None:
        rest += f',"provider":{encode(attempt.provider)}'
    if attempt.release is not None:
        rest += f',"release":{encode(attempt.release)}'
    if not isfinite(attempt.started + attempt.duration):
        msg = f"an attempt from {attempt.started} for {attempt.duration} seconds cannot be kept"
        raise ValueError(msg)
    return (
        f'{{"ordinal":{attempt.ordinal},"number":{attempt.number},"life":{attempt.life},'
        f'"started":{attempt.started!r},"duration":{attempt.duration!r},'
        f'"worker":{encode_basestring(attempt.worker)},'
        f'"outcome":{encode_basestring(attempt.outcome)}{rest}}}'
    )


def attempt_from_dict(data: dict[str, Any]) -> Attempt:
    """Build an attempt from such a dict."""
    known = {k: v for k, v in data.items() if k in _ATTEMPT_FIELDS}
    _convert(known, "failure", failure_from_dict)
    return Attempt(**known)


def failure_from_dict(data: dict[str, Any]) -> Failure:
    """Build a failure; a category of a newer version reads as unknown."""
    known = {k: v for k, v in data.items() if k in _FAILURE_FIELDS}
    known["category"] = _CATEGORIES.get(data.get("category", ""), Category.UNKNOWN)
    return altered(UNSAID, **known)


def failure_to_json(failure: Failure) -> str:
    """Write a failure as `encode` would, in half the time; nearly all of it is text."""
    fields = [
        name + (encode_basestring(value) if isinstance(value, str) else encode(value))
        for name, default, value in zip(
            _FAILURE_KEYS, _FAILURE_DEFAULTS, _failure_values(failure), strict=True
        )
        if value is not default and value != default
    ]
    return f"{{{','.join(fields)}}}"


def action_from_dict(data: dict[str, Any]) -> Action:
    """Build an action from such a dict."""
    return Action(**{k: v for k, v in data.items() if k in _ACTION_FIELDS})


def resolution_from_dict(data: dict[str, Any]) -> Resolution:
    """Build a resolution from such a dict."""
    known = {k: v for k, v in data.items() if k in _RESOLUTION_FIELDS}
    _convert(known, "was", Reason)
    return Resolution(**known)


def _convert(data: dict[str, Any], name: str, make: Callable[[Any], T]) -> None:
    if data.get(name) is not None:
        data[name] = make(data[name])


def record_to_dict(record: Action | Attempt | Failure | Resolution) -> dict[str, Any]:
    """Return the fields of a record that differ from their default, ready for JSON."""
    values = ((name, getattr(record, name), default) for name, default in _DEFAULTS[type(record)])
    return {
        name: record_to_dict(value) if isinstance(value, Failure) else value
        for name, value, default in values
        if value is not default and value != default
    }


def _defaults(kind: type[Any]) -> list[tuple[str, object]]:
    rows: list[tuple[str, object]] = []
    for one in dataclasses.fields(kind):
        default: object = one.default
        if one.default_factory is not dataclasses.MISSING:
            default = one.default_factory()
        rows.append((one.name, default))
    return rows


@cache
def _types(kind: type[Any]) -> dict[str, tuple[type[object], ...]]:
    """Return the types that each field of a record may have in JSON."""
    hints = get_type_hints(kind, localns={"Mapping": Mapping})
    keys = KEYS if kind is Job else {}
    return {keys.get(name, name): _json_types(hint) for name, hint in hints.items()}


def _json_types(hint: Any) -> tuple[type[object], ...]:
    """Return the types that a field of this annotation may have in JSON."""
    if isinstance(hint, UnionType):
        return tuple(kind for one in get_args(hint) for kind in _json_types(one))
    kind = get_origin(hint) or hint
    if kind in (int, bool, NoneType):
        return (kind,)
    if kind is float:
        return (float, int)
    if kind is tuple:
        return (list,)
    return (str,) if issubclass(kind, str) else (dict,)


_DEFAULTS: dict[type[object], list[tuple[str, object]]] = {
    kind: _defaults(kind) for kind in (Job, Attempt, Failure, Resolution, Action)
}
_INSIDE: dict[str, type[object]] = {
    "failure": Failure,
    "resolution": Resolution,
    "history": Attempt,
    "tags": str,
    "actions": int,
    "ids": str,
    "kinds": str,
    "numbers": int,
    "spent": int,
}
"""What some fields of records hold."""
_good_shapes: set[tuple[object, ...]] = set()
_MOST_SHAPES = 1000
_JOB_FIELDS = {KEYS.get(name, name): name for name, _ in _DEFAULTS[Job] if name != "is_new"}
"""The fields of a job by their keys."""
_HEAD_FIELDS = [name for name, _ in _DEFAULTS[Job] if name not in _TRANSIENT]
_HEAD_KEYS = [KEYS.get(name, name) for name in _HEAD_FIELDS]
_HEAD_DEFAULTS = [default for name, default in _DEFAULTS[Job] if name not in _TRANSIENT]
_head_values = attrgetter(*_HEAD_FIELDS)
_failure_values = attrgetter(*(name for name, _ in _DEFAULTS[Failure]))
_FAILURE_KEYS = [f'"{name}":' for name, _ in _DEFAULTS[Failure]]
_FAILURE_DEFAULTS = [default for _, default in _DEFAULTS[Failure]]
_REQUIRED = {name for name, default in _DEFAULTS[Job] if default is dataclasses.MISSING}
_ATTEMPT_FIELDS = {name for name, _ in _DEFAULTS[Attempt]}
_FAILURE_FIELDS = {name for name, _ in _DEFAULTS[Failure]}
_RESOLUTION_FIELDS = {name for name, _ in _DEFAULTS[Resolution]}
_ACTION_FIELDS = {name for name, _ in _DEFAULTS[Action]}
_CATEGORIES = {category.value: category for category in Category}
