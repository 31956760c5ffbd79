"""How long to wait, as the handler or the other side asks, read from what an error carries.

The first hint that can be read counts, from the most exact to the least: `Retry-After` is more
exact than the reset of a rate limit. What cannot be read is no hint. Nothing here reads a clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

from redrive.classify.clues import Clues, as_text, as_whole, guarded, is_a, known, reach
from redrive.errors import RetryLater
from redrive.jobs import durations
from redrive.jobs.job import Category
from redrive.policies.decide import LONGEST_HINT

PUSHBACK: Final = "grpc-retry-pushback-ms"

_MILLISECONDS: Final = ("retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", PUSHBACK)
_YEAR, _EPOCH_SECONDS, _EPOCH_MILLISECONDS, _MOST_DETAILS = 31536000.0, 1e9, 1e11, 20


def find_hint(clues: Clues, now: float) -> tuple[float, str] | None:
    """Find how many seconds an error asks us to wait, and where it says so."""
    if is_a(clues.error, RetryLater):
        after = guarded(durations.seconds, reach(clues.error, "after"))
        return None if after is None or after > 10 * _YEAR else (after, RetryLater.__name__)
    if clues.is_plain:
        return None
    for seconds, source in _wishes(clues, now):
        if seconds is not None and math.isfinite(seconds):
            return min(max(0.0, seconds), LONGEST_HINT), source
    return None


def is_refusal(headers: Mapping[str, str]) -> bool:
    """Return True if a gRPC server forbids a retry: it sends a negative wait."""
    return (_number(headers.get(PUSHBACK)) or 0.0) < 0


def is_used_up(headers: Mapping[str, str], name: str) -> bool:
    """Return True if this header says that nothing is left."""
    return _number(headers.get(name)) == 0


def _wishes(clues: Clues, now: float) -> Iterator[tuple[float | None, str]]:
    """Yield possible hints, the most exact first; one that cannot be read is None."""
    headers = clues.headers
    for name in ("retry_after", "cooldown_time", "backoff", "retry_delay"):
        # A zero is what a class has where the server asked for nothing.
        yield _seconds(clues.held.get(name), headers, now) or None, name
    named = known(type(clues.error)).named
    if named and named[1] is Category.RATE_LIMIT:
        yield _seconds(clues.held.get("seconds"), headers, now), "seconds"
    for name in _MILLISECONDS:
        wait = _number(headers.get(name))
        if wait is not None and wait >= 0:
            yield wait / 1000, name
    yield _seconds(headers.get("retry-after"), headers, now), "retry-after"
    yield _retry_info(clues, now), "RetryInfo"
    resets = [
        (wait, name)
        for name in headers
        if "reset" in name
        and "ratelimit" in name.replace("-", "").replace("_", "")
        and is_used_up(headers, name.replace("reset", "remaining"))
        and math.isfinite(wait := _seconds(headers[name], headers, now) or math.nan)
    ]
    yield max(resets, default=(None, ""))


def _seconds(value: Any, headers: Mapping[str, str], now: float) -> float | None:
    """Read a delay, or a time since 1970 where only that makes sense, or a date."""
    if value is None:
        return None
    if is_a(value, timedelta):
        return timedelta.total_seconds(value)
    number, text = _number(value), (as_text(value) or "").strip()
    if number is not None and not number > _EPOCH_SECONDS:
        return number
    scale = 1000 if number is not None and number > _EPOCH_MILLISECONDS else 1
    moment = guarded(_date, text) if number is None else number / scale
    if moment is None:
        return guarded(durations.seconds, text)
    # By the server's clock: only that says how far off a date of the server is.
    wait = moment - (guarded(_date, headers.get("date", "")) or now)
    # A time long gone is no time but an absurd delay, such as 10^12 seconds.
    return wait if number is None or wait > -_YEAR else number


def _date(text: str) -> float:
    """Read an HTTP date or an ISO one as seconds since 1970; without a zone it is UTC."""
    if ":" not in text:
        raise ValueError
    date = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _number(value: Any) -> float | None:
    """Read a number, or text that is one; True and False are none."""
    if value is None:
        return None
    if is_a(value, float):
        return float.__float__(value)
    whole = as_whole(value)
    return guarded(float, as_text(value) if whole is None else min(whole, 10**18))


def _retry_info(clues: Clues, now: float) -> float | None:
    """Read Google's RetryInfo, which is a detail of the error or a JSON object in the body."""
    places: Any = (clues.held.get("details"), reach(clues.held, "body", "error", "details"))
    for details in places:
        for detail in details[:_MOST_DETAILS] if is_a(details, list, tuple) else ():
            wait = reach(detail, "retry_delay") or reach(detail, "retryDelay")
            whole, nanos = _number(reach(wait, "seconds")), _number(reach(wait, "nanos"))
            if whole is not None and nanos is not None:  # a Duration of protobuf
                return whole + nanos / 1e9
            if wait is not None:
                return _seconds(wait, clues.headers, now)
    return None
