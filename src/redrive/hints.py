"""How long the other side asked us to wait, read from what an error carries.

Libraries put it in attributes, servers in headers: as seconds, milliseconds, dates, or durations
like `6m0s`. The first that can be read counts, from the plainest wish to the vaguest: when a rate
limit is full again says less than `Retry-After`. What cannot be read is no hint; what is too long
is cut to a day. Nothing here raises, and nothing reads a clock: `now` comes in.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, cast

from redrive import _duration
from redrive._clues import Clues, as_text, as_whole, gather, look, reach
from redrive.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LONGEST: Final = 86400.0
"""Seconds. A hint beyond a day is taken for a mistake and cut."""

Hint = tuple[float, str]
"""Seconds, and who said so."""

_ATTRIBUTES: Final = ("retry_after", "cooldown_time")
_MILLISECONDS: Final = ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after")
PUSHBACK: Final = "grpc-retry-pushback-ms"
_MOST_DETAILS: Final = 20


def hint_of(exc: BaseException, now: float) -> Hint | None:
    """Find how many seconds an error asks us to wait, and where it says so.

    >>> error = Exception("slow down")
    >>> error.headers = {"Retry-After": "30"}
    >>> hint_of(error, now=0.0)
    (30.0, 'retry-after')
    """
    return find_hint(gather(exc), now)


def find_hint(clues: Clues, now: float) -> Hint | None:
    """Do the same for an error that was read before."""
    for seconds, source in _wishes(clues, now):
        if seconds is not None and math.isfinite(seconds):
            return min(max(0.0, seconds), LONGEST), source
    return None


def _wishes(clues: Clues, now: float) -> Iterator[tuple[float | None, str]]:
    """List what could be a hint, the plainest first; one that cannot be read is None."""
    for name in _ATTRIBUTES:
        yield _seconds(clues.held.get(name), now), name
    headers = clues.headers
    for name in _MILLISECONDS:
        yield _milliseconds(headers.get(name)), name
    if "retry-after" in headers:
        yield _seconds(headers["retry-after"], _server_time(headers, now)), "retry-after"
    if not is_refusal(headers):
        yield _milliseconds(headers.get(PUSHBACK)), PUSHBACK
    yield _retry_info(clues), "RetryInfo"
    yield _reset(headers, now)


def _server_time(headers: Mapping[str, str], now: float) -> float:
    """Give the time by the server's clock: only that says how far off a date of the server is."""
    answered = _date(headers.get("date", ""))
    return now if answered is None else answered


def is_refusal(headers: Mapping[str, str]) -> bool:
    """Tell whether a gRPC server asks never to be asked again: it does so by a negative wait."""
    return (_milliseconds(headers.get(PUSHBACK)) or 0.0) < 0


def is_used_up(headers: Mapping[str, str], name: str) -> bool:
    """Tell whether this header says that nothing is left."""
    return _number(headers.get(name)) == 0


def _seconds(value: object, now: float) -> float | None:
    """Read a number, a timedelta, a date or a duration as seconds from now."""
    if value is None:
        return None
    if issubclass(type(value), timedelta):
        return timedelta.total_seconds(cast("timedelta", value))
    number = _number(value)
    if number is not None:
        return _from_now(number, now)
    text = (as_text(value) or "").strip()
    date = _date(text)
    return _spelled(text) if date is None else date - now


def _milliseconds(value: str | None) -> float | None:
    number = _number(value)
    return None if number is None else number / 1000


def _number(value: object) -> float | None:
    """Read a number, or text that is one; True and False are none."""
    if issubclass(type(value), float):
        return float.__float__(cast("float", value))
    readable = as_text(value) if as_whole(value) is None else as_whole(value)
    try:
        return None if readable is None else float(readable)
    except OverflowError:
        return LONGEST
    except ValueError:
        return None


_EPOCH_SECONDS: Final = 1e9
_EPOCH_MILLISECONDS: Final = 1e11
_YEAR: Final = 365 * 86400.0


def _from_now(number: float, now: float) -> float:
    """Read a number as a delay, or as a time since 1970 where only that makes sense."""
    if not number > _EPOCH_SECONDS:
        return number
    wait = (number / 1000 if number > _EPOCH_MILLISECONDS else number) - now
    # A time long gone is no time but an absurd delay, such as 10^12 seconds.
    return wait if wait > -_YEAR else number


def _date(text: str) -> float | None:
    """Read an HTTP date or an ISO one as seconds since 1970; without a zone it is UTC."""
    if not any(mark in text for mark in ":,"):
        return None
    try:
        date = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def _spelled(text: str) -> float | None:
    try:
        return _duration.seconds(text)
    except UsageError:
        return None


def _retry_info(clues: Clues) -> float | None:
    """Read Google's RetryInfo, which is a message of gRPC or a JSON object in the body."""
    for path in (("details",), ("body", "error", "details")):
        details = clues.at(*path)
        kind = type(details)
        if kind is not list and kind is not tuple:
            continue
        for detail in cast("Sequence[object]", details)[:_MOST_DETAILS]:
            wait = _delay(reach(detail, "retry_delay") or reach(detail, "retryDelay"))
            if wait is not None:
                return wait
    return None


def _delay(found: object) -> float | None:
    """Read a protobuf Duration, or what JSON and newer wrappers make of one."""
    whole, nanos = _number(look(found, "seconds")), _number(look(found, "nanos"))
    if whole is not None and nanos is not None:
        return whole + nanos / 1e9
    return None if found is None else _seconds(found, 0.0)


def _reset(headers: Mapping[str, str], now: float) -> tuple[float | None, str]:
    """Find when the last of the exhausted rate limits is full again."""
    exhausted = [
        name
        for name in headers
        if "ratelimit" in name
        and "reset" in name
        and is_used_up(headers, name.replace("reset", "remaining"))
    ]
    there = _server_time(headers, now) if exhausted else now
    waits = ((_seconds(headers[name], there), name) for name in exhausted)
    known = [(wait, name) for wait, name in waits if wait is not None and math.isfinite(wait)]
    return max(known) if known else (None, "")
