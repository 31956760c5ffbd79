"""Attempts and actions as rows, the same in both dialects; empty JSON is stored as null."""

from __future__ import annotations

import json
from typing import Any, cast

from redrive.errors import StoreDamaged
from redrive.jobs.job import Act, Attempt
from redrive.stores._codec import attempt_from_dict, encode
from redrive.stores.sql.tx import Row

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a column raises that holds what Redrive never writes."""


def attempt_from_json(text: str) -> Attempt:
    """Return the attempt of a record; StoreDamaged if it cannot be read."""
    try:
        return attempt_from_dict(json.loads(text))
    except UNREADABLE as error:
        msg = "an attempt cannot be read: it is not what Redrive wrote; see `redrive verify`"
        raise StoreDamaged(msg) from error


def act_to_row(act: Act) -> Row:
    """Return the columns of an act, without its number."""
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
    """Return a value as JSON; None for an empty one, which most jobs have."""
    return encode(value) if value else None


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError(text)
    return cast("dict[str, Any]", value)
