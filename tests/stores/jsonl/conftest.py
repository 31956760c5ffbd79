from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from redrive.stores.jsonl import JsonlStore
from stores.jsonl.scenes import Film, film

FULL = os.environ.get("REDRIVE_FULL") == "1"
"""Whether to try every case where a sample is enough for every day."""


@pytest.fixture(scope="session")
def shot(tmp_path_factory: pytest.TempPathFactory) -> Film:
    return film(tmp_path_factory.mktemp("film"))


@pytest.fixture
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that open a store thousands of times and pull no plug."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None)


@pytest.fixture
def reopen(shot: Film, tmp_path: Path) -> Iterator[Callable[[bytes], JsonlStore]]:
    """Open a store on these bytes; the one before is closed and its leftovers removed."""
    opened: list[JsonlStore] = []

    def clear() -> None:
        while opened:
            opened.pop().close()
        for path in tmp_path.iterdir():
            path.unlink()

    def open_it(data: bytes) -> JsonlStore:
        clear()
        path = tmp_path / "jobs.jsonl"
        path.touch(mode=0o600)
        path.write_bytes(data)
        store = JsonlStore(path, clock=shot.clock)
        opened.append(store)
        return store

    yield open_it
    clear()
