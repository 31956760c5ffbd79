"""An app on a store, with a clock that moves only when told to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """A clock of the test's own."""
    return ManualClock()


@pytest.fixture
def app(tmp_path: Path, clock: ManualClock) -> Iterator[Redrive]:
    """An app on an empty store."""
    with Redrive(tmp_path / "jobs.db", clock=clock, actor="ada") as made:
        yield made
