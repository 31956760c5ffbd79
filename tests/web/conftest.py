"""A shop behind the server: jobs in every state, two tokens, and a client that asks in-process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.testing import ManualClock
from shopkit import HOUR, shop_jobs
from webkit import START, Web


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store full of jobs, to be copied: a copy takes far less time."""
    place = tmp_path_factory.mktemp("filled") / "jobs.db"
    with Redrive(place, clock=ManualClock(START + 24 * HOUR)) as app:
        app.store.add(shop_jobs())
    return place


@pytest.fixture
def app(filled: Path, tmp_path: Path) -> Iterator[Redrive]:
    place = shutil.copy(filled, tmp_path)
    with Redrive(place, clock=ManualClock(START + 24 * HOUR), actor="ada") as app:

        @app.handler("mail.send")
        def send(to: str, text: str = "", times: float = 1, password: str = "") -> None:
            """Never runs here."""

        yield app


@pytest.fixture
def web(app: Redrive) -> Web:
    return Web(app)
