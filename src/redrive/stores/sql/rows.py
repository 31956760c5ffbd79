"""Rows of the database as jobs and acts, and back.

The order of a job's columns is that of the statement `columns`. Empty JSON is stored as null.
Enums are bound by `_value_`, plain text: `value` is a property, and far slower than the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from redrive.errors import StoreDamaged
from redrive.jobs.job import (
    TERMINAL,
    Act,
    Attempt,
    Failure,
    Job,
    Reason,
    Resolution,
    State,
)
from redrive.jobs.records import evolve, job_of
from redrive.stores._codec import (
    attempt_from_dict,
    encode,
    failure_from_dict,
    failure_to_json,
    resolution_from_dict,
    resolution_to_dict,
)
from redrive.stores._files import log
from redrive.stores.record_codec import category_of
from redrive.stores.sql.tx import Row

_STATES = {state.value: state for state in State}
_REASONS: dict[str | None, Reason | None] = {reason.value: reason for reason in Reason}
_REASONS[None] = None
_told: set[str] = set()
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a column raises that holds what Redrive never writes."""


def job_to_row(job: Job) -> Row:
    """Give the columns of a job, without its number."""
    return (
        job.id,
        job.state._value_,
        is_suspect(job),
        job.lane,
        job.handler,
        category_of(job),
        at_of(job),
        job.key,
        job.reason and job.reason._value_,
        job.detail,
        job.created,
        job.due,
        job.since,
        job.updated,
        job.finished,
        job.first_failed,
        job.attempts,
        json_of(job.spent),
        job.crashes,
        job.redrives,
        job.own_max_attempts,
        job.max_attempts,
        failure_json(job.failure),
        job.lease,
        job.holder,
        job.lease_end,
        job.boot,
        json_of(job.tags),
        job.release,
        job.group,
        job.run,
        _resolution_json(job),
        job.edits,
        job.folded,
        None if job.origin is None else encode(job.origin),
    )


def changes_to_row(job: Job, number: int) -> Row:
    """Give what a transition may have changed, for the statement `rewrite`."""
    return (
        job.state._value_,
        is_suspect(job),
        category_of(job),
        at_of(job),
        job.reason and job.reason._value_,
        job.detail,
        job.due,
        job.since,
        job.updated,
        job.finished,
        job.first_failed,
        job.attempts,
        json_of(job.spent),
        job.crashes,
        job.redrives,
        job.max_attempts,
        failure_json(job.failure),
        job.lease,
        job.holder,
        job.lease_end,
        job.boot,
        job.group,
        job.run,
        _resolution_json(job),
        job.edits,
        job.folded,
        number,
    )


def job_from_row(row: Row) -> tuple[int, Job]:
    """Give the number and the job of a row of `whole`.

    StoreDamaged if a column holds what Redrive never writes.
    """
    try:
        job = job_of(
            {
                "id": row[1],
                "handler": row[5],
                "lane": row[4],
                "payload": row[36],
                "created": row[11],
                "due": row[12],
                "since": row[13],
                "updated": row[14],
                "key": row[8],
                "state": _STATES[row[2]],
                "reason": _REASONS[row[9]],
                "detail": row[10],
                "attempts": row[17],
                "spent": {} if row[18] is None else _object(row[18]),
                "crashes": row[19],
                "redrives": row[20],
                "own_max_attempts": row[21],
                "max_attempts": row[22],
                "finished": row[15],
                "died_at": None,
                "first_failed": row[16],
                "failure": None if row[23] is None else _failure(row[23]),
                "lease": row[24],
                "holder": row[25],
                "lease_end": row[26],
                "boot": row[27],
                "tags": () if row[28] is None else texts(row[28]),
                "release": row[29],
                "group": row[30],
                "variant": None,
                "event": None,
                "run": row[31],
                "resolution": None if row[32] is None else _resolution(row[32]),
                "edits": row[33],
                "original": row[37],
                "folded": row[34],
                "origin": None if row[35] is None else _object(row[35]),
                "history": (),
                "is_new": True,
            }
        )
    except UNREADABLE as error:
        raise _damaged(row) from error
    return row[0], job


