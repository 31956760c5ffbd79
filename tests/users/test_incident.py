"""From an alarm in the night to a closed case: the real program on a terminal, a real worker beside it.

C2, C3, M6, J9: what failed, why, how many and what they share; stop the bleeding; a canary before and
after the mending; the whole group at a rate; the verdict; the log of who did what.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from crewkit import crew
from ptykit import Shown, on_terminal
from redrive import Redrive
from workkit import until

JOBS = 120
HERE = Path(__file__).parent


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path / 'jobs'}"


class Night:
    """An operator's terminal on one store."""

    def __init__(self, url: str) -> None:
        self._env = {"REDRIVE_STORE": url, "REDRIVE_ACTOR": "mira", "USER": "mira"}

    def types(self, *words: str, answer: str = "") -> Shown:
        return on_terminal(*words, typed=answer.encode(), env=self._env)


def lay_in(app: Redrive) -> None:
    """Submit from a program that knows the handlers by name only."""

    @app.handler("billing.charge")
    def charge(customer: int, region: str) -> None: ...

    @app.handler("billing.pdf")
    def pdf(invoice: dict[str, str]) -> None: ...

    for n in range(JOBS):
        charge.submit(n, "us" if n % 40 == 0 else "eu")
    for n in range(6):
        pdf.submit({"number": f"I-{n}"})


def deaths(app: Redrive) -> int:
    return sum(count.jobs for count in app.desk.jobs.counts() if count.state == "dead")


def group_of(shown: Shown, cause: str) -> str:
    found = re.search(rf"(G\d+)\b[^\n]*{cause}", shown.text)
    assert found, shown.text
    return found[1]


def test_from_the_alarm_to_a_closed_case(url: str, tmp_path: Path) -> None:
    night = Night(url)
    with Redrive(url) as app, crew(tmp_path, url, program="billing:app", path=HERE):
        lay_in(app)
        until(lambda: deaths(app) == JOBS + 6)
        _three_commands_to_a_canary_that_fails(night)
        _stop_the_bleeding(night, app)
        (tmp_path / "mended").touch()
        _drive_all(night, app)
        _close(night, app)


def _three_commands_to_a_canary_that_fails(night: Night) -> None:
    status = night.types("status")
    assert f"Dead letter queue  ✗ {JOBS + 6}" in status.text
    group = group_of(status, "ConnectionError")

    why = night.types("group", group)
    assert "api.stripe.example:443 timed out" in why.text
    assert re.search(r"9[78]%\s+payload\.region\s+eu", why.text)
    assert "100%" in why.text
    assert "billing.charge" in why.text

    canary = night.types("retry", group, "--canary", "3", "--wait", answer=f"{JOBS}\n")
    assert canary.code == 7, canary.text
    assert f"{JOBS} jobs" in canary.text
    assert "3 of 3 canary jobs failed again" in canary.text


def _stop_the_bleeding(night: Night, app: Redrive) -> None:
    paused = night.types("pause", "billing.charge", "--reason", "stripe is down")
    assert paused.code == 0
    assert "stripe is down" in night.types("status").text
    assert [note.name for note in app.store.notes("pause:")] == ["pause:billing.charge"]
    assert night.types("resume", "billing.charge").code == 0


def _drive_all(night: Night, app: Redrive) -> None:
    group = group_of(night.types("groups"), "ConnectionError")
    words = ["retry", group, "--canary", "3", "--rate", "200/s", "--ramp", "--stop-on", "5%"]
    done = night.types(*words, "--name", "stripe outage", "--wait", answer=f"{JOBS}\n")
    assert done.code == 0, done.text
    assert b"R2 " in done.raw
    assert re.search(rf"succeeded\s+✓? ?{JOBS}", done.text), done.text
    run = app.desk.runs.get("R2")
    assert (run.phase, run.name, run.by) == ("done", "stripe outage", "mira")
    assert run.counts is not None
    assert (run.counts.succeeded, run.counts.failed, run.counts.left) == (JOBS, 0, 0)


def _close(night: Night, app: Redrive) -> None:
    left = night.types("groups")
    assert "ConnectionError" not in left.text
    other = group_of(left, "KeyError")
    said = ["discard", other, "--reason", "test invoices"]
    assert night.types(*said, answer="y\n").code == 0
    assert deaths(app) == 0
    log = night.types("log").text
    for word in ("discard", "test invoices", "pause", "stripe is down", "R2", "mira"):
        assert word in log, log
    acts: list[Any] = app.desk.log.actions(limit=1000)
    assert {action.actor for action in acts} == {"mira"}
