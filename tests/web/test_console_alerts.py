"""Alerts in the console and the API: channels, latest messages, and a test message that is recorded."""

from __future__ import annotations

from typing import Any

import pytest

from alertkit import Kept
from consolekit import Visitor
from redrive import Redrive
from redrive.alerts import Alerts, webhook
from webkit import ACT, READ, Web

SECRET = "sk-live-4242424242424242abcd"


class Broken(Kept):
    """A channel that is refused."""

    def send(self, message: Any, *, ident: str) -> str:
        raise ConnectionError(f"403 for token={SECRET}")


@pytest.fixture
def channel(app: Redrive) -> Kept:
    kept = Kept()
    app.alerts = Alerts(kept, Broken(name="broken"), webhook(url_env="NO_SUCH_VARIABLE"))
    return kept


def test_a_test_message_is_sent_and_recorded(app: Redrive, channel: Kept) -> None:
    visitor = Visitor(app)
    page = visitor.page("/system")
    buttons = [b["formaction"] for b in page.all("button") if "formaction" in b]
    assert "/alerts/kept/test" in buttons
    assert "NO_SUCH_VARIABLE is not set" in page.text
    answer = visitor.send("/alerts/kept/test", back="/system")
    assert (answer.status_code, answer.headers["location"]) == (303, "/system")
    (message,) = channel.messages
    assert "test" in message.title
    action = app.desk.log.actions()[0]
    assert (action.actor, action.verb, action.target) == ("mira", "test", "kept")
    assert action.detail == {"answer": "ok"}
    assert "kept accepted the test message" in visitor.page("/system").text


def test_a_channel_that_refuses_says_why_without_its_secret(app: Redrive, channel: Kept) -> None:
    visitor = Visitor(app)
    answer = visitor.send("/alerts/broken/test", back="/system")
    assert answer.status_code == 502
    assert "channel broken did not accept the message" in answer.text
    assert SECRET not in answer.text
    assert SECRET not in str(app.desk.log.actions())
    assert app.desk.log.actions()[0].verb == "test"
    assert visitor.send("/alerts/none/test").status_code == 404
    assert channel.messages == []


def test_readers_see_channels_and_test_none(app: Redrive, channel: Kept) -> None:
    reader = Visitor(app, READ)
    page = reader.page("/system")
    assert "kept" in page.text
    assert not [b for b in page.all("button") if "formaction" in b]
    assert reader.send("/alerts/kept/test").status_code == 403
    assert channel.messages == []


def test_messages_are_listed_with_what_became_of_them(app: Redrive, channel: Kept) -> None:
    app.alerts = Alerts(channel)
    app.run_due()
    assert channel.messages
    page = Visitor(app).page("/system")
    assert channel.messages[0].title in page.text
    assert "No message was sent yet" not in page.text
    listed = Web(app).get("/api/v1/alerts", token=READ)
    assert listed["channels"] == [{"channel": "kept", "kind": "kept", "reads": [], "not_set": []}]
    titles = {message["title"] for message in listed["messages"]}
    assert titles == {message.title for message in channel.messages}


def test_without_channels_the_page_says_so(app: Redrive) -> None:
    page = Visitor(app).page("/system")
    assert "No channel is set up for this server" in page.text
    assert "redrive alerts list" in page.text


def test_the_api_returns_the_answer(app: Redrive, channel: Kept) -> None:
    web = Web(app)
    assert web.post("/api/v1/alerts/kept/test", {"reason": "new webhook"}) == {
        "channel": "kept",
        "answer": "ok",
    }
    assert app.desk.log.actions()[0].reason == "new webhook"
    assert web.ask("POST", "/api/v1/alerts/kept/test", json={}, token=READ).status_code == 403
    assert web.ask("POST", "/api/v1/alerts/broken/test", json={}, token=ACT).status_code == 502
