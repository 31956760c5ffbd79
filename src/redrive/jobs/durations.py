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
    if isinstance(value, bool) or not isinstance(value, int | float | str | timedelta):
        raise UsageError(f'{name} must be seconds, a timedelta or text like "5m"; found {value!r}')
    if isinstance(value, timedelta):
        number = value.total_seconds()
    elif isinstance(value, str):
        parts = _PART.findall(text := value.strip())
        if parts and "".join(number + unit for number, unit in parts) == text:
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
        if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text):
            like = '"90s", "5m", "1h30m"'
            msg = f"{name} must be seconds, a timedelta or text like {like}; found {text!r}"
            raise UsageError(msg)
        number = float(text)
    else:
        number = math.inf if value > 1e300 else float(value)  # noqa: PLR2004
    if not math.isfinite(number) or number < 0:
        raise UsageError(f"{name} must be a finite number of seconds, 0 or more; found {value!r}")
    return number


def positive(value: Duration, *, name: str) -> float:
    """Turn a duration into seconds; refuses 0, too."""
    number = seconds(value, name=name)
    if number == 0:
        raise UsageError(f"{name} must be more than 0 seconds; found {value!r}")
    return number


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
