"""A clock for tests, which the test moves."""

from __future__ import annotations

from threading import Lock

from redrive.jobs import durations
from redrive.jobs.durations import Duration


class ManualClock:
    """A clock that stands still until the test moves it.

    >>> clock = ManualClock(1000.0)
    >>> clock.advance(5)
    >>> clock.now()
    1005.0
    """

    def __init__(self, now: float = 1_750_000_000.0) -> None:
        self._lock = Lock()
        self._now = float(now)

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        with self._lock:
            return self._now

    def advance(self, by: Duration) -> None:
        """Move it forwards: `advance(90)`, `advance("1h")`."""
        if isinstance(by, int | float) and not by >= 0:
            msg = f"time only moves forwards; found {by!r}: use jump() to set the clock"
            raise ValueError(msg)
        seconds = durations.seconds(by, name="by")
        with self._lock:
            self._now += seconds

    def jump(self, seconds: float) -> None:
        """Set it forwards or backwards, as an administrator or a time server does."""
        with self._lock:
            self._now += seconds
