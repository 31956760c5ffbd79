"""R-SYNC 3, A1: per-job alerts. Each dead letter has its message; too many at once are digests with keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from alertkit import HOLD, Kept, Mailbox, Slack, die, tick
from redrive import Redrive
from redrive.alerts import Alerts, email, slack
from redrive.alerts.each import DIGEST_EVERY, LISTED, SPAN
from redrive.errors import UsageError
from redrive.testing import ManualClock

NAME = "bigquery.sync"
WORDS: dict[str, Any] = {
    "templates": {NAME: "BigQuery同期が{attempts}回失敗しました: session={payload.sessionId}"},
    "types": {NAME: "bigquery_sync_failure"},
    "fields": ["sessionId", "table.name"],
}


class KeptEach(Kept):
    """A channel that gets a message for each dead letter."""

    mode = "each"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept() -> Kept:
    return KeptEach()


def app_with(clock: ManualClock, *channels: Any, where: Any = "memory:", **options: Any) -> Redrive:
    app = Redrive(where, clock=clock, alerts=Alerts(*channels, **{**WORDS, **options}))
    app.run_due()  # as a worker does when it starts: from now on deaths are heard of
    return app


def sessions(app: Redrive, *names: str, handler: str = NAME) -> None:
    for one in names:
        die(app, PermissionError(13, "refused"), handler, sessionId=one, userId="u-4711")


def states(kept: Kept) -> list[str]:
    return [message.state for message in kept.messages]


def test_every_session_has_its_message_with_type_text_and_listed_data(
    kept: Kept, clock: ManualClock
) -> None:
    """Finding 3: five sessions of one cause gave one message, which named one of them."""
    with app_with(clock, kept) as app:
        sessions(app, *(f"s-{number}" for number in range(5)))
        app.run_due()
    assert states(kept) == ["died"] * 5
    for number, message in enumerate(kept.messages):
        said = f"BigQuery同期が1回失敗しました: session=s-{number}"
        assert message.type == "bigquery_sync_failure"
        assert message.title == f"[DEAD] {said}"
        assert message.facts["message"] == said
        assert message.facts["data"] == {"sessionId": f"s-{number}"}
        assert message.facts["error"] == "[Errno 13] refused"
        assert f"sessionId: s-{number}" in message.text
        assert f"redrive retry {message.facts['job']}" in message.text
        assert "u-4711" not in json.dumps([message.text, message.facts])


def test_it_reaches_slack_and_mail_in_the_same_pass(
    slack: Slack, mailbox: Mailbox, clock: ManualClock, tmp_path: Path
) -> None:
    from redrive.alerts import slack as to_slack  # noqa: PLC0415 - the fixture has the name

    channels = (
        to_slack(url_env="SLACK_URL", allow=slack.allow, mode="each"),
        email(
            to="ops@example.org",
            sender="redrive@example.org",
            host="127.0.0.1",
            port=mailbox.port,
            mode="each",
        ),
    )
    with app_with(clock, *channels, where=tmp_path / "jobs.db") as app:
        sessions(app, "s-1", "s-2")
        app.run_due()
    titles = [f"[DEAD] BigQuery同期が1回失敗しました: session=s-{n}" for n in (1, 2)]
    assert slack.titles == titles
    assert [mail["Subject"] for mail in mailbox.mails] == titles
    assert {mail["X-Redrive-Type"] for mail in mailbox.mails} == {"bigquery_sync_failure"}


def test_twenty_messages_in_ten_minutes_then_digests_with_all_keys(
    kept: Kept, clock: ManualClock
) -> None:
    with app_with(clock, kept) as app:
        for number in range(50):
            with app.capture(NAME, {"sessionId": f"s-{number}"}, key=f"k-{number}", reraise=False):
                raise PermissionError(13, "refused")
        app.run_due()
        assert states(kept) == ["died"] * 20 + ["digest"]
        assert kept.messages[-1].facts["keys"] == [f"k-{number}" for number in range(20, 50)]
        assert kept.messages[-1].title == f"[DEAD] 30 jobs died: {NAME}"
        assert kept.messages[-1].type == "bigquery_sync_failure"
        assert "k-20, k-21" in kept.messages[-1].text
        assert "… and 5 more" in kept.messages[-1].text
        sessions(app, "late")
        app.run_due()
        assert len(kept.messages) == 21, "the next digest is not due yet"
        clock.advance(DIGEST_EVERY)
        app.run_due()
        assert states(kept)[21:] == ["digest"]
        clock.advance(SPAN)
        sessions(app, "later")
        app.run_due()
    assert states(kept)[22:] == ["died"]


def test_a_storm_is_few_messages_and_the_digest_says_how_many(
    kept: Kept, clock: ManualClock
) -> None:
    with app_with(clock, kept) as app:
        sessions(app, *(f"s-{number}" for number in range(LISTED + 50)))
        app.run_due()
    assert states(kept) == ["died"] * 20 + ["digest"]
    digest = kept.messages[-1]
    assert digest.facts["jobs"] == LISTED + 30
    assert len(digest.facts["keys"]) == LISTED
    assert len(digest.text) <= 2000


def test_a_handler_can_be_alerted_one_by_one_on_all_channels(clock: ManualClock) -> None:
    kept = Kept()
    with app_with(clock, kept, each=[NAME]) as app:
        sessions(app, "s-1", "s-2")
        sessions(app, "m-1", "m-2", handler="mail.send")
        app.run_due()
    assert sorted(states(kept)) == ["died", "died", "new"]
    (group,) = [message for message in kept.messages if message.state == "new"]
    assert group.facts["handlers"] == ["mail.send"]


def test_channels_of_both_modes_and_a_handler_each_get_their_own(clock: ManualClock) -> None:
    direct, other = KeptEach("direct"), Kept("other")
    with app_with(clock, direct, other, each=[NAME]) as app:
        sessions(app, *(f"s-{number}" for number in range(15)))
        sessions(app, *(f"m-{number}" for number in range(15)), handler="mail.send")
        app.run_due()
    assert states(direct) == ["died"] * 20 + ["digest"]
    assert direct.messages[-1].facts["jobs"] == 10
    assert [one for one in states(other) if one != "new"] == ["died"] * 15


def test_groups_that_are_old_or_resolved_are_still_told(kept: Kept, clock: ManualClock) -> None:
    with app_with(clock, kept) as app:
        sessions(app, "s-1")
        app.run_due()
        clock.advance(3700)
        tick(app)
        app.desk.resolve("G1", reason="the rights are back")
        tick(app)
    assert states(kept) == ["died", "old", "resolved"]


def test_a_message_that_is_decided_survives_a_crash_and_is_sent_once(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process dies after the message is a job, before the event is settled."""
    kept = KeptEach()
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


