"""What both dialects share of rows: attempts, actions, and what happens if one cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from redrive.errors import StoreDamaged
from redrive.jobs.job import Action, Attempt
from redrive.stores._codec import attempt_from_dict, encode
from redrive.stores._files import log
from redrive.stores.record_codec import given_from, more_from
from redrive.stores.sql.tx import Row

R = TypeVar("R")

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a column raises that holds what Redrive never writes."""
_logged: set[str] = set()


def readable_rows(rows: Iterable[Row], read: Callable[[Row], R]) -> list[R]:
    """Return what those rows of jobs hold that can be read; the log names the others, once each."""
    found: list[R] = []
    for row in rows:
        try:
            found.append(read(row))
        except StoreDamaged as error:
            if row[1] not in _logged:
                _logged.add(row[1])
                log.error("%s; it is left alone", error)
    return found


def damaged_job(job_id: str, given: str | None, more: str | None) -> StoreDamaged:
    """Return the error for a row of a job that cannot be read."""
    return StoreDamaged(
        f"job {job_id} cannot be read: its {' and its '.join(unreadable(given, more))} is not what "
        "Redrive wrote; `redrive verify` lists all such rows"
    )


def unreadable(given: str | None, more: str | None) -> list[str]:
    """Name the columns that make a job unreadable: one of its two texts, else its state."""
    names: list[str] = []
    for name, text, read in (("given", given, given_from), ("more", more, more_from)):
        try:
            if text is not None:
                read(text)
        except UNREADABLE:
            names.append(name)
    return names or ["state"]


def attempt_from_json(text: str) -> Attempt:
    """Return the attempt of a record; StoreDamaged if it cannot be read."""
    try:
        return attempt_from_dict(json.loads(text))
    except UNREADABLE as error:
        msg = "an attempt cannot be read: it is not what Redrive wrote; see `redrive verify`"
        raise StoreDamaged(msg) from error


def action_to_row(action: Action) -> Row:
    """Return the columns of an action, without its number."""
    return (
        action.at,
        action.actor,
        action.verb,
        action.target,
        action.reason,
        action.done,
        action.skipped,
        json_of(action.detail),
    )


def action_from_row(row: Row) -> Action:
    """Read an action; StoreDamaged if it is not what Redrive wrote."""
    number, at, actor, verb, target, reason, done, skipped, detail = row
    try:
        details = _object(detail) if detail else {}
    except UNREADABLE as error:
        raise StoreDamaged(
            f"action A{number} cannot be read: its detail is not what Redrive wrote; "
            "`redrive verify` lists all such rows"
        ) from error
    return Action(
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
    """Return a value as JSON; None for an empty one, which most jobs have."""
    return encode(value) if value else None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(text)
    return cast("dict[str, Any]", value)
