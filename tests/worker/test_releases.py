"""Two releases of a program on one store: neither kills jobs of the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.errors import KeyConflict, UsageError
from redrive.testing import ManualClock
from workkit import url_of


def test_arguments_that_do_not_fit_are_tried_again_after_a_deploy(tmp_path: Path) -> None:
    clock = ManualClock()
    with Redrive(url_of("sqlite", tmp_path), clock=clock) as before:

        @before.handler("mail.send")
        def send(name: str) -> None: ...

        ids = [send.submit("Ada").id for _ in range(2)]
    with Redrive(url_of("sqlite", tmp_path), clock=clock, rand=lambda: 0.0) as after:

        @after.handler("mail.send")
        def send_now(who: str) -> None: ...

        for wait in (300.0, 300.0):
            after.run_due(only=ids[:1])
            job = after.get(ids[0])
            assert (job.state, job.due - clock.now()) == ("pending", wait)
            assert job.detail == "Redrive asked for 5m"
            clock.advance(wait)
        after.run_due(only=ids[:1])
        dead = after.get(ids[0])
        assert (dead.state, dead.reason, dead.attempts) == ("dead", "exhausted", 3)
        assert dead.failure is not None
        assert dead.failure.category == "unknown"
        assert "missing 'who'; unknown 'name'" in dead.failure.message
        assert "renamed={'old': 'new'}" in dead.failure.message
        after.run_due()
    clock.advance(300)
    with Redrive(url_of("sqlite", tmp_path), clock=clock) as right:

        @right.handler("mail.send", renamed={"name": "who"})
        def send_right(who: str) -> None: ...

        assert right.run_due().succeeded == 1


def test_a_renamed_parameter_kills_nothing(tmp_path: Path) -> None:
    sent: list[str] = []
    with Redrive(url_of("sqlite", tmp_path)) as before:

        @before.handler("mail.send")
        def send(name: str, lines: int = 1) -> None: ...

        job = send.submit("Ada")
    with Redrive(url_of("sqlite", tmp_path)) as after:

        @after.handler("mail.send", renamed={"name": "who", "lines": "length"})
        def send_now(who: str, length: int = 1) -> None:
            sent.append(f"{who} {length}")

        send_now.submit("Bob", 2)
        after.run_due()
        assert after.get(job.id).state == "completed"
    assert sent == ["Ada 1", "Bob 2"]


def test_a_key_stays_the_same_job_after_its_parameter_was_renamed(tmp_path: Path) -> None:
    with Redrive(url_of("sqlite", tmp_path)) as before:

        @before.handler("mail.send")
        def send(name: str) -> None: ...

        job = send.options(key="7").submit("Ada")
    with Redrive(url_of("sqlite", tmp_path)) as after:

        @after.handler("mail.send", renamed={"name": "who"})
        def send_now(who: str) -> None: ...

        again = send_now.options(key="7")
        assert again.submit("Ada").id == job.id
        tried = again.try_now("Ada").job
        assert tried is not None
        assert tried.id == job.id
        with pytest.raises(KeyConflict):
            again.submit("Bob")


@pytest.mark.parametrize(
    "renamed", [{"name": "missing"}, {"who": "who"}, {"who": "length"}, ["name"], "name"]
)
def test_a_wrong_rename_is_refused(renamed: Any) -> None:
    app = Redrive("memory:")
    with pytest.raises(UsageError, match="must map a former name to a parameter"):

        @app.handler("mail.send", renamed=renamed)
        def send(who: str, length: int = 1) -> None: ...
