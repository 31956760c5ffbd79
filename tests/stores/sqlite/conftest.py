from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from redrive.stores.sqlite import SqliteStore
from redrive.testing import ManualClock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs.db"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opener(path: Path, clock: ManualClock) -> Iterator[Callable[..., SqliteStore]]:
    """Open stores on the test's file; all are closed at the end."""
    opened: list[SqliteStore] = []

    def open_it(**options: Any) -> SqliteStore:
        opened.append(SqliteStore(path, **{"clock": clock, **options}))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Callable[..., SqliteStore]) -> SqliteStore:
    return opener()
