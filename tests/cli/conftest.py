"""A shop in an empty directory, with nothing in the environment that could mean another store."""

from __future__ import annotations

from pathlib import Path

import pytest

from shopkit import Shop, shop_jobs


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """A place without a store."""
    for variable in ("REDRIVE_STORE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("LOGNAME", "ada")
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Shop(folder)


@pytest.fixture
def shop(empty: Shop) -> Shop:
    """A place with a store full of jobs."""
    empty.add(*shop_jobs())
    return empty