def test_a_digest_that_is_decided_is_submitted_by_the_next_process(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, store = KeptEach(), tmp_path / "jobs.db"
    with app_with(clock, kept, where=store) as app:
        sessions(app, *(f"s-{number}" for number in range(25)))
        with monkeypatch.context() as patch:
            patch.setattr("redrive.alerts.job_messages.of_many", _fails)
            app.run_due()
        assert states(kept) == []
    with app_with(clock, kept, where=store) as app:
        app.run_due()
    assert sorted(states(kept)) == ["died"] * 20 + ["digest"]
    (digest,) = [message for message in kept.messages if message.state == "digest"]
    assert digest.facts["jobs"] == 5


def _fails(*_: object) -> None:
    raise MemoryError


def test_secrets_of_listed_fields_are_masked(kept: Kept, clock: ManualClock) -> None:
    with app_with(clock, kept, fields=["sessionId", "token"]) as app:
        die(app, PermissionError(13, "refused"), "mail", sessionId="s", token="hunter2-abcdef")
        app.run_due()
    (message,) = kept.messages
    assert "hunter2" not in json.dumps([message.text, message.title, message.facts])
    assert message.type == "redrive_dead_letter"


def test_the_mode_can_stand_in_the_file(
    clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("redrive.toml").write_text(
        '[alerts]\neach = ["mail"]\n[alerts.channels.slack]\nurl_env = "U"\nmode = "each"\n'
    )
    alerts = Alerts()
    assert alerts.each == {"mail"}
    assert getattr(alerts.channels["slack"], "mode", "") == "each"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="mode must be 'groups' or 'each'; found 'all'"):
        Alerts(slack(url_env="U", allow=HOLD, mode="all"))  # type: ignore[arg-type]


def test_without_the_mode_nothing_is_subscribed(clock: ManualClock) -> None:
    with app_with(clock, Kept()) as app:
        assert app.store.subscriptions() == {}
