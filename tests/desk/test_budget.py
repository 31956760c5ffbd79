"""Lists by tag or text end in time, say how far they looked, and go on; actions see everything."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from kit import make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.cli._cli import Cli
from redrive.cli._root import root
from redrive.desk import search
from redrive.jobs.job import Job
from stores.contract.kinds import KINDS, Kind, Place

MANY = 1100
"""More than any store looks at before it looks at the clock."""
OLDEST = [f"job{n:05d}" for n in (33, 22, 11, 0)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind: Kind = request.param
    made = Place(kind, tmp_path)
    yield made
    made.remove()


@pytest.fixture
def app(place: Place, monkeypatch: pytest.MonkeyPatch) -> Redrive:
    monkeypatch.setattr(search, "BUDGET", 0.0)
    monkeypatch.setattr("redrive.stores.postgres.search._AT_ONCE", 250)
    app = Redrive(place.open(), clock=place.clock)
    app.store.add([job(n) for n in range(MANY)])
    return app


def job(number: int) -> Job:
    """A dead job of one of two groups; the oldest few have the tag and the word."""
    rare = number <= 33 and number % 11 == 0
    return make_job(
        f"job{number:05d}",
        state=State.DEAD,
        reason=Reason.EXHAUSTED,
        finished=1.0,
        updated=float(number),
        failure=make_failure(cause=str(number % 2)),
        tags=("vip",) if rare else (),
        payload='{"word":"needle"}' if rare else "{}",
    )


def test_a_list_by_words_ends_in_time_says_how_far_and_goes_on(app: Redrive) -> None:
    texts = ["tag:vip", '"needle"', "G1 G2 tag:vip", '"needle" handler:mail -tag:x']
    for words, reveal, by_change in product(texts, [False, True], [False, True]):
        check_pages(app, words, reveal=reveal, by_change=by_change)


def check_pages(app: Redrive, words: str, *, reveal: bool, by_change: bool) -> None:
    pages = [app.desk.jobs.find(words, reveal=reveal, by_change=by_change, limit=3)]
    scope = pages[0].scope
    assert (pages[0].jobs, scope is not None and 0 < scope.looked < scope.of) == ([], True)
    while (cursor := pages[-1].cursor) is not None:
        more = {"cursor": cursor, "reveal": reveal, "by_change": by_change}
        pages.append(app.desk.jobs.find(words, limit=3, **more))  # type: ignore[arg-type]
        assert len(pages) < MANY
    assert [found.id for page in pages for found in page.jobs] == OLDEST
    assert all(len(page.jobs) <= 3 for page in pages)


def test_a_list_ends_in_time_also_where_every_job_has_the_words_behind_a_mask(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its cursor and scope are those of words that no job has."""
    app.store.add([make_job(f"z{n:05d}", payload='{"password":"zebra"}') for n in range(MANY)])
    masked = app.desk.jobs.find('"zebra"', limit=1)
    assert (masked.jobs, masked.cursor is None) == ([], False)
    absent = app.desk.jobs.find('"nobody has this"', limit=1)
    assert (masked.cursor, masked.scope) == (absent.cursor, absent.scope)
    monkeypatch.setattr(search, "BUDGET", 60.0)
    assert app.desk.jobs.find('"zebra"', limit=1)[:2] == ([], None)


def test_an_action_sees_all_jobs(app: Redrive) -> None:
    for words in ("tag:vip", '"needle"', "G1 G2 tag:vip"):
        assert app.desk.plan("retry", words).ids == OLDEST
    assert list(app.desk.jobs.ids("tag:vip")) == OLDEST
    assert sum(group.jobs for group in app.desk.groups.find('"needle"')) == len(OLDEST)


def test_the_command_line_says_how_far_it_looked_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "BUDGET", 0.0)
    url = f"sqlite:{tmp_path}/jobs.db"
    with Redrive(url) as app:
        app.store.add([job(n) for n in range(MANY)])
    shown = CliRunner().invoke(root, ["list", "tag:vip", "--store", url], obj=Cli())
    assert shown.exit_code == 0
    assert f"newest of {MANY:,}" in shown.stderr
    assert "add --cursor i" in shown.stderr
