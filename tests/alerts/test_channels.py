"""A1, F109: what arrives at real receivers, and that nothing in it can do harm."""

from __future__ import annotations

import base64
import json
import logging
import socket
import sys
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from typing import Any

import pytest

from alertkit import HOLD, Mailbox, Slack, mail_server
from redrive.alerts import Message, apprise, email, webhook
from redrive.alerts import slack as slack_channel
from redrive.alerts.channels import Channel, checked, fitted
from redrive.alerts.messages import LONGEST, plain
from redrive.delivery import signing
from redrive.errors import TokenMissing, Undelivered, UsageError

CERTIFICATES = Path(__file__).parents[1] / "delivery" / "certificates"
EVIL = (
    "<!channel> @here <http://evil.example|click> <b>bold</b> & co\r\nBcc: all@example.org\r\n\r\n"
    "<script>alert(1)</script>\x1b]52;c;aGk=\x07 \u202e"
)
WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()


def evil(size: int = 1) -> Message:
    return plain(EVIL * size, EVIL, 1_750_000_000.0, state="new")


def channel_to(slack: Slack) -> Channel:
    return slack_channel(url_env="SLACK_URL", allow=slack.allow)


def email_to(box: Mailbox, **more: object) -> Channel:
    settings = {"to": ["ops@example.org"], "sender": "redrive@example.org", "host": "127.0.0.1"}
    return email(**{**settings, "port": box.port, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 8000], ids=["short", "1 MB"])
def test_slack_gets_plain_text_in_which_nothing_is_a_mention_or_a_link(
    slack: Slack, size: int
) -> None:
    """F109: `<!channel>`, links and tags are text; 1 MB is cut to what Slack takes."""
    assert channel_to(slack).send(evil(size), ident="k1") == "200 ok"
    [body] = slack.bodies
    text = slack.raw[0].decode()
    assert "<" not in text
    assert ">" not in text
    assert "&lt;!channel&gt;" in body["text"]
    assert body["link_names"] is False
    assert body["parse"] == "none"
    assert "\\x1b" in slack.texts[0].replace("\\\\", "\\")
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text + slack.texts[0])
    assert slack.headers[0]["idempotency-key"] == "k1"
    assert len(slack.raw[0]) < 10_000


@pytest.mark.parametrize("size", [1, 8000], ids=["short", "1 MB"])
def test_a_mail_is_plain_text_with_the_headers_we_gave(mailbox: Mailbox, size: int) -> None:
    """F109: CRLF in a subject makes no header, HTML is text, 1 MB is cut."""
    assert email_to(mailbox).send(evil(size), ident="k1") == "accepted by 127.0.0.1"
    [mail] = mailbox.mails
    assert mail.get_content_type() == "text/plain"
    assert not mail.is_multipart()
    assert mail["Bcc"] is None
    assert mail["To"] == "ops@example.org"
    assert mail["Message-ID"] == "<k1@redrive.invalid>"
    assert mail["Subject"].startswith("<!channel> @here")
    assert "\\r\\nBcc: all@example.org" in mail["Subject"]
    assert len(mail["Subject"]) <= 200
    assert "<script>alert(1)</script>" in mail.get_content()
    assert len(mail.get_content().replace("\r\n", "\n")) <= LONGEST + 1
    assert b"\x1b" not in mailbox.raw[0]


def test_the_answer_of_a_slack_that_refuses_is_told_without_its_address(slack: Slack) -> None:
    slack.status = 500
    with pytest.raises(Undelivered) as caught:
        channel_to(slack).send(evil(), ident="k")
    assert "500: server_error" in str(caught.value)
    assert "secretpath" not in str(caught.value)


def test_only_listed_addresses_are_reached(slack: Slack) -> None:
    """The guard of deliveries holds: a webhook URL cannot lead into the network."""
    with pytest.raises(UsageError, match="https"):
        slack_channel(url_env="SLACK_URL").send(evil(), ident="k")
    assert slack.bodies == []


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLACK_URL", raising=False)
    with pytest.raises(TokenMissing, match="SLACK_URL is not set"):
        slack_channel(url_env="SLACK_URL").send(evil(), ident="k")