def as_stored(job: Job) -> Job:
    """Leave out what has no column before version 2 of the schema."""
    return job if job.died_at is None else evolve(job, died_at=None)


def readable(rows: Iterable[Row]) -> list[tuple[int, Job]]:
    """Give number and job of those rows that can be read; the log tells of the others, once each."""
    found: list[tuple[int, Job]] = []
    for row in rows:
        try:
            found.append(job_from_row(row))
        except StoreDamaged as error:
            if row[1] not in _told:
                _told.add(row[1])
                log.error("%s; it is left alone", error)
    return found


def unreadable(values: Sequence[Any]) -> list[str]:
    """Name those of a job's CHECKED columns that hold what Redrive never writes."""
    names: list[str] = []
    for (name, _, read), value in zip(CHECKED, values, strict=True):
        try:
            if value is not None:
                read(value)
        except UNREADABLE:
            names.append(name)
    return names


def _damaged(row: Row) -> StoreDamaged:
    names = unreadable([row[at] for _, at, _ in CHECKED])
    return StoreDamaged(
        f"job {row[1]} cannot be read: its {' and its '.join(names)} is not what Redrive wrote; "
        "`redrive verify` lists all such rows"
    )


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(text)
    return cast("dict[str, Any]", value)


def texts(text: str) -> tuple[str, ...]:
    """Read a list of texts; one of UNREADABLE if it is none."""
    value = json.loads(text)
    if not isinstance(value, list):
        raise TypeError(text)
    return tuple(cast("list[str]", value))


def _failure(text: str) -> Failure:
    return failure_from_dict(json.loads(text))


def _resolution(text: str) -> Resolution:
    return resolution_from_dict(json.loads(text))


def at_of(job: Job) -> float:
    """Give the time its state is sorted by."""
    if job.state in TERMINAL:
        return job.updated if job.finished is None else job.finished
    return job.due


def is_suspect(job: Job) -> int:
    """Give 1 if it waits apart from the others because it crashed before, else 0."""
    return 1 if job.crashes > 0 and job.state is State.PENDING else 0


def failure_json(failure: Failure | None) -> str | None:
    """Write a failure as JSON."""
    return None if failure is None else failure_to_json(failure)


def attempt_from_json(text: str) -> Attempt:
    """Read it back."""
    try:
        return attempt_from_dict(json.loads(text))
    except UNREADABLE as error:
        msg = "an attempt cannot be read: it is not what Redrive wrote; see `redrive verify`"
        raise StoreDamaged(msg) from error


def act_to_row(act: Act) -> Row:
    """Give the columns of an act, without its number."""
    return (
        act.at,
        act.actor,
        act.verb,
        act.target,
        act.reason,
        act.done,
        act.skipped,
        json_of(act.detail),
    )


def act_from_row(row: Row) -> Act:
    """Read an act."""
    number, at, actor, verb, target, reason, done, skipped, detail = row
    try:
        details = _object(detail) if detail else {}
    except UNREADABLE as error:
        msg = (
            f"act {number} cannot be read: its detail is not what Redrive wrote; "
            "`redrive verify` lists all such rows"
        )
        raise StoreDamaged(msg) from error
    return Act(
        number=number,
        at=at,
        actor=actor,
        verb=verb,
        target=target,
        reason=reason,
        done=done,
        skipped=skipped,
        detail=details,
    )


def json_of(value: object) -> str | None:
    """Give a value as JSON; none for nothing, which most jobs have."""
    return encode(value) if value else None


def _resolution_json(job: Job) -> str | None:
    return None if job.resolution is None else encode(resolution_to_dict(job.resolution))


CHECKED: tuple[tuple[str, int, Callable[[str], object]], ...] = (
    ("state", 2, _STATES.__getitem__),
    ("reason", 9, _REASONS.__getitem__),
    ("spent", 18, _object),
    ("failure", 23, _failure),
    ("tags", 28, texts),
    ("resolution", 32, _resolution),
    ("origin", 35, _object),
)
"""The columns that can hold nonsense: their names, their places in a row, and how to read each."""
