"""W1: the messages of a group are told apart, counted, selected and acted on alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit import make_failure
from redrive import Job, Redrive
from redrive.desk.selectors import group_place
from redrive.errors import UsageError
from redrive.testing import ManualClock
from shopkit import dead_letter, name

CARD = replace(make_failure(cause="paid"), variant_text="card expired")
BANK = replace(CARD, variant_text="bank refused")


def dead(number: int, *, card: bool) -> Job:
    failure = CARD if card else BANK
    job = dead_letter(number, failure, updated=ManualClock().now())
    return replace(job, failure=failure)


@pytest.fixture(params=["memory:", "sqlite", "jsonl"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Redrive]:
    kind = request.param
    url = kind if kind == "memory:" else f"{tmp_path}/jobs.{'db' if kind == 'sqlite' else 'jsonl'}"
    with Redrive(url, clock=ManualClock()) as opened:
        jobs = [dead(number, card=number > 1) for number in (1, 2, 3)]
        opened.store.add(jobs)
        yield opened


def ids(app: Redrive, *words: str) -> set[str]:
    return {job.id for job in app.desk.jobs.find(*words).jobs}


def test_variants_are_listed_with_their_deaths(app: Redrive) -> None:
    now = app.store.now()
    assert [tuple(one) for one in app.desk.groups.variants("G1")] == [
        (2, "card expired", 2, now),
        (1, "bank refused", 1, now),
    ]


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        (["G1.2"], {2, 3}),
        (["g1.1"], {1}),
        (["G1.1", "G1.2"], {1, 2, 3}),
        (["G1", "G1.2"], {1, 2, 3}),
        (["group:G1.2"], {2, 3}),
        (["group:G1.1,G1.2"], {1, 2, 3}),
        (["state:dead", "-G1.2"], {1}),
        (["G1.7"], set()),
        (["G1.2", "handler:mail.*"], {2, 3}),
    ],
)
def test_a_variant_is_selected(app: Redrive, words: list[str], numbers: set[int]) -> None:
    assert ids(app, *words) == {name(number) for number in numbers}
    assert sum(group.jobs for group in app.desk.groups.find(*words)) == len(numbers)


def test_a_variant_is_selected_by_the_filter(app: Redrive) -> None:
    found = app.desk.jobs.find(group="G1.2").jobs
    assert {job.id for job in found} == {name(2), name(3)}


def test_a_variant_is_retried_and_resolved_alone(app: Redrive) -> None:
    assert len(app.desk.retry("G1.2").done) == 2
    assert len(app.desk.resolve("G1.1").done) == 1
    assert ids(app, "state:pending") == {name(2), name(3)}
    assert app.desk.groups.records([1])[1].resolved is None


@pytest.mark.parametrize("text", ["G7.", "G7.123", "G.2", "7.2", "G7.2.1", "x"])
def test_what_is_no_variant_is_refused(app: Redrive, text: str) -> None:
    assert group_place(text) is None
    with pytest.raises(UsageError):
        app.desk.jobs.find(group=text)
