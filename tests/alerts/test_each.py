"""Per-job alerts: each dead letter has its message; when there are too many, the group has one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alertkit import Kept, Mailbox, Slack, die, tick
from redrive import Group, Job, Redrive
from redrive.alerts import Alerts, apprise, webhook
from redrive.alerts.rules import SPAN
from redrive.alerts.watch import SINGLES
from redrive.testing import ManualClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")  # of its imports
NAME = "bigquery.sync"


def said(group: Group | None, job: Job) -> str:
    session = json.loads(job.payload)["sessionId"]
    return f"{job.attempts} failed: {session}" if group is None else f"{group.jobs} failed"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


def app_with(clock: ManualClock, *channels: Any, where: Any = "memory:", **more: Any) -> Redrive:
    options = {"text": said, "each": ["bigquery.*"], **more}
    app = Redrive(where, clock=clock, alerts=Alerts(*channels, **options))
    app.run_due()  # as a worker does when it starts: from now on deaths are heard of
    return app


def sessions(app: Redrive, *names: str, handler: str = NAME) -> None:
    for one in names:
        die(app, PermissionError(13, "refused"), handler, sessionId=one, userId="u-4711")


def states(kept: Kept) -> list[str]:
    return [message.state for message in kept.messages]


def test_every_session_has_its_message(kept: Kept, clock: ManualClock) -> None:
    with app_with(clock, kept) as app:
        sessions(app, *(f"s-{number}" for number in range(5)))
        app.run_due()
        tick(app)
    assert states(kept) == ["died"] * 5
    for number, message in enumerate(kept.messages):
        assert message.title == f"[DEAD] 1 failed: s-{number}"
        assert "Error: [Errno 13] refused" in message.text
        assert f"After the fix: redrive retry {message.subject}" in message.text
        assert "u-4711" not in message.text


def test_it_reaches_slack_and_mail_in_the_same_pass(
    slack: Slack, mailbox: Mailbox, clock: ManualClock, tmp_path: Path
) -> None:
    channels = webhook(url_env="SLACK_URL", allow=slack.allow), apprise(url_env="MAIL_URL")
    with app_with(clock, *channels, where=tmp_path / "jobs.db") as app:
        sessions(app, "s-1", "s-2")
        app.run_due()
    titles = [f"[DEAD] 1 failed: s-{n}" for n in (1, 2)]
    assert slack.titles == titles
    assert [mail["Subject"] for mail in mailbox.mails] == titles


def test_twenty_messages_in_ten_minutes_then_one_about_the_group(
    kept: Kept, clock: ManualClock
) -> None:
    with app_with(clock, kept) as app:
        sessions(app, *(f"s-{number}" for number in range(SINGLES + 30)))
        app.run_due()
        assert states(kept) == ["died"] * SINGLES + ["growing"]
        assert kept.messages[-1].title == "[GROWING] G1: 50 failed"
        assert "50 jobs dead" in kept.messages[-1].text
        sessions(app, "late")
        app.run_due()
        assert len(kept.messages) == SINGLES + 1, "the group was told a moment ago"
        clock.advance(SPAN)
        sessions(app, "later")
        app.run_due()
    assert kept.messages[-1].title == "[DEAD] 1 failed: later"
    assert len(kept.messages) == SINGLES + 2


def test_other_handlers_are_told_by_group_and_every_group_when_it_is_resolved(
    kept: Kept, clock: ManualClock
) -> None:
    with app_with(clock, kept) as app:
        sessions(app, "s-1", "s-2")
        sessions(app, "m-1", "m-2", handler="mail.send")
        app.run_due()
        assert sorted(states(kept)) == ["died", "died", "new"]
        app.desk.resolve("handler:bigquery.*", reason="the rights are back")
        tick(app)
    assert kept.told()[-1][1] == "resolved"


def test_a_message_survives_a_crash_and_is_sent_once(
    kept: Kept, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the message is a job, before the event is settled."""
    store = tmp_path / "jobs.db"
    with app_with(clock, kept, where=store) as app:
        sessions(app, "s-1")
        with monkeypatch.context() as patch:
            patch.setattr("redrive.worker.deliveries.Deliveries._settle", lambda *_: None)
            app.run_due()
        assert app.store.waiting_events()["alerts"].number == 1
    clock.advance(60)
    with app_with(clock, kept, where=store) as app:
        app.run_due()
        assert app.store.waiting_events() == {}
    assert states(kept) == ["died"]


def test_ids_of_messages_are_unique_over_stores(clock: ManualClock) -> None:
    """Two stores tell their first dead letter to the same receiver."""
    idents: list[str] = []

    class Receiver(Kept):
        def send(self, message: Any, *, ident: str) -> str:
            idents.append(ident)
            return super().send(message, ident=ident)

    for _ in range(2):
        with app_with(clock, Receiver()) as app:
            sessions(app, "s-1")
            app.run_due()
    assert len(set(idents)) == 2


def test_without_handlers_nothing_is_subscribed(kept: Kept, clock: ManualClock) -> None:
    with app_with(clock, kept, each=()) as app:
        assert app.store.subscriptions() == {}
