"""A shop in an empty directory, with nothing in the environment that could mean another store."""

from __future__ import annotations

import shutil
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


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store full of jobs, to be copied: a copy takes far less time."""
    folder = tmp_path_factory.mktemp("filled")
    Shop(folder, url=str(folder / "redrive.db")).add(*shop_jobs())
    return folder


@pytest.fixture
def shop(empty: Shop, filled: Path) -> Shop:
    """A place with a store full of jobs."""
    shutil.copytree(filled, empty.folder, dirs_exist_ok=True)
    return empty
