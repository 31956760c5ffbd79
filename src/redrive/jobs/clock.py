"""What time it is, for those who may ask.

Two clocks, because they answer different questions. The wall clock says when a job is due and
what people read; it may jump. The boot clock runs on through suspend and never jumps, so leases on
one host are measured with it; the boot's id tells whether two readings belong together.
"""

from __future__ import annotations

import functools
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

LATEST = 253402300799.0  # the end of the year 9999; later due times are cut to it


class Clock(Protocol):
    """Where a store and a worker learn the time; tests pass one that stands still."""

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        ...

    def boot(self) -> tuple[str, float]:
        """Return this boot's id and the seconds since it began."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        """Return the wall time in seconds since 1970, UTC."""
        return time.time()

    def boot(self) -> tuple[str, float]:
        """Return this boot's id and the seconds since it began."""
        return _boot_id(), _boot_seconds()


def iso(at: float | None) -> str | None:
    """Return a moment in ISO 8601, UTC, to the millisecond."""
    if at is None:
        return None
    try:
        moment = datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return str(at)  # beyond the year 9999: somebody else's file said so
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@functools.cache
def _boot_id() -> str:
    """Read the kernel's boot id; elsewhere the boot's own second serves."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:8]
    except OSError:
        import uuid  # noqa: PLC0415 - slow to import, and Linux has no need of it

        return uuid.uuid5(uuid.NAMESPACE_OID, str(int(time.time() - _boot_seconds()) // 60)).hex[:8]


def _boot_seconds() -> float:
    """Read CLOCK_BOOTTIME (counts suspended time) where there is one."""
    return time.clock_gettime(_BOOT_CLOCK)
