"""The pytest plugin: the fixture `redrive_jobs`, and readable messages where jobs are compared.

pytest loads it in every project that has Redrive installed, so it imports nothing else until a test
asks for the fixture.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redrive.testing import Harness


@pytest.fixture
def redrive_jobs() -> Generator[Harness]:
    """Keep the jobs of every Redrive app in memory for this test, with a clock that stands still."""
    from redrive.testing import in_memory  # noqa: PLC0415 - only where a test asks for it

    with in_memory() as jobs:
        yield jobs


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Explain a comparison with found jobs: one line for each of them."""
    if "redrive.testing.found" not in sys.modules:
        return None  # no test has found any jobs
    from redrive.testing.found import FoundJobs  # noqa: PLC0415 - loaded already

    if not isinstance(left, FoundJobs):
        return None
    return [f"jobs {op} {right!r}, but these were found:", *left.lines()]
