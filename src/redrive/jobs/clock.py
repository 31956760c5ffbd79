"""The wall clock, which decides what is due and when a lease ends."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol

LATEST = 253402300799.0  # the end of the year 9999; later due times are cut to it


class Clock(Protocol):
    """Where a store and a worker learn the time; tests pass one that stands still."""

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        return time.time()


def iso(at: float | None) -> str | None:
    """Return a moment in ISO 8601, UTC, to the millisecond."""
    if at is None:
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at)  # beyond the year 9999: somebody else's file said so
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
