"""Redrive's own lines: a job with its whole history and payload on one line of JSON.

    {"redrive":1,"payload":{…},"job":{…},"history":[…]}

What they say holds in any store: numbers of groups and runs and leases belong to one store and stay
there. The payload is the text it was given as, cut out of the line by its place. Lines come from
files that people and programs have touched, so everything in them is checked before it is stored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import UnionType
from typing import Any, Final, Literal, cast, get_args, get_origin, get_type_hints

from redrive import _json, _transitions
from redrive._evolve import evolve
from redrive.errors import KeyConflict, RedriveError
from redrive.job import TERMINAL, Attempt, Failure, Job, Release, Resolution, State
from redrive.keeping import LATEST, check_key
from redrive.stores._codec import attempt_to_dict, encode, head_to_dict, job_from_dict
from redrive.stores.base import Query, Store
from redrive.worker.registry import check_lane, check_name

VERSION = 1
LONGEST: Final = 64 * 1024 * 1024
"""Bytes of a line; what is longer is no job of ours."""
_BATCH, _BATCH_BYTES = 500, 4 * 1024 * 1024
_MOST = 2**31
"""Every whole number of a record is a count; databases keep them up to this."""
_START = f'{{"redrive":{VERSION},"payload":'
_ID = re.compile(r"[0-9A-Za-z_-]{4,64}")
_decode = json.JSONDecoder().raw_decode

Check = Callable[[Any], bool]
Fate = Literal["added", "known", "bad"]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one line."""

    number: int
    """Counted from 1."""
    offset: int
    """Bytes before it."""
    raw: bytes
    fate: Fate
    state: State | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A line, and the job it holds or what is wrong with it."""

    number: int
    offset: int
    raw: bytes
    found: Job | str

    def told(self, fate: Fate, reason: str = "") -> Told:
        state = self.found.state if isinstance(self.found, Job) else None
        return Told(self.number, self.offset, self.raw, fate, state, reason)


def line_of(job: Job) -> str:
    """Write a job, without the end of the line; one that runs is written as given back."""
    job = _at_rest(job)
    rest: dict[str, Any] = {"job": head_to_dict(job)}
    if job.history:
        rest["history"] = [attempt_to_dict(attempt) for attempt in job.history]
    line = f"{_START}{_embedded(job.payload)},{encode(rest)[1:]}"
    # What is no Unicode text (half a character in an old error) goes out as an escape of JSON.
    return line.encode("utf-8", "backslashreplace").decode()


def job_of(raw: bytes) -> Job:
    """Read a line back; RedriveError or ValueError says in words what is wrong with it."""
    if len(raw) > LONGEST:
        msg = f"is longer than {LONGEST:,} bytes"
        raise ValueError(msg)
    try:
        line = raw.decode()
        value = cast("dict[str, Any]", json.loads(line))
    except ValueError as error:
        msg = f"is not JSON in UTF-8: {error}"
        raise ValueError(msg) from error
    version: object = value.get("redrive") if isinstance(value, dict) else None
    if type(version) is not int or not isinstance(value.get("job"), dict):
        msg = f'is no job: a line starts with {{"redrive":{VERSION},"payload":…,"job":…'
        raise ValueError(msg)
    if version > VERSION:
        msg = f"has version {version}, this Redrive reads up to {VERSION}; upgrade it"
        raise ValueError(msg)
    head: dict[str, Any] = {**value["job"], "history": value.get("history", [])}
    for name in ("tags", "history"):
        if not isinstance(head.get(name, []), list):
            msg = f"job.{name} must be a list"
            raise TypeError(msg)
    _json.dumps(head, max_bytes=LONGEST)
    return _checked(_at_rest(job_from_dict(head, _payload(line, value.get("payload")))))


def read(lines: Iterable[bytes]) -> Iterator[_Read]:
    """Read lines, or pieces of one that is too long; an empty one is nothing."""
    number, offset = 1, 0
    for raw in lines:
        if raw.strip():
            yield _Read(number, offset, raw, _found(raw))
        offset += len(raw)
        number += raw.endswith(b"\n")


def stored(store: Store, lines: Iterable[bytes], *, dry_run: bool = False) -> Iterator[list[Told]]:
    """Keep the jobs of lines, some at a time, and tell of each; one that is there stays as it is."""
    batch: list[_Read] = []
    size = 0
    for one in read(lines):
        batch.append(one)
        size += len(one.raw)
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield _kept(store, batch, dry_run=dry_run)
            batch, size = [], 0
    yield _kept(store, batch, dry_run=dry_run)


def _kept(store: Store, batch: list[_Read], *, dry_run: bool) -> list[Told]:
    jobs = {one.found.id: one.found for one in reversed(batch) if isinstance(one.found, Job)}
    there = store.find(Query(ids=tuple(jobs), limit=len(jobs))).jobs if jobs else []
    known = {job.id for job in there}
    fresh = [job for job in jobs.values() if job.id not in known]
    wrong = {} if dry_run else dict(_add(store, fresh))
    told: list[Told] = []
    for one in batch:
        if isinstance(one.found, str):
            told.append(one.told("bad", one.found))
        elif one.found.id in wrong:
            told.append(one.told("bad", wrong[one.found.id]))
        else:
            told.append(one.told("known" if one.found.id in known else "added"))
            known.add(one.found.id)
    return told


def _add(store: Store, jobs: list[Job]) -> Iterator[tuple[str, str]]:
    """Keep jobs; gives those whose key another job has, found by trying the halves."""
    try:
        answers = store.add(jobs) if jobs else []
    except KeyConflict as error:
        if len(jobs) == 1:
            yield jobs[0].id, str(error)
            return
        half = len(jobs) // 2
        yield from _add(store, jobs[:half])
        yield from _add(store, jobs[half:])
        return
    for job, answer in zip(jobs, answers, strict=True):
        if answer.id != job.id:
            yield job.id, f"the key {job.key!r} belongs to job {answer.id}"


def _found(raw: bytes) -> Job | str:
    try:
        return job_of(raw)
    except RecursionError:
        return "is nested too deeply"
    except (RedriveError, ValueError, TypeError, KeyError, AttributeError) as error:
        return str(error) or type(error).__name__


def _at_rest(job: Job) -> Job:
    """Leave out what only one store can mean."""
    if job.state is State.RUNNING:
        job = _transitions.settled(job, Release(), None, now=job.updated, group=None)
    return evolve(job, group=None, run=None, holder=None, lease_end=None, boot=None)


def _embedded(payload: str) -> str:
    """Give the payload as it stands, or as a string if it is no object."""
    try:
        return _json.compact(payload, max_bytes=LONGEST)
    except RedriveError:
        return json.dumps(payload)


def _payload(line: str, value: object) -> str:
    """Cut the payload out; where another program has written the line, write it anew."""
    if line.startswith(_START):
        _, end = _decode(line, len(_START))
        return _json.compact(line[len(_START) : end], max_bytes=LONGEST)
    return _json.dumps(value, max_bytes=LONGEST)


def _checked(job: Job) -> Job:
    """Refuse a job that no store of ours would have written."""
    for name, fits in _QUESTIONS:
        if not fits(getattr(job, name)):
            msg = f"job.{name} cannot be {getattr(job, name)!r:.80}"
            raise ValueError(msg)
    if not _ID.fullmatch(job.id):
        msg = f"{job.id!r:.80} is no id"
        raise ValueError(msg)
    check_name(job.handler)
    check_lane(job.lane)
    check_key(job.key)
    for tag in job.tags:
        check_name(tag)
    if job.original is not None:
        _json.compact(job.original, max_bytes=LONGEST)
    if (job.finished is not None) != (job.state in TERMINAL):
        msg = f"is {job.state} and {'has' if job.finished is not None else 'lacks'} an end"
        raise ValueError(msg)
    if any(one.ordinal >= other.ordinal for one, other in pairwise(job.history)):
        msg = "has a history whose ordinals do not grow"
        raise ValueError(msg)
    return job


def _fitting(hint: Any) -> Check:
    """Give the question whether a value is of the type that a field of a record says."""
    kind, inner = get_origin(hint), [_fitting(one) for one in get_args(hint) if one is not ...]
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
        return lambda value: all(fits(getattr(value, name)) for name, fits in asked)
    return lambda value: isinstance(value, hint)


def _each(pairs: Any, key: Check, value: Check) -> bool:
    return all(map(key, pairs)) and all(map(value, pairs.values()))


def _questions(kind: type) -> list[tuple[str, Check]]:
    hints = get_type_hints(kind, localns={"Mapping": Mapping})
    return [(name, _fitting(hint)) for name, hint in hints.items()]


_QUESTIONS: Final = _questions(Job)
