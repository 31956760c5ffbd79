"""What arrives at real receivers, and that nothing in it can do harm."""

from __future__ import annotations

import base64
import json
import logging
import sys
from typing import Any

import pytest

from alertkit import HOLD, Mailbox, Slack
from redrive.alerts import Message, apprise, webhook
from redrive.alerts.channels import checked
from redrive.alerts.messages import LONGEST
from redrive.delivery import signing
from redrive.errors import TokenMissing, Undelivered, UsageError

EVIL = (
    "<!channel> @here <http://evil.example|click> <b>bold</b> & co\r\nBcc: all@example.org\r\n\r\n"
    "<script>alert(1)</script>\x1b]52;c;aGk=\x07 \u202e"
)
SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")  # of its imports


def evil(size: int = 1, **more: Any) -> Message:
    return Message.of(EVIL * size, [EVIL], state="new", subject="G1", at=1.75e9, **more)


@pytest.mark.parametrize("size", [1, 8000], ids=["short", "1 MB"])
def test_slack_gets_plain_text_in_which_nothing_is_a_mention_or_a_link(
    slack: Slack, size: int
) -> None:
    channel = webhook(url_env="SLACK_URL", allow=slack.allow)
    assert channel.send(evil(size), ident="k1") == "200 ok"
    [body] = slack.bodies
    text = slack.raw[0].decode()
    assert not {"<", ">", "\x1b", "\x07", "\r", "\u202e"} & set(text)
    assert "&lt;!channel&gt;" in body["text"]
    assert (body["link_names"], body["parse"], body["mrkdwn"]) == (False, "none", False)
    assert "\\x1b" in body["text"]
    assert slack.headers[0]["idempotency-key"] == "k1"
    assert len(slack.raw[0]) < 12_000


def test_a_refusal_is_told_without_the_address(
    slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = webhook(url_env="SLACK_URL", allow=slack.allow)
    slack.status = 500
    with pytest.raises(Undelivered) as caught:
        channel.send(evil(), ident="k")
    assert "500: server_error" in str(caught.value)
    assert "secretpath" not in str(caught.value)
    monkeypatch.setattr(slack, "take", lambda *_: (200, "taken at /services/T0/B0/secretpath"))
    assert channel.send(evil(), ident="k") == "200 taken at •••"


def test_only_listed_addresses_are_reached(slack: Slack, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard of deliveries holds: a webhook URL cannot lead into the network."""
    with pytest.raises(UsageError, match="https"):
        webhook(url_env="SLACK_URL").send(evil(), ident="k")
    assert slack.bodies == []
    monkeypatch.delenv("SLACK_URL")
    with pytest.raises(TokenMissing, match="SLACK_URL is not set"):
        webhook(url_env="SLACK_URL").send(evil(), ident="k")


def test_a_webhook_gets_the_body_of_the_program_signed(
    slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    to = webhook(url=slack.url, secret_env="HOOK_SECRET", allow=slack.allow)
    body = {"type": "failure", "data": {"n": 1}}
    assert to.send(evil(body=body), ident="alert-1") == "200 ok"
    assert signing.verify(slack.headers[0], slack.raw[0], SECRET)
    assert not signing.verify(slack.headers[0], slack.raw[0] + b" ", SECRET)
    assert slack.bodies == [body]
    assert to.variables == ("HOOK_SECRET",)


@pytest.mark.parametrize("size", [1, 8000], ids=["short", "1 MB"])
def test_a_mail_goes_through_apprise(mailbox: Mailbox, size: int) -> None:
    """A line break in a subject makes no header, HTML is text, 1 MB is cut."""
    assert apprise(url_env="MAIL_URL").send(evil(size), ident="k1") == "accepted by 1 service"
    [mail] = mailbox.mails
    assert mail.get_content_type() == "text/plain"
    assert (mail["Bcc"], mail["To"]) == (None, "ops@example.org")
    assert mail["Subject"].startswith("<!channel> @here")
    assert "\\r\\nBcc: all@example.org" in mail["Subject"]
    assert len(mail["Subject"]) <= 200
    assert "<script>alert(1)</script>" in mail.get_content()
    assert len(mail.get_content().replace("\r\n", "\n")) <= LONGEST + 1
    assert b"\x1b" not in mailbox.raw[0]


def test_what_the_mail_server_refuses_is_told(mailbox: Mailbox) -> None:
    mailbox.answer = "452 4.3.1 mailbox is full"
    with pytest.raises(Undelivered, match="apprise did not accept the message"):
        apprise(url_env="MAIL_URL").send(evil(), ident="k")


def test_apprise_and_its_log_tell_no_url(
    slack: Slack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import apprise as library  # noqa: PLC0415 - it warns when it is imported

    caplog.set_level(logging.DEBUG)
    place = slack.url.removeprefix("http://").partition("/")[0]
    monkeypatch.setenv("APPRISE_URL", f"json://user:hunter22secret@{place}/notify")
    to = apprise(url_env="APPRISE_URL")
    assert to.send(evil(), ident="k") == "accepted by 1 service"
    assert slack.bodies[0]["message"].startswith("<!channel> @here")
    slack.status = 500
    with pytest.raises(Undelivered) as refused:
        to.send(evil(), ident="k")

    def refuse(self: object, **_: object) -> bool:
        logging.getLogger("apprise").error("no answer from json://hunter22secret@host/x")
        return False

    monkeypatch.setattr(library.Apprise, "notify", refuse)
    monkeypatch.setenv("APPRISE_URL", "json://hunter22secret@host/x")
    with pytest.raises(Undelivered, match="did not accept the message: no answer from •••"):
        to.send(evil(), ident="k")
    monkeypatch.setenv("APPRISE_URL", "nonsense-hunter22secret")
    with pytest.raises(Undelivered, match="apprise cannot read") as unread:
        to.send(evil(), ident="k")
    assert "hunter22" not in f"{refused.value} {unread.value} {caplog.text}"


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(UsageError, match=r"pip install 'redrive\[alerts\]'"):
        apprise(url_env="X").send(evil(), ident="k")


def test_channels_are_told_apart_by_name() -> None:
    one = webhook(url_env="A")
    assert list(checked([one, apprise(url_env="B")])) == ["webhook", "apprise"]
    with pytest.raises(UsageError, match="two channels are named 'webhook'"):
        checked([one, webhook(url_env="B")])
    with pytest.raises(UsageError, match="create channels with"):
        checked(["SLACK_URL"])


def test_a_wrong_setting_is_refused_where_it_is_written() -> None:
    """Not with each message, where nobody is told of it."""
    for wrong in ({"allow": ["http://127.0.0.1"]}, {"timeout": 0}):
        with pytest.raises(UsageError):
            webhook(url_env="HOOK_URL", **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="either url, or url_env"):
        webhook(allow=HOLD)
    assert json.dumps(evil().body) == "null"
