"""An app on each store of one host, with a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.testing import ManualClock

STORES = ["memory", "jsonl", "sqlite"]


@pytest.fixture
def clock() -> ManualClock:
    """A clock of the test's own."""
    return ManualClock()


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Redrive]:
    """An app on an empty store."""
    url = {
        "memory": "memory:",
        "jsonl": f"jsonl:{tmp_path / 'jobs.jsonl'}",
        "sqlite": str(tmp_path / "jobs.db"),
    }[request.param]
    with Redrive(url, clock=clock, actor="ada") as made:
        yield made
