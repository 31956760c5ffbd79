"""Durations as people write them: seconds, a timedelta, or "90s", "5m", "1h30m", "7d"."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from redrive.errors import UsageError

Duration = float | timedelta | str

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(ms|s|m|h|d|w)")


def seconds(value: Duration, *, name: str = "duration") -> float:
    """Turn a duration into seconds; refuses negatives, NaN, infinity and unknown words.

    >>> seconds("1h30m")
    5400.0
    """
    number = _number(value, name)
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{name} must be a finite number of seconds, 0 or more; found {value!r}")
    return number


def positive(value: Duration, *, name: str) -> float:
    """Turn a duration into seconds; refuses 0, too."""
    number = seconds(value, name=name)
    if number == 0:
        raise UsageError(f"{name} must be more than 0 seconds; found {value!r}")
    return number


def _number(value: object, name: str) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise UsageError(f'{name} must be seconds, a timedelta or text like "5m"; found {value!r}')
    if isinstance(value, str):
        return _parse(value.strip(), name)
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _parse(text: str, name: str) -> float:
    parts = _PART.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text):
        return float(text)
    msg = f'{name} must be seconds, a timedelta or text like "90s", "5m", "1h30m"; found {text!r}'
    raise UsageError(msg)


def words(value: float) -> str:
    """Return a duration as people write it, in at most two units.

    >>> words(5400), words(0.25), words(200000)
    ('1h30m', '250ms', '2d7h')
    """
    if value < 1:
        return f"{round(value * 1000)}ms" if value > 0 else "0s"
    left, text = round(value), ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        number, rest = divmod(left, size)
        if number or text:
            text += f"{number}{unit}" if number else ""
            if len(re.findall("[a-z]", text)) == 2 or (text and not number):  # noqa: PLR2004
                return text
        left = rest
    return text
