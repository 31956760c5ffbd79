"""What must not silence the alerts, nor make them say what is not so: clocks, odd jobs, crowds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from alertkit import Kept, Slack, tick, watch_of
from kit import make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.alerts import Alerts, Rules, conditions, email, watch
from redrive.alerts import slack as slack_channel
from redrive.alerts.messages import plain
from redrive.alerts.watch import MOST
from redrive.errors import Undelivered
from redrive.testing import ManualClock

DAY = 86400.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def app(clock: ManualClock, kept: Kept) -> Iterator[Redrive]:
    alerts = Alerts(kept, templates={"mail": "to {payload.to}"}, fields=["to"])
    with Redrive("memory:", clock=clock, alerts=alerts) as made:
        yield made


def dead(error: str, now: float, **more: Any) -> Job:
    failure = make_failure(cause=error, type=error, title=f"{error}: it is refused")
    times = {"created": now, "updated": now, "finished": now, "died_at": now, "first_failed": now}
    fate = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "attempts": 10, "failure": failure}
    return make_job(**{"handler": "mail", **times, **fate, **more})


def test_a_clock_that_is_set_back_silences_nobody(
    app: Redrive, clock: ManualClock, kept: Kept
) -> None:
    clock.advance(DAY)
    for number in range(MOST):
        app.store.add([dead(f"E{number}", clock.now())])
        tick(app)
    clock.jump(-DAY)
    app.store.add([dead("Late", clock.now())])
    tick(app)
    assert "Late" in kept.messages[-1].text


def test_an_app_that_works_is_not_idle_whatever_was_sent_since(
    clock: ManualClock, kept: Kept
) -> None:
    """Messages are jobs too, and a page full of them hides those of the program."""
    alerts = Alerts(kept, Kept(name="other"), rules=Rules(idle="5m"))
    with Redrive("memory:", clock=clock, alerts=alerts) as app:
        tick(app)
        clock.advance(DAY)
        app.store.add([make_job(state=State.COMPLETED, updated=clock.now(), finished=clock.now())])
        for number in range(15):
            clock.advance(10)
            app.store.add([dead(f"E{number}", clock.now() - DAY)])
            tick(app)
    assert {one.state for one in kept.messages} == {"new"}


def test_a_cause_that_larger_ones_push_aside_is_not_resolved(
    app: Redrive, clock: ManualClock, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "WATCHED", 2)
    app.store.add([dead("Small", clock.now())])
    tick(app)
    app.store.add([dead(error, clock.now()) for error in ("Large", "Huge") for _ in range(3)])
    tick(app)
    assert kept.told() == [("G1", "new"), ("G2", "new"), ("G3", "new")]


@pytest.mark.parametrize(
    "odd",
    [
        {"payload": "{oops"},
        {"payload": "[" * 5000},
        {"first_failed": 1e18},
        {"first_failed": -1e18},
        {"updated": 1e18, "finished": 1e18},
    ],
    ids=str,
)
def test_one_odd_job_silences_nobody(
    app: Redrive, clock: ManualClock, kept: Kept, odd: dict[str, Any]
) -> None:
    """Such jobs come with files of others, and files that were edited by hand."""
    app.store.add([dead("Odd", clock.now(), **odd)])
    app.store.add([dead("Good", clock.now())])
    tick(app)
    assert sorted(kept.told()) == [("G1", "new"), ("G2", "new")]


def test_what_is_decided_is_sent_though_nobody_can_look(
    app: Redrive, clock: ManualClock, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    sender = watch_of(app)
    monkeypatch.setattr(sender, "_send_due", lambda _: None)
    app.store.add([dead("Bad", clock.now())])
    tick(app)
    monkeypatch.undo()
    monkeypatch.setattr(watch, "look", fail)
    tick(app)
    assert kept.told() == [("G1", "new")]


def test_a_mail_server_that_never_comes_to_the_point_is_given_up() -> None:
    """It answers each time before a read would time out, so only the whole can be bounded."""
    over = threading.Event()

    def drip() -> None:
        line, _ = server.accept()
        with line, suppress(OSError):
            while not over.wait(0.1):
                line.sendall(b"220-wait\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=drip, daemon=True).start()
        port = server.getsockname()[1]
        channel = email(to="a@b.c", sender="d@e.f", host="127.0.0.1", port=port, timeout=0.5)
        with pytest.raises(Undelivered, match="timed out"):
            channel.send(plain("title", "text", 0.0), ident="one")
        over.set()


def test_an_answer_that_repeats_our_address_is_told_without_it(
    slack: Slack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack, "take", lambda *_: (200, "taken at /services/T0/B0/secretpath"))
    channel = slack_channel(url_env="SLACK_URL", allow=slack.allow)
    assert channel.send(plain("title", "text", 0.0), ident="one") == "200 taken at •••"


def test_an_error_is_told_without_the_secrets_of_its_payload(
    app: Redrive, clock: ManualClock, kept: Kept
) -> None:
    """Errors are stored masked by us, but not by everybody whose jobs are brought in."""
    failure = make_failure(message="hunter-22 was refused")
    payload = '{"to": "ada", "password": "hunter-22"}'
    app.store.add([dead("Refused", clock.now(), payload=payload, failure=failure)])
    tick(app)
    assert "Newest: ••• was refused" in kept.messages[0].text
