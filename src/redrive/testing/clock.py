"""A clock for tests, which the test moves."""

from __future__ import annotations

from threading import Lock

from redrive.jobs import durations
from redrive.jobs.durations import Duration


class ManualClock:
    """A wall clock and a boot clock that stand still until the test moves them.

    >>> clock = ManualClock(1000.0)
    >>> clock.advance(5)
    >>> clock.now(), clock.boot()
    (1005.0, ('boot-1', 105.0))
    """

    def __init__(self, now: float = 1_750_000_000.0, *, since_boot: float = 100.0) -> None:
        self._lock = Lock()
        self._now = float(now)
        self._boots = 1
        self._since_boot = float(since_boot)

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        with self._lock:
            return self._now

    def boot(self) -> tuple[str, float]:
        """Return this boot's id and the seconds since it began."""
        with self._lock:
            return f"boot-{self._boots}", self._since_boot

    def advance(self, by: Duration) -> None:
        """Move both clocks forwards: `advance(90)`, `advance("1h")`."""
        if isinstance(by, int | float) and not by >= 0:
            msg = f"time only moves forwards; found {by!r}: use jump() to set the wall clock"
            raise ValueError(msg)
        seconds = durations.seconds(by, name="by")
        with self._lock:
            self._now += seconds
            self._since_boot += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forwards or backwards, as an administrator or a time server does."""
        with self._lock:
            self._now += seconds

    def reboot(self) -> None:
        """Start the machine again: another boot, whose seconds begin near 0."""
        with self._lock:
            self._boots += 1
            self._since_boot = 1.0
