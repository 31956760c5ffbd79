"""Errors that are known only as text: masked, bounded and classified like any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from redrive.classify import tables
from redrive.desk.transfer.formats.groups import STATUS
from redrive.jobs.job import Category, Failure
from redrive.payloads import masking

CATEGORIES: Final = frozenset(Category)
_MESSAGE, _TRACE, _WORD = 1900, 64_000, 100


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
    status = STATUS.search(code) or STATUS.search(message)
    if known is None and status is not None:
        number = status[1] or status[2]
        other = Category.PERMANENT if number < "500" else Category.TRANSIENT
        known = tables.STATUSES.get(number, other)
    return known or Category.UNKNOWN
