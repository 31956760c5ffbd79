"""A group or a run that is unknown is an error, as an unknown id is; never an empty answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from redrive import Policy, Redrive
from redrive.errors import JobNotFound
from redrive.testing import ManualClock
from tablekit import each_row

ID = "01ZZZZZZZZZZZZZZZZZZZZZZZZ"
VERBS: dict[str, Callable[..., Any]] = {
    "retry": lambda app, *words, **filters: app.desk.retry(*words, **filters),
    "resolve": lambda app, *words, **filters: app.desk.resolve(*words, **filters),
    "discard": lambda app, *words, **filters: app.desk.discard(*words, reason="r", **filters),
    "reopen": lambda app, *words, **filters: app.desk.reopen(*words, **filters),
    "drive": lambda app, *words, **filters: app.desk.runs.start(*words, **filters),
    "find": lambda app, *words, **filters: app.desk.jobs.find(*words, **filters),
    "each": lambda app, *words, **filters: list(app.desk.jobs.each(*words, **filters)),
}


@pytest.fixture
def dead(app: Redrive) -> str:
    """The id of a dead job of group G1."""

    @app.handler("work", policy=Policy(attempts=1))
    def work() -> None:
        raise ValueError("bad")

    job = work.submit()
    app.run_due()
    return job.id


@each_row("verb", VERBS)
def test_an_unknown_group_or_run_raises_as_an_unknown_id_does(
    app: Redrive, dead: str, verb: str
) -> None:
    call = VERBS[verb]
    with pytest.raises(JobNotFound, match=ID):
        call(app, ID)
    for words in ("G99", "group:G99", "G1 G99", "group:G1,G99", "G99 handler:other"):
        with pytest.raises(JobNotFound, match="no group G99; `redrive groups` lists"):
            call(app, words)
    for number in (99, "99", "G99"):
        with pytest.raises(JobNotFound, match="no group G99"):
            call(app, group=number)
    for words in ("R99", "run:R99", "run:R98,R99", "state:dead R99"):
        with pytest.raises(JobNotFound, match=r"no run R9[89]; `redrive run` lists"):
            call(app, words)
    with pytest.raises(JobNotFound, match="no run R99"):
        call(app, run=99)
    assert app.get(dead).state == "dead"
    assert app.desk.log.actions() == [], "nothing was changed"


def test_looking_at_one_and_counting_raise_too(app: Redrive, dead: str) -> None:
    for call in (app.desk.groups.get, app.desk.groups.find):
        with pytest.raises(JobNotFound, match="no group G99"):
            call("G99")
    for act in (app.desk.retry, app.desk.resolve):
        with pytest.raises(JobNotFound, match="no group G99"):
            act("G99")
    for ask in (app.desk.runs.get, app.desk.runs.pause, app.desk.runs.resume, app.desk.runs.cancel):
        with pytest.raises(JobNotFound, match="no run R99"):
            ask("R99")


def test_what_is_known_but_has_no_such_job_is_an_empty_answer(app: Redrive, dead: str) -> None:
    assert app.desk.reopen("G1").done == []
    assert app.desk.jobs.find("G1 state:completed").jobs == []
    assert app.desk.jobs.find("-group:G99 state:completed").jobs == []
    assert app.desk.runs.start("G1").id == "R1"
    assert [job.id for job in app.desk.jobs.find("R1").jobs] == [dead]


def test_a_group_or_a_run_is_known_as_long_as_it_has_jobs_or_a_record(
    app: Redrive, dead: str, clock: ManualClock
) -> None:
    app.desk.runs.start("G1")
    app.desk.runs.cancel("R1")
    app.desk.resolve(dead)
    clock.advance(1e6)
    app.cleanup()
    assert app.desk.jobs.find("R1").jobs == [], "the run is remembered"
    assert app.desk.jobs.find("G1").jobs == [], "so is the group"
    with pytest.raises(JobNotFound, match="no group G2"):
        app.desk.retry("G2")


def test_what_operators_do_is_named_by_its_place_at_the_desk() -> None:
    app = Redrive("memory:")
    with pytest.raises(AttributeError, match=r"use app\.desk\.retry"):
        _ = app.retry  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = app.nonsense  # type: ignore[attr-defined]
