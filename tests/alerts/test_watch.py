"""A1, F67, F68: causes come and go over simulated time; messages arrive once, whatever fails."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alertkit import Kept, Mailbox, Slack, die, tick, watch_of
from kit import make_failure, make_job
from redrive import GiveUp, Job, Reason, Redrive, State
from redrive.alerts import Alerts, Rules, email, slack
from redrive.alerts import watch as watch_module
from redrive.alerts.conditions import NAME
from redrive.alerts.watch import _LASTS
from redrive.attempts import presence, worker_notes
from redrive.errors import StoreFull
from redrive.stores.contract import Store
from redrive.testing import ManualClock


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


def dead(handler: str, error: str, now: float) -> Job:
    failure = make_failure(cause=error, type=error, title=f"{error}: it is refused")
    times = {"created": now, "updated": now, "finished": now, "died_at": now, "first_failed": now}
    fate = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "attempts": 10, "failure": failure}
    return make_job(handler=handler, **times, **fate)


def both(slack_there: Slack, mailbox: Mailbox) -> Alerts:
    return Alerts(
        slack(url_env="SLACK_URL", allow=slack_there.allow),
        email(
            to="ops@example.org", sender="redrive@example.org", host="127.0.0.1", port=mailbox.port
        ),
    )


def test_thousands_of_deaths_are_a_handful_of_messages(
    slack: Slack, mailbox: Mailbox, clock: ManualClock, tmp_path: Path
) -> None:
    """A1: 5,000 deaths of one cause and 40 of another in ten minutes: at most 3 messages each."""
    with Redrive(tmp_path / "jobs.db", clock=clock, alerts=both(slack, mailbox)) as app:
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
    assert [mail["Subject"] for mail in mailbox.mails] == [
        title.replace("&lt;", "<") for title in slack.titles
    ]
    assert slack.texts[0].strip() == mailbox.mails[0].get_content().replace("\r\n", "\n").strip()


def test_an_hour_without_slack_loses_nothing_and_doubles_nothing(
    slack: Slack, mailbox: Mailbox, clock: ManualClock
) -> None:
    """F67: mails go out meanwhile; when Slack is back it gets each change once."""
    with Redrive("memory:", clock=clock, alerts=both(slack, mailbox)) as app:
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


def test_an_old_cause_is_told_once_unless_somebody_took_it_up(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    for error in (KeyError("vat_id"), ConnectionError("refused"), TypeError("no number")):
        die(app, error)
    tick(app)
    clock.advance(60)
    app.desk.groups.mark("G2", note="the provider knows")
    app.desk.runs.pause(app.desk.runs.start("G3"))
    for _ in range(3):
        clock.advance(3550)
        tick(app)
    assert kept.told()[3:] == [("G1", "old"), ("G2", "old")]
    assert kept.messages[3].at < kept.messages[4].at


def test_what_goes_wrong_besides_dead_jobs_is_told(
    clock: ManualClock, kept: Kept, tmp_path: Path
) -> None:
    """J8, J9: a paused lane, a lane nobody serves, a stopped run, and nothing that ran."""
    alerts = Alerts(kept, rules=Rules(idle="30m"))
    with Redrive("memory:", clock=clock, alerts=alerts) as app:

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
        assert sorted(kept.told()[2:]) == [
            ("G1", "new"),
            ("lane mail.send", "over"),
            ("unserved mail.send", "over"),
        ]
        run = app.desk.runs.start("G1", canary=3)
        app.run_due()
        assert app.desk.runs.get(run).phase == "stopped"
        assert (run.id, "stopped") in kept.told()
        clock.advance(1801)
        tick(app)
        assert kept.told()[-1] == ("idle", "idle")
        assert kept.messages[-1].title == "[IDLE] idle: no job ran for 30m1s"
        send.submit(99)
        app.run_due()
        assert kept.messages[-1].title == "[OVER] idle: no longer: no job ran for 30m1s"


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
    """F67: a channel that hangs costs its time limit once, not once a message."""
    with Redrive("memory:", clock=clock, alerts=both(slack, mailbox)) as app:
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


def test_messages_are_no_matter_of_alerts(app: Redrive, kept: Kept, clock: ManualClock) -> None:
    """F67: a message that cannot be sent dies after a day, and nothing is told of it."""

    def fail(*_: Any, **__: Any) -> str:
        raise ConnectionError("down")

    kept.send = fail  # type: ignore[method-assign]
    die(app, KeyError("vat_id"))
    for _ in range(1600):
        tick(app)
        clock.advance(60)
    dead = app.desk.jobs.find(state="dead", handler=NAME).jobs
    assert len(dead) == 2, "one that it is new, one that it is old"
    watch = watch_of(app)
    assert set(watch._book(app.store)[0].told) == {"G1"}


def test_many_changes_at_once_are_one_message(app: Redrive, kept: Kept) -> None:
    for number in range(37):
        die(app, type(f"Odd{number}Error", (Exception,), {})("x"))
    tick(app)
    tick(app)
    [message] = kept.messages
    assert message.title == "37 changes at once"
    assert message.text.count("NEW G") == 10
    assert "and 27 more" in message.text
    assert len(message.facts["subjects"]) == 37


def test_a_flood_of_causes_is_a_trickle_of_messages(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    for number in range(240):
        die(app, type(f"Odd{number}Error", (Exception,), {})("x"))
        tick(app)
        clock.advance(5)
    assert len(kept.messages) <= 45
    told = {one.subject for one in kept.messages}
    told |= {one for message in kept.messages for one in message.facts.get("subjects", ())}
    clock.advance(600)
    tick(app)
    told |= set(kept.messages[-1].facts.get("subjects", ()))
    assert {f"G{number}" for number in range(1, 241)} <= told


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


SENT = {10, 12}
"""The writes that settle a message which was sent."""


@pytest.mark.parametrize("place", range(13))
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


def test_a_full_disk_is_told_past_the_store(
    app: Redrive,
    kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """F68: on standard error at once, by the channels if it lasts, once, and that it is over."""
    seconds = [1000.0]
    monkeypatch.setattr("redrive.alerts.watch.time.monotonic", lambda: seconds[0])
    tick(app)

    def full(*_: object, **__: object) -> None:
        raise StoreFull("no room to write jobs.db; free space\x1b[2J")

    store: Store = app.store
    with monkeypatch.context() as broken:
        broken.setattr(store, "note", full)
        tick(app)
        assert "alerts cannot use the store: no room to write" in capsys.readouterr().err
        assert kept.told() == []
        for _ in range(12):
            seconds[0] += 5
            tick(app)
        assert kept.told() == [("redrive", "store_down")]
        assert "no room to write jobs.db; free space\\x1b[2J" in kept.messages[0].text
        assert "\x1b" not in capsys.readouterr().err
    tick(app)
    tick(app)
    assert kept.told() == [("redrive", "store_down"), ("redrive", "store_up")]


def test_a_mistake_in_alerts_is_no_matter_of_the_jobs(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(watch_module, "judge", broken)
    app.handler("mail.send")(lambda: None).submit()
    assert app.run_due().succeeded == 1
    assert "checking for alerts failed" in caplog.text


def test_a_message_says_where_it_comes_from_and_since_when(
    kept: Kept, clock: ManualClock, tmp_path: Path
) -> None:
    """Service, store, link, commands to paste, counts and times of the group, and new keys, masked."""
    alerts = Alerts(kept, service="shop", base_url="https://ops.example.org/redrive/")
    with Redrive(tmp_path / "jobs of us.db", clock=clock, alerts=alerts) as app:
        began = clock.now()
        for number in range(12):
            clock.advance(1)
            key = "password=hunter22" if number == 11 else f"order-{number}"
            with app.capture("shop.pay", {}, reraise=False, key=key):
                raise KeyError("vat_id")
        tick(app)
        url = app.store.url
    (message,) = kept.messages
    assert f"Service: shop; store: {url}" in message.text
    assert "Link: https://ops.example.org/redrive/groups/G1" in message.text
    assert f"Look: redrive group G1 --store '{url}'" in message.text
    assert f"redrive retry G1 --canary 3 --wait --store '{url}'" in message.text
    assert "12 jobs dead, 12 in the last 10 minutes; 12 died of it in all." in message.text
    assert "Since 2025-06-15 15:06 UTC" in message.text
    keys = ["password=•••", *(f"order-{number}" for number in range(10, 1, -1))]
    assert f"Keys of new jobs: {', '.join(keys)}" in message.text
    assert message.facts["keys"] == keys
    assert message.facts["service"] == "shop"
    assert message.facts["since"] == pytest.approx(began + 1)


def test_long_names_and_keys_cut_off_neither_the_commands_nor_the_link(
    kept: Kept, clock: ManualClock
) -> None:
    alerts = Alerts(kept, base_url="https://ops.example.org")
    with Redrive("memory:", clock=clock, alerts=alerts) as app:
        for number in range(20):
            name, key = f"{number:02}{'n' * 62}", f"{number:02}{'k' * 198}"
            with app.capture(name, {}, reraise=False, key=key):
                raise ConnectionRefusedError("e" * 2000)
        tick(app)
    (message,) = kept.messages
    assert "After the fix: redrive retry G1 --canary 3 --wait" in message.text
    assert "Link: https://ops.example.org/groups/G1" in message.text
    assert len(message.facts["handlers"]) == 20


def test_only_keys_since_the_last_message_are_named(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    for number in range(12):
        if number == 1:
            tick(app)
        clock.advance(10)
        with app.capture("shop.pay", {}, reraise=False, key=f"order-{number}"):
            raise KeyError("vat_id")
    tick(app)
    assert [message.facts["keys"] for message in kept.messages] == [
        ["order-0"],
        [f"order-{number}" for number in range(11, 1, -1)],
    ]


def test_jobs_that_are_retried_for_an_hour_are_told_once(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    @app.handler("mail.send", attempts=100)
    def send() -> None:
        raise ConnectionError("refused")

    for _ in range(2):
        send.submit()
    for _ in range(30):
        app.run_due(ignore_backoff=True)
        clock.advance(300)
    told = [message for message in kept.messages if message.state == "retrying"]
    assert [message.subject for message in told] == ["retrying G1"]
    assert "2 jobs are retried, for up to 1h" in told[0].title
    assert "redrive list 'G1 state:pending'" in told[0].text


def test_a_job_that_a_person_retried_is_not_old_at_its_first_failure(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    @app.handler("mail.send", attempts=2)
    def send() -> None:
        raise ConnectionError("refused")

    send.submit()
    app.run_due()
    app.run_due(ignore_backoff=True)
    clock.advance(2 * 86400)
    app.desk.retry("G1")
    app.run_due()
    assert app.desk.jobs.find(state="pending", failed=True).jobs
    assert "retrying" not in {state for _, state in kept.told()}


def test_a_fault_is_not_told_again_when_the_note_of_what_was_told_is_lost(
    app: Redrive, kept: Kept, clock: ManualClock
) -> None:
    die(app, KeyError("vat_id"))
    tick(app)
    clock.advance(60)
    app.store.note("alerts", "not JSON")
    tick(app)
    tick(app)
    assert kept.told() == [("G1", "new")]


def test_passes_in_several_threads_look_one_after_the_other(app: Redrive, kept: Kept) -> None:
    """Callbacks of a web server run passes at the same time: each would tell of a failing store."""
    begun, go_on, second = threading.Event(), threading.Event(), threading.Event()
    real = kept.send

    def slow(message: Any, *, ident: str) -> str:
        begun.set()
        assert go_on.wait(30)
        return real(message, ident=ident)

    def tick_second() -> None:
        tick(app)
        second.set()

    kept.send = slow  # type: ignore[method-assign]
    die(app, KeyError("vat_id"))
    threads = [threading.Thread(target=tick, args=(app,)), threading.Thread(target=tick_second)]
    threads[0].start()
    assert begun.wait(30)
    threads[1].start()
    overtook = second.wait(0.5)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert not overtook
    assert kept.told() == [("G1", "new")]
