"""Errors that are known only as text: masked, bounded, classified and grouped like any other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from redrive.classify import tables
from redrive.classify.fingerprint import OUTSIDE, Cause, of_text
from redrive.jobs.job import Category, Failure, Job
from redrive.jobs.records import altered, evolve
from redrive.payloads import masking

CATEGORIES: Final = frozenset(Category)
_MESSAGE, _TRACE, _WORD = 1900, 64_000, 100
_STATUS = re.compile(r"\b(?:HTTP|status|code)\D{0,12}([45]\d\d)\b|^([45]\d\d)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Failing:
    """One attempt that failed, as a record tells of it."""

    at: float
    failure: Failure
    duration: float = 0.0


def failing(
    at: float | None,
    message: str,
    payload: str,
    *,
    kind: str = "",
    code: str | None = None,
    stack: str = "",
    category: str = "",
    duration: float = 0.0,
) -> Failing:
    """Return a failure that is known only as text; masked and bounded like any other."""
    secrets = masking.secrets_of(payload)
    message = _bounded(message, secrets, _MESSAGE)
    kind, code = _bounded(kind, (), _WORD), None if code is None else _bounded(code, (), _WORD)
    judged = _category(category, code or "", kind, message)
    failure = Failure(
        category=judged,
        why="as the imported record says",
        type=kind,
        message=message,
        code=code,
        traceback=_bounded(stack, secrets, _TRACE),
    )
    return Failing(at or 0.0, failure, duration)


def _bounded(text: str, secrets: Sequence[str], longest: int) -> str:
    """Mask text and cut it so that doing it again changes nothing."""
    text = masking.error_text(text, secrets, limit=4 * _TRACE)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _category(named: str, code: str, kind: str, message: str) -> Category:
    """Find the category by a word, a code, a type or a status; else it is unknown."""
    for word in (named, message):
        if word in CATEGORIES:
            return Category(word)
    known = tables.CODES.get(code) or tables.ERRNOS.get(code) or tables.CODES.get(message)
    known = known or tables.STDLIB.get(f"builtins.{kind}")
    status = _STATUS.search(code) or _STATUS.search(message)
    if known is None and status is not None:
        number = status[1] or status[2]
        other = Category.PERMANENT if number < "500" else Category.TRANSIENT
        known = tables.STATUSES.get(number, other)
    return known or Category.UNKNOWN


def grouped(job: Job) -> Job:
    """Return a job whose failures carry what they are grouped by."""
    if job.failure is None and not job.history:
        return job
    history = tuple(
        replace(one, failure=_grouped(one.failure, job.handler)) if one.failure else one
        for one in job.history
    )
    failure = job.failure and _grouped(job.failure, job.handler)
    return evolve(job, failure=failure, history=history)


def _grouped(failure: Failure, handler: str) -> Failure:
    is_outside = failure.category in OUTSIDE
    code = failure.code or ""
    cause = _cause(failure.type or "Error", failure.message, code, handler, outside=is_outside)
    return altered(failure, **cause._asdict())


@lru_cache(maxsize=512)  # each failure is asked for twice: in the history, and as the latest
def _cause(kind: str, message: str, code: str, handler: str, *, outside: bool) -> Cause:
    status = _STATUS.search(message)
    keep = (code, (status[1] or status[2]) if status else "")
    return of_text(kind, message, keep=keep, handler=handler, outside=outside)
