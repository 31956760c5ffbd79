"""A shop behind the server: jobs in every state, two tokens, and a client that asks in-process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.testing import ManualClock
from shopkit import HOUR, shop_jobs
from webkit import START, Web


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Redrive]:
    with Redrive(tmp_path / "jobs.db", clock=ManualClock(START + 24 * HOUR), actor="ada") as app:
        app.store.add(shop_jobs())

        @app.handler("mail.send")
        def send(to: str, text: str = "", times: float = 1, password: str = "") -> None:
            """Never runs here."""

        yield app


@pytest.fixture
def web(app: Redrive) -> Web:
    return Web(app)
