"""Checks of arguments that many verbs share: a wrong type is refused by name, with the value found.

Without them a wrong value is an AttributeError deep inside, or is taken for something else: a text
given as `tags` would be one tag a letter.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TypeVar, cast

from redrive.errors import UsageError
from redrive.jobs.groups import Span

T = TypeVar("T")
_MOST = 2**53


def text(value: object, name: str) -> str:
    """Return the value if it is text."""
    if isinstance(value, str):
        return value
    raise UsageError(f"{name} must be text; found {_shown(value)}")


def texts(value: object, name: str) -> tuple[str, ...]:
    """Return the values of a list of texts; a single text is refused, as it would be its letters."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        msg = f'{name} must be a list of texts, such as ["a", "b"]; found {_shown(value)}'
        raise UsageError(msg)
    return tuple(text(one, f"each of {name}") for one in cast("Iterable[object]", value))


def whole(value: object, name: str, *, least: int, most: int = _MOST) -> int:
    """Return the value if it is a whole number within these limits; True and False are none."""
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    limits = f"{least} or more" if most == _MOST else f"{least} to {most:,}"
    raise UsageError(f"{name} must be a whole number, {limits}; found {_shown(value)}")


def choice(value: T, name: str, choices: Iterable[T]) -> T:
    """Return the value if it is one of these."""
    if value in tuple(choices):
        return value
    msg = f"{name} must be one of: {', '.join(map(str, choices))}; found {_shown(value)}"
    raise UsageError(msg)


def curve(span: Span, number: int) -> tuple[Span, int]:
    """Return the width and the number of time buckets if they are kept: a day of minutes, 30 of hours."""
    kept = {60: 1440, 3600: 720}[choice(span, "span", (60, 3600))]
    return span, whole(number, "number", least=1, most=kept)


def function(value: T, name: str) -> T:
    """Return the value if it can be called."""
    if callable(value):
        return value
    raise UsageError(f"{name} must be a function; found {_shown(value)}")


def is_async(value: object) -> bool:
    """Return True if calling this returns a coroutine."""
    call = getattr(value, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(call)


def is_plain_function(value: object) -> bool:
    """Return True if this can be called and is neither a class nor async."""
    return callable(value) and not isinstance(value, type) and not is_async(value)


def _shown(value: object) -> str:
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - the value is a stranger's
        return f"a {type(value).__name__}"
