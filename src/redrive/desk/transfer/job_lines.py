"""Redrive's own lines: a job with its whole history and payload on one line of JSON.

    {"redrive":1,"payload":{…},"job":{…},"history":[…]}

What they say holds in any store: numbers of groups, runs, actions and leases belong to one store and stay
there. The payload is the text it was given as, cut out of the line by its place. Lines come from
files that people and programs have touched, so everything in them is checked before it is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from types import NoneType, UnionType
from typing import Any, Final, cast, get_args, get_origin, get_type_hints

from redrive.desk.transfer.formats.pieces import LONGEST
from redrive.errors import RedriveError
from redrive.jobs import transitions
from redrive.jobs.clock import LATEST
from redrive.jobs.job import TERMINAL, Attempt, Failure, Job, Resolution, Return, State
from redrive.jobs.records import evolve
from redrive.payloads import strict_json
from redrive.payloads.masked_jobs import failures_masked
from redrive.registry import check_key, check_lane, check_name
from redrive.stores._codec import encode, head_to_dict, job_from_dict, record_to_dict

VERSION = 1
_MOST = 2**31  # every whole number of a record is a count; databases keep them up to this
_START = f'{{"redrive":{VERSION},"payload":'
_ID = re.compile(r"(?![GgRr]\d{1,9}$)[0-9A-Za-z_][0-9A-Za-z_-]{3,63}")
"""No id may be read as another word of a selector: G7000 is a group, -abc is anything but abc."""
_decode = json.JSONDecoder().raw_decode

Check = Callable[[Any], bool]
Questions = list[tuple[str, set[object], Check]]


def line_of(job: Job) -> str:
    """Write a job, without the end of the line; one that runs is written as returned."""
    job = _at_rest(job)
    rest: dict[str, Any] = {"job": head_to_dict(job)}
    if job.history:
        rest["history"] = [record_to_dict(attempt) for attempt in job.history]
    line = f"{_START}{_embedded(job.payload)},{encode(rest)[1:]}"
    # What is no Unicode text (half a character in an old error) goes out as an escape of JSON.
    return line.encode("utf-8", "backslashreplace").decode()


def job_of(raw: bytes) -> Job:
    """Read a line back; RedriveError or ValueError says in words what is wrong with it."""
    try:
        line = raw.decode()
        value = cast("dict[str, Any]", json.loads(line))
    except ValueError as error:
        raise ValueError(f"is not JSON in UTF-8: {error}") from error
    version: object = value.get("redrive") if isinstance(value, dict) else None
    if type(version) is not int or not isinstance(value.get("job"), dict):
        raise ValueError(
            f'is not a job: a line starts with {{"redrive":{VERSION},"payload":…,"job":…'
        )
    if version > VERSION:
        raise ValueError(f"has version {version}, this Redrive reads up to {VERSION}; upgrade it")
    head: dict[str, Any] = {**value["job"], "history": value.get("history", [])}
    for name in ("tags", "history"):
        if not isinstance(head.get(name, []), list):
            raise TypeError(f"job.{name} must be a list")
    strict_json.dumps(head, max_bytes=LONGEST)
    job = job_from_dict(head, _payload(line, value.get("payload")))
    if job.state is State.DEAD and job.died_at is None:  # a line of an older Redrive
        job = evolve(job, died_at=job.finished)
    return failures_masked(checked(_at_rest(job)))


def _at_rest(job: Job) -> Job:
    """Leave out what only one store can mean."""
    if job.state is State.RUNNING:
        job = transitions.settled(job, Return(), None, now=job.updated, group=None)
    return evolve(job, group=None, run=None, actions=(), holder=None, lease_end=None)


def _embedded(payload: str) -> str:
    """Return the payload as it stands, or as a string if it is no object."""
    try:
        return strict_json.compact(payload, max_bytes=LONGEST)
    except RedriveError:
        return json.dumps(payload)


def _payload(line: str, value: object) -> str:
    """Cut the payload out; where another program has written the line, write it anew."""
    if line.startswith(_START):
        _, end = _decode(line, len(_START))
        return strict_json.compact(line[len(_START) : end], max_bytes=LONGEST)
    return strict_json.dumps(value, max_bytes=LONGEST)


def checked(job: Job) -> Job:
    """Refuse a job that no store of ours would have written."""
    if (name := _unfit(job, _QUESTIONS)) is not None:
        raise ValueError(f"job.{name} cannot be {getattr(job, name)!r}")
    if not _ID.fullmatch(job.id):
        raise ValueError(f"{job.id!r} is not an id")
    check_name(job.handler)
    check_lane(job.lane)
    check_key(job.key)
    for tag in job.tags:
        check_name(tag)
    if job.original is not None:
        strict_json.compact(job.original, max_bytes=LONGEST)
    if (job.finished is not None) != (job.state in TERMINAL):
        raise ValueError(
            f"is {job.state} and {'has' if job.finished is not None else 'lacks'} an end"
        )
    if any(attempt.ordinal >= following.ordinal for attempt, following in pairwise(job.history)):
        raise ValueError("has a history whose ordinals do not increase")
    return job


def _fitting(hint: Any) -> Check:
    """Return the check that a value has the type of a field of a record."""
    kind, inner = get_origin(hint), [_fitting(part) for part in get_args(hint) if part is not ...]
    if kind is UnionType:  # with None: there is no other kind
        return lambda value: value is None or inner[0](value)
    if kind is tuple:
        return lambda value: type(value) is tuple and all(map(inner[0], cast("Any", value)))
    if kind is not None:  # a mapping: there is no other kind
        return lambda value: type(value) is dict and _each(value, *inner)
    if hint is float:
        return lambda value: type(value) in (int, float) and abs(value) <= LATEST
    if hint is int:
        return lambda value: type(value) is int and 0 <= value < _MOST
    if hint in (Attempt, Failure, Resolution):
        asked = _questions(hint)
        return lambda value: _unfit(value, asked) is None
    return lambda value: isinstance(value, hint)


def _unfit(value: object, questions: Questions) -> str | None:
    """Name a field whose value has not the type of the field; None if all have it."""
    for name, plain, fits in questions:
        member = getattr(value, name)
        if type(member) not in plain and not fits(member):
            return name
    return None


def _each(pairs: Any, key: Check, value: Check) -> bool:
    return all(map(key, pairs)) and all(map(value, pairs.values()))


def _questions(kind: type) -> Questions:
    hints = get_type_hints(kind, localns={"Mapping": Mapping})
    return [(name, _plain(hint), _fitting(hint)) for name, hint in hints.items()]


def _plain(hint: Any) -> set[Any]:
    """Return the types of which every value fits a field, so that nothing more has to be asked."""
    parts = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    return {str, NoneType} & {*parts}


_QUESTIONS: Final = _questions(Job)
