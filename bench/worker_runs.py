"""What handlers do in every contestant's worker process: count their runs, say when, and fail.

The process that measures names the runs whose time it wants; it reads them from standard output.
The clock is the machine's, so the times of two processes can be compared.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter

EACH = "each"
FAILING = 5
"""Of so many jobs one fails, …"""
FAILURES = 2
"""… so often."""

_wanted = os.environ.get("BENCH_STAMPS", "0")
_stamps = frozenset(() if _wanted == EACH else map(int, _wanted.split(",")))
_runs = itertools.count(1)
_failures: Counter[int] = Counter()


def ran() -> None:
    """Count a run."""
    number = next(_runs)
    if number in _stamps or _wanted == EACH:
        os.write(1, b"%.9f\n" % time.monotonic())


def fails(number: int) -> bool:
    """Count a run of that job, and say whether it is one to fail."""
    ran()
    if number % FAILING or _failures[number] >= FAILURES:
        return False
    _failures[number] += 1
    return True


def runs(jobs: int) -> int:
    """Give how many runs flaky jobs take."""
    return jobs + FAILURES * len(range(0, jobs, FAILING))
