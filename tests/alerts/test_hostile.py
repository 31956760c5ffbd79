"""What must not silence the alerts, nor make them say what is not so: clocks, odd jobs, crowds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from alertkit import Kept, tick, watch_of
from kit import make_failure, make_job
from redrive import Job, Reason, Redrive, State
from redrive.alerts import Alerts, conditions, watch
from redrive.alerts.watch import MOST
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
    alerts = Alerts(kept, text=lambda _, job: f"to {json.loads(job.payload)['to']}")
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