def test_a_webhook_gets_the_whole_message_signed(
    slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", WEBHOOK_SECRET)
    to = webhook(url=slack.url, secret_env="HOOK_SECRET", allow=slack.allow)
    assert to.send(evil(), ident="alert-1") == "200 ok"
    assert signing.verify(slack.headers[0], slack.raw[0], WEBHOOK_SECRET)
    assert not signing.verify(slack.headers[0], slack.raw[0] + b" ", WEBHOOK_SECRET)
    [body] = slack.bodies
    assert (body["version"], body["id"], body["state"]) == (1, "alert-1", "new")
    assert to.variables == ("HOOK_SECRET",)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # apprise imports old modules
def test_apprise_reaches_what_its_url_names(
    slack: Slack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    place = slack.url.removeprefix("http://").partition("/")[0]
    monkeypatch.setenv("APPRISE_URL", f"json://user:hunter22secret@{place}/notify")
    to = apprise(url_env="APPRISE_URL")
    assert to.send(evil(), ident="k") == "accepted by 1 service"
    assert slack.bodies[0]["message"].startswith("<!channel> @here")
    slack.status = 500
    with pytest.raises(Undelivered) as caught:
        to.send(evil(), ident="k")
    assert "hunter22secret" not in str(caught.value) + caplog.text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_apprise_logs_is_told_without_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    import apprise as library  # noqa: PLC0415 - it warns when it is imported

    def refuse(self: object, **_: object) -> bool:
        logging.getLogger("apprise").error("no answer from json://hunter22secret@host/x")
        return False

    monkeypatch.setattr(library.Apprise, "notify", refuse)
    monkeypatch.setenv("APPRISE_URL", "json://hunter22secret@host/x")
    with pytest.raises(Undelivered, match="did not accept the message: no answer from •••"):
        apprise(url_env="APPRISE_URL").send(evil(), ident="k")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_url_that_apprise_cannot_read_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("APPRISE_URL", "nonsense-hunter22secret")
    with pytest.raises(Undelivered) as caught:
        apprise(url_env="APPRISE_URL").send(evil(), ident="k")
    assert "hunter22" not in str(caught.value) + caplog.text


def test_without_apprise_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(UsageError, match=r"pip install 'redrive\[alerts\]'"):
        apprise(url_env="X").send(evil(), ident="k")


def test_a_mail_server_may_want_tls_and_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "good.pem")
    monkeypatch.setenv("MAIL_USER", "redrive")
    with mail_server(context, auth=True) as box:
        settings = {
            "user_env": "MAIL_USER",
            "password_env": "MAIL_PASSWORD",
            "ca_file": str(CERTIFICATES / "authority.pem"),
        }
        monkeypatch.setenv("MAIL_PASSWORD", "right-password")
        assert email_to(box, **settings).send(evil(), ident="k") == "accepted by 127.0.0.1"
        assert box.login == (b"redrive", b"right-password")
        monkeypatch.setenv("MAIL_PASSWORD", "wrong-password")
        with pytest.raises(Undelivered, match="535"):
            email_to(box, **settings).send(evil(), ident="k")
        settings["ca_file"] = str(CERTIFICATES / "self.pem")
        with pytest.raises(Undelivered, match="certificate"):
            email_to(box, **settings).send(evil(), ident="k")
    assert len(box.mails) == 1


def test_another_machine_without_tls_is_not_written_to(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *more, **rest: real("127.0.0.1", *more, **rest)
    )
    with pytest.raises(Undelivered, match="offers no TLS"):
        email_to(mailbox, host="mail.example.org").send(evil(), ident="k")
    assert mailbox.mails == []


def test_what_the_mail_server_refuses_is_told(mailbox: Mailbox) -> None:
    mailbox.answer = "452 4.3.1 mailbox is full, token=hunter22secret"
    with pytest.raises(Undelivered) as caught:
        email_to(mailbox).send(evil(), ident="k")
    assert "452" in str(caught.value)
    assert "hunter22secret" not in str(caught.value)


def test_a_mail_server_that_hangs_costs_only_the_time_limit() -> None:
    """F67: it accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        box = Mailbox(port=silent.getsockname()[1])
        with pytest.raises(Undelivered, match="timed out"):
            email_to(box, timeout=0.2).send(evil(), ident="k")


@pytest.mark.parametrize(
    "settings",
    [
        {"to": []},
        {"to": "nobody"},
        {"to": "ops@example.org\r\nBcc: all@example.org"},
        {"sender": "x@example.org\nX: y"},
        {"user_env": "USER"},
        {"timeout": -1},
    ],
)
def test_an_email_channel_that_cannot_work_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        email_to(Mailbox(), **settings)


def test_channels_are_told_apart_by_name() -> None:
    one = slack_channel(url_env="A")
    assert list(checked([one, slack_channel(url_env="B", name="other")])) == ["slack", "other"]
    with pytest.raises(UsageError, match="two channels are named 'slack'"):
        checked([one, slack_channel(url_env="B")])
    with pytest.raises(UsageError, match="create channels with"):
        checked(["SLACK_URL"])
    with pytest.raises(UsageError, match="either url, or url_env"):
        webhook(allow=HOLD)


def test_an_escape_is_never_cut_in_half() -> None:
    for limit in range(2, 40):
        text = fitted("a&<b>" * 10, limit)
        assert len(text) <= limit
        assert json.loads(json.dumps(text)).count("&") == text.count(";")


@pytest.mark.parametrize("wrong", [{"allow": ["http://127.0.0.1"]}, {"timeout": 0}])
def test_a_wrong_setting_is_refused_where_it_is_written(wrong: Any) -> None:
    """Not with each message, where nobody is told of it."""
    for channel in (slack_channel, webhook):
        with pytest.raises(UsageError):
            channel(url_env="HOOK_URL", **wrong)
