"""Receivers on loopback, and the environment that names them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from alertkit import Mailbox, Slack, mail_server, slack_like


@pytest.fixture
def slack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slack]:
    with slack_like() as there:
        monkeypatch.setenv("SLACK_URL", there.url)
        yield there


@pytest.fixture
def mailbox(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mailbox]:
    with mail_server() as box:
        monkeypatch.setenv("MAIL_URL", box.url)
        yield box
