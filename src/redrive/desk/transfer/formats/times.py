"""Times as other programs write them. One that names no zone is never guessed at."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

from redrive.errors import UsageError
from redrive.jobs.clock import LATEST

Zone = Callable[[], tzinfo | None]
"""Returns a zone; None for that of this machine, with its summer times."""
_OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
UNITS: Final = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
"""Of numbers. Where none is named, from 1e11 on they are milliseconds: as seconds, the year 5138."""


class NaiveTime(UsageError):
    """A time has no zone, and --assume-tz names none."""


def no_zone() -> tzinfo:
    """Refuse to guess."""
    raise NaiveTime(
        "a time in the file has no time zone; name the zone with --assume-tz Asia/Tokyo "
        "(or UTC, +09:00, local)"
    )


def zone_of(name: str) -> tzinfo | None:
    """Find a zone by the name a person gives: Asia/Tokyo, UTC, +09:00, or local (None)."""
    if name == "local":
        return None
    if name.upper() in {"UTC", "Z"}:
        return UTC
    if offset := _OFFSET.fullmatch(name):
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if away < timedelta(days=1):
            return timezone(-away if offset[1] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise UsageError(
            f"{name!r} is not a known time zone; use a name such as Asia/Tokyo, or UTC, +09:00 or local"
        ) from error


def local() -> None:
    """Return None, which `datetime.astimezone` takes for the zone of this machine."""


def moment(value: object, zone: Zone, form: str = "") -> float:
    """Read a time: ISO 8601, `{seconds, nanos}`, or a number of seconds, milliseconds or less.

    `form` names the unit of numbers (`s`, `ms`, `us`, `ns`), or has the format of texts for strptime.
    """
    try:
        if isinstance(value, str):
            is_own = "%" in form
            parsed = datetime.strptime(value, form) if is_own else datetime.fromisoformat(value)  # noqa: DTZ007
            if parsed.tzinfo is None:
                parsed = parsed.replace(tzinfo=(named := zone())).astimezone(named)
            return round((parsed - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds(), 6)
        if isinstance(value, dict):
            return _stamp(cast("dict[str, Any]", value))
        if type(value) in (int, float):
            return _seconds(cast("float", value), form)
    except NaiveTime:
        raise
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"is not a time: {value!r}") from error
    raise TypeError(f"is not a time: {value!r}")


def _seconds(number: float, form: str) -> float:
    unit = UNITS.get(form) or next((1e3**n for n in (3, 2, 1) if abs(number) >= 1e8 * 1e3**n), 1)
    seconds = round(number / unit, 6)
    if abs(seconds) > LATEST:
        raise ValueError(number)
    return seconds


def _stamp(value: dict[str, Any]) -> float:
    """Read a stamp in one of the ways in which a cloud's libraries write them."""
    seconds: Any = value.get("seconds", value.get("_seconds"))
    parts = (value.get(name) for name in ("nanos", "nanoseconds", "_nanoseconds"))
    nanos = next((part for part in parts if part is not None), 0)
    if type(seconds) in (int, str) and type(nanos) is int:
        return round(int(seconds) + nanos / 1e9, 6)
    raise ValueError("it has no seconds and nanos")


def iso(at: float) -> str:
    """Write a time with its zone, which is UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def naive(at: float, zone: Zone) -> str:
    """Write a time as a clock on the wall of that zone shows it."""
    return datetime.fromtimestamp(at, UTC).astimezone(zone()).replace(tzinfo=None).isoformat()
