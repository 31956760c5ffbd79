"""Groups come and go over simulated time; messages arrive once, whatever fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from alertkit import Kept, Mailbox, Slack, die, tick, watch_of
from kit import make_failure, make_job
from redrive import GiveUp, Job, Reason, Redrive, State
from redrive.alerts import Alerts, Message, apprise, webhook
from redrive.alerts import watch as watch_module
from redrive.alerts.conditions import NAME
from redrive.alerts.watch import _LASTS, MOST
from redrive.attempts import presence, worker_notes
from redrive.testing import ManualClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:apprise")  # of its imports


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def app(clock: ManualClock, kept: Kept) -> Iterator[Redrive]:
    with Redrive("memory:", clock=clock, alerts=Alerts(kept)) as made:
        yield made


def dead(handler: str, error: str, now: float, **more: Any) -> Job:
    failure = make_failure(cause=error, type=error, title=f"{error}: it is refused")
    times = {"created": now, "updated": now, "finished": now, "died_at": now, "first_failed": now}
    fate = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "attempts": 10, "failure": failure}
    return make_job(**{"handler": handler, **times, **fate, **more})


def both(slack: Slack) -> Alerts:
    return Alerts(webhook(url_env="SLACK_URL", allow=slack.allow), apprise(url_env="MAIL_URL"))


def test_thousands_of_deaths_are_a_handful_of_messages(
    slack: Slack, mailbox: Mailbox, clock: ManualClock, tmp_path: Path
) -> None:
    """5,000 deaths of one cause and 40 of another in ten minutes: at most 3 messages each."""
    with Redrive(tmp_path / "jobs.db", clock=clock, alerts=both(slack)) as app:
        for step in range(120):
            more = 42 if step % 3 else 41
            app.store.add([dead("shop.pay", "ConnectionError", clock.now()) for _ in range(more)])
            if step % 3 == 0:
                app.store.add([dead("shop.invoice", "KeyError", clock.now())])
            tick(app)
            clock.advance(5)
        counted = {group.name: group.jobs for group in app.desk.groups.find()}
    assert counted == {"G1": 5000, "G2": 40}
    titles = [title.partition(":")[0] for title in slack.titles]
    assert titles == ["[NEW] G1", "[NEW] G2", "[GROWING] G1", "[GROWING] G2"]
    assert "ConnectionError" in slack.texts[0]
    assert "41 jobs dead, 41 in the last 10 minutes" in slack.texts[0]
    assert "Handlers: shop.pay" in slack.texts[0]
    assert "redrive retry G1" in slack.texts[0]
    assert "(+500 since 2025-06-15 15:06 UTC)" in slack.texts[2]
    assert [mail["Subject"] for mail in mailbox.mails] == [unescape(one) for one in slack.titles]
    mail = mailbox.mails[0].get_content().replace("\r\n", "\n")
    assert unescape(slack.texts[0]).strip() == mail.strip()


def test_an_hour_without_slack_loses_nothing_and_doubles_nothing(
    slack: Slack, mailbox: Mailbox, clock: ManualClock
) -> None:
    """Mails go out meanwhile; when Slack is back it gets each change once."""
    with Redrive("memory:", clock=clock, alerts=both(slack)) as app:
        slack.status = 500
        die(app, KeyError("vat_id"))
        for step in range(720):
            if step == 100:
                die(app, ConnectionError("refused"))
            if step == 300:
                app.desk.resolve("G1")
            tick(app)
            clock.advance(5)
        assert slack.bodies == []
        assert 20 <= slack.refused <= 140, "it was tried, and not all the time"
        assert len(mailbox.mails) == 3
        slack.status = 200
        for _ in range(80):
            tick(app)
            clock.advance(5)
        other = app.desk.groups.find()[0].name
        states = [job.state for job in app.desk.jobs.find(handler=NAME).jobs]
    told = sorted(title.partition(":")[0] for title in slack.titles)
    assert told == ["[NEW] G1", f"[NEW] {other}", "[RESOLVED] G1"]
    assert states == [State.COMPLETED] * 6


def test_a_cause_comes_back_after_it_was_resolved(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    die(app, KeyError("vat_id"))
    tick(app)
    app.desk.resolve("G1")
    app.desk.groups.mark("G1", resolved=True, actor="mira")
    tick(app)
    clock.advance(60)
    die(app, KeyError("vat_id"))
    tick(app)
    assert kept.told() == [("G1", "new"), ("G1", "resolved"), ("G1", "regressed")]
    assert "by mira" in kept.messages[1].title


def test_a_cause_is_not_resolved_while_its_jobs_are_driven_again(app: Redrive, kept: Kept) -> None:
    @app.handler("mail.send")
    def send() -> None:
        """Succeed."""

    die(app, GiveUp("vat_id is missing"))
    tick(app)
    assert kept.told() == [("G1", "new")]
    app.desk.retry("G1")
    tick(app)
    assert kept.told() == [("G1", "new")], "it may yet die again"
    app.run_due()
    assert kept.told() == [("G1", "new"), ("G1", "resolved")]


def test_what_goes_wrong_besides_dead_jobs_is_told(clock: ManualClock, kept: Kept) -> None:
    """A paused lane, and a lane that no worker serves."""
    with Redrive("memory:", clock=clock, alerts=Alerts(kept)) as app:

        @app.handler("mail.send", attempts=1)
        def send(number: int) -> None:
            raise KeyError("vat_id")

        for number in range(12):
            send.submit(number)
        clock.advance(59)
        tick(app)
        assert kept.told() == []
        app.desk.lanes.pause("mail.send", reason="the provider asked", actor="mira")
        clock.advance(1)
        tick(app)
        assert kept.told() == [("lane mail.send", "paused"), ("unserved mail.send", "unserved")]
        assert "by mira: the provider asked" in kept.messages[0].title
        assert "redrive resume mail.send" in kept.messages[0].text
        app.desk.lanes.resume("mail.send")
        app.run_due()
        assert kept.told()[2:] == [("G1", "new")]


def test_a_worker_that_vanishes_is_told_and_one_that_leaves_is_not(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    left, killed = app.submitter.runtime(), app.submitter.runtime()
    left.holder, killed.holder = "left", "killed"
    for runtime in (left, killed):
        presence.sign(runtime, clock.now())
    presence.sign(app.submitter.runtime(), clock.now(), lasts=worker_notes.PASS_LASTS)
    app.store.note("alerts:turn", "killed", expires_in=_LASTS)  # it even was the one that looked
    clock.advance(19)
    presence.leave(left)
    tick(app)
    assert kept.told() == []
    clock.advance(2)
    for _ in range(3):
        tick(app)
        clock.advance(5)
    clock.advance(worker_notes.PASS_LASTS - 41)  # the note of the pass has five seconds left
    tick(app)
    assert [state for _, state in kept.told()] == ["silent"]
    assert "sends no heartbeat" in kept.messages[0].title


def test_a_channel_that_failed_is_left_alone_for_a_while(
    slack: Slack, mailbox: Mailbox, clock: ManualClock
) -> None:
    """A channel that hangs costs its time limit once, not once a message."""
    with Redrive("memory:", clock=clock, alerts=both(slack)) as app:
        slack.status = 500
        for number in range(5):
            die(app, type(f"Odd{number}Error", (Exception,), {})("x"))
        tick(app)
        assert (slack.refused, len(mailbox.mails)) == (1, 5)
        slack.status = 200
        for _ in range(8):
            clock.advance(10)
            tick(app)
        assert len(slack.bodies) == len(set(slack.titles)) == 5


def told_of(message: Message) -> set[str]:
    """The groups that a message names."""
    return {message.subject} - {"many"} | set(re.findall(r"\bG\d+\b", message.text))


def test_many_changes_at_once_are_one_message(app: Redrive, kept: Kept) -> None:
    for number in range(37):
        die(app, type(f"Odd{number}Error", (Exception,), {})("x"))
    tick(app)
    tick(app)
    [message] = kept.messages
    assert message.title == "37 changes at once"
    assert message.text.count("NEW G") == 10
    assert "and 27 more" in message.text
    assert told_of(message) == {f"G{number}" for number in range(1, 38)}


def test_a_flood_of_causes_is_a_trickle_of_messages(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    for number in range(240):
        die(app, type(f"Odd{number}Error", (Exception,), {})("x"))
        tick(app)
        clock.advance(5)
    clock.advance(600)
    tick(app)
    assert len(kept.messages) <= 46
    told = set[str]().union(*map(told_of, kept.messages))
    assert told == {f"G{number}" for number in range(1, 241)}


def test_two_that_look_at_the_same_time_decide_once(
    app: Redrive, kept: Kept, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Redrive(app.store, clock=clock, alerts=Alerts(kept))
    die(app, KeyError("vat_id"))
    real, calls = watch_module.judge, 0

    def slowly(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        decided = real(*args)
        if calls == 1:
            die(app, ConnectionError("refused"))
            clock.advance(5)
            watch_of(other).look(app.store)
        return decided

    monkeypatch.setattr(watch_module, "judge", slowly)
    tick(app)
    die(app, TypeError("no number"))
    for one in (app, other):
        clock.advance(16)
        tick(one)
    assert kept.told() == [("G1", "new"), ("G2", "new"), ("G3", "new")]


class Fragile(BaseException):
    """The process is gone."""


SENT = {9, 11}
"""The writes that settle a message which was sent."""


@pytest.mark.parametrize("place", range(12))
def test_a_crash_at_any_write_neither_loses_nor_doubles_a_message(
    app: Redrive, kept: Kept, clock: ManualClock, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill -9 between deciding, making the jobs and striking them off: the next look goes on."""
    writes = 0

    def crashing(name: str) -> Any:
        real = getattr(app.store, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal writes
            writes += 1
            if writes == place + 1:
                raise Fragile
            return real(*args, **kwargs)

        return call

    die(app, KeyError("vat_id"))
    die(app, ConnectionError("refused"))
    for name in ("note", "add", "claim", "settle"):
        monkeypatch.setattr(app.store, name, crashing(name))
    with pytest.raises(Fragile):
        tick(app)
    monkeypatch.undo()
    app.submitter._held_by = (0, "")  # another process goes on
    for _ in range(4):
        clock.advance(61)  # leases end, and the turn of who is gone
        tick(app)
    jobs = app.desk.jobs.find(handler=NAME).jobs
    assert [job.state for job in jobs] == [State.COMPLETED] * 2
    assert set(kept.told()) == {("G1", "new"), ("G2", "new")}
    assert len(kept.messages) - 2 <= (place in SENT), "again only what was sent and not yet settled"


def test_a_mistake_in_alerts_is_no_matter_of_the_jobs(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watch_module, "judge", broken)
    app.handler("mail.send")(lambda: None).submit()
    assert app.run_due().succeeded == 1
    assert "checking for alerts failed" in caplog.text


def test_a_clock_that_is_set_back_silences_nobody(
    app: Redrive, clock: ManualClock, kept: Kept
) -> None:
    clock.advance(86400.0)
    for number in range(MOST):
        app.store.add([dead("mail", f"E{number}", clock.now())])
        tick(app)
    clock.jump(-86400.0)
    app.store.add([dead("mail", "Late", clock.now())])
    tick(app)
    assert "Late" in kept.messages[-1].text
