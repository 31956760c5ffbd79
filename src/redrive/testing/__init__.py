"""Test your handlers and policies: jobs in memory, a clock that you move, nothing waits.

The pytest fixture `redrive_jobs` is a `Harness`; without pytest, `in_memory()` makes one. `simulate`
returns the waits that a policy chooses for given failures. Not here: the pytest plugin itself, which
must load fast (`contrib.pytest_plugin`).
"""

from __future__ import annotations

from redrive.in_place.retry import Simulation, simulate
from redrive.in_place.waiting import no_waiting
from redrive.testing.clock import ManualClock
from redrive.testing.found import FoundJobs
from redrive.testing.harness import Harness, in_memory

__all__ = [
    "FoundJobs",
    "Harness",
    "ManualClock",
    "Simulation",
    "in_memory",
    "no_waiting",
    "simulate",
]
