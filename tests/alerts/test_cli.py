"""`redrive alerts` lists and tests channels; `[alerts]` of the file is what workers use."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from alertkit import Mailbox, Slack
from ptykit import on_terminal
from redrive import Redrive
from redrive.alerts import Alerts, read, webhook
from redrive.cli._root import root
from redrive.errors import UsageError
from tablekit import each_row

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")  # of its imports
FILE = """
app = "shop_with_alerts:app"

[alerts]
each = ["bigquery.*"]

[alerts.rules]
unserved = "2m"

[alerts.channels.slack]
url_env = "SLACK_URL"
allow = {allow}

[alerts.channels.ops]
kind = "apprise"
url_env = "MAIL_URL"
"""
PROGRAM = """
from redrive import Redrive
app = Redrive("jobs.db")

@app.handler("shop.pay", attempts=1)
def pay(orderId: str) -> None:
    raise ConnectionError("refused")
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slack: Slack, mailbox: Mailbox) -> Path:
    for variable in ("REDRIVE_STORE", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    text = FILE.format(allow=json.dumps(slack.allow))
    (tmp_path / "redrive.toml").write_text(text, "utf-8")
    (tmp_path / "shop_with_alerts.py").write_text(PROGRAM, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop_with_alerts", raising=False)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(root, list(words))


def test_a_test_message_arrives_and_the_answer_is_printed(
    place: Path, slack: Slack, mailbox: Mailbox
) -> None:
    done = run("alerts", "test", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["data"] == [
        {"channel": "slack", "result": "sent", "answer": "200 ok"},
        {"channel": "ops", "result": "sent", "answer": "accepted by 1 service"},
    ]
    assert slack.titles == ["A test of Redrive's alerts"]
    assert mailbox.mails[0]["Subject"] == "A test of Redrive's alerts"


def test_a_channel_that_fails_says_why_and_hides_its_address(place: Path, slack: Slack) -> None:
    slack.status = 404
    done = run("alerts", "test", "--channel", "slack")
    assert done.exit_code == 1
    assert "slack answered 404: server_error" in done.stdout
    assert "secretpath" not in done.output


def test_alerts_of_the_file_are_sent_by_a_pass_of_the_command_line(
    place: Path, slack: Slack, mailbox: Mailbox
) -> None:
    """What the file says is enough: the program does not mention alerts."""
    with Redrive("jobs.db") as app:
        app.handler("shop.pay")(lambda orderId: None).submit("A-7")  # noqa: N803 - a payload's field
    done = run("work", "--once")
    assert done.exit_code == 6, done.output
    assert "taken\t1\n" in done.stdout
    assert slack.titles == ["[NEW] G1: ConnectionError: refused @ pay (1 job)"]
    assert mailbox.mails[0]["Subject"] == slack.titles[0]
    listed = run("alerts", "list", "--plain", "--store", "jobs.db")
    assert listed.exit_code == 0, listed.output
    assert "channel\tslack\twebhook\tSLACK_URL (set)" in listed.stdout
    assert listed.stdout.count(slack.titles[0]) == 2
    assert "completed" in listed.stdout


def test_a_channel_that_is_not_there_is_a_mistake_in_the_command(place: Path) -> None:
    done = run("alerts", "test", "--channel", "pager")
    assert done.exit_code == 2
    assert "no channel 'pager'; known: slack, ops" in done.output


def test_without_channels_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "[alerts.channels.slack]" in run("alerts", "test").output
    assert run("alerts", "test").exit_code == 2
    shown = on_terminal("alerts", "list").raw.decode()
    assert "No channel is set up" in shown
    assert "next: redrive help alerts" in shown


def test_the_file_gives_rules_and_channels(place: Path) -> None:
    alerts = Alerts()
    assert (alerts.rules.unserved, alerts.rules.threshold) == (120.0, 100)
    assert alerts.each == ("bigquery.*",)
    assert list(alerts.channels) == ["slack", "ops"]
    settings = run("doctor").stdout
    assert "alerts.channels.slack.url_env\tSLACK_URL (set)" in settings


@each_row(
    "table, why",
    [
        ({"chanels": {}}, "unknown keys: chanels; known: channels"),
        ({"channels": {"pager": {"kind": "email"}}}, 'channel pager: kind must be "webhook"'),
        ({"channels": {"slack": {}}}, "url_env"),
        ({"channels": {"slack": {"url_env": "X", "uri": "y"}}}, "'uri'; known: url, url_env"),
        ({"channels": "slack"}, r"channels must be a table, as in \[alerts.channels\]"),
        ({"each": "sessionId"}, "each must be a list"),
        ({"rules": {"older": "1h"}}, "'older'; known: factor"),
        ({"rules": {"unserved": "soon"}}, "unserved must be seconds"),
    ],
)
def test_what_is_wrong_in_the_file_is_named(table: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        read(table)


def test_service_and_base_url_of_the_file_are_read_and_checked() -> None:
    settings = read({"service": "shop", "base_url": "https://ops.example.org"})
    assert (settings["service"], settings["base_url"]) == ("shop", "https://ops.example.org")
    with pytest.raises(UsageError, match='service must be text, as in service = "…"'):
        read({"service": 7})
    with pytest.raises(UsageError, match="must begin with https:// or http://; found 'ops'"):
        Alerts(webhook(url_env="SLACK_URL"), base_url="ops")
