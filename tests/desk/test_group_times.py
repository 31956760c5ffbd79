"""W1: what is shown of a group's times and releases comes from its record, not from who is dead now."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from redrive import Handler, Redrive
from redrive.alerts.conditions import look
from redrive.alerts.rules import Rules, World
from redrive.cli.groups import _view
from redrive.cli.output import terminal
from redrive.desk.documents import seen_document, shared_document, with_trends
from redrive.desk.shared_facts import shared_facts
from redrive.desk.status import status_of
from redrive.jobs.clock import iso
from redrive.testing import ManualClock
from shopkit import dead_letter


def failing(app: Redrive) -> Handler[..., None]:
    """Register a handler that times out at first, where it is asked to, and is refused after that."""
    tries: list[int] = []

    @app.handler("mail", attempts=2)
    def mail(*, slow: bool = False) -> None:
        tries.append(1)
        if slow and len(tries) == 1:
            raise TimeoutError("slow")
        raise ConnectionError("refused")

    return mail


def seen_by_alerts(app: Redrive) -> World:
    return look(app.desk, {}, Rules())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def test_a_group_is_first_seen_when_its_own_first_failure_was_stored(clock: ManualClock) -> None:
    """Not when its jobs failed for the first time, of whatever cause."""
    with Redrive("memory:", clock=clock) as app:
        failing(app).submit(slow=True)
        app.run_due()
        clock.advance(300)
        app.run_due()
        (dead,) = app.desk.groups.find()
        assert (dead.number, dead.first_seen, dead.last_seen) == (2, clock.now(), clock.now())


def test_what_people_do_moves_no_time_of_a_group(clock: ManualClock) -> None:
    with Redrive("memory:", clock=clock) as app:
        job = failing(app).submit()
        app.run_due()
        began = clock.now()
        clock.advance(300)
        app.run_due()
        died = clock.now()
        clock.advance(600)
        app.desk.edit(job.id, '{"slow": true}')
        clock.advance(600)
        app.desk.resolve("G1")
        clock.advance(600)
        app.desk.reopen("G1")
        (row,) = with_trends(app.desk, app.desk.groups.find())
        shown = seen_document(row)
        assert (shown["first_seen"], shown["last_seen"]) == (iso(began), iso(died))
        assert (shown["since"], shown["deaths"]) == (iso(died), 1)
        (alert,) = seen_by_alerts(app).groups
        record = alert.record
        assert (record.since, record.first_seen, record.last_seen) == (died, began, died)


def test_reopening_is_no_growth_for_checks_alerts_and_curves(clock: ManualClock) -> None:
    with Redrive("memory:", clock=clock) as app:
        app.store.add([dead_letter(n, updated=clock.now()) for n in range(1, 31)])
        clock.advance(3600)
        app.desk.resolve("G1")
        app.desk.reopen("G1")
        assert sum(app.desk.lanes.deaths(60, 10)) == 0
        assert sum(app.desk.groups.deaths(60, 10, [1])[1]) == 0
        world = seen_by_alerts(app)
        assert (world.groups[0].jobs, world.recent) == (30, {1: 0})
        assert status_of(app.desk).verdict().level == "DEGRADED"


def test_since_is_the_start_of_the_present_incident(clock: ManualClock) -> None:
    with Redrive("memory:", clock=clock, release="1.8.1") as app:
        app.store.add([dead_letter(1, updated=clock.now(), release="1.8.0")])
        first = clock.now()
        app.desk.resolve("G1")
        app.desk.groups.mark("G1", resolved=True)
        clock.advance(3600)
        app.store.add([dead_letter(2, updated=clock.now(), release="1.8.2")])
        (row,) = with_trends(app.desk, app.desk.groups.find())
        shown = seen_document(row)
        assert (shown["first_seen"], shown["since"]) == (iso(first), iso(clock.now()))
        assert (shown["first_release"], shown["last_release"]) == ("1.8.0", "1.8.2")
        assert (shown["regressed"], shown["deaths"]) == (iso(clock.now()), 2)
        assert seen_by_alerts(app).groups[0].record.since == clock.now()


def test_a_clock_that_was_set_back_makes_no_time_in_the_future(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with Redrive("memory:", clock=clock) as app:
        app.store.add([dead_letter(1, updated=clock.now())])
        app.store.fold()
        clock.jump(-7200)
        (row,) = with_trends(app.desk, app.desk.groups.find())
        shown = seen_document(row)
        facts = shared_document(shared_facts(app.desk, row.group), row.now, newest=1)
        times = {shown["first_seen"], shown["last_seen"], shown["since"]}
        assert {*times, facts["messages"][0]["last_seen"]} == {iso(clock.now())}
        screen = io.StringIO()
        terminal.render(_view(app.desk, row.group), screen)
        assert " died " in screen.getvalue()
        assert " in 2h" not in screen.getvalue()


def test_release_selects_by_the_release_that_failed(clock: ManualClock, tmp_path: Path) -> None:
    url = f"{tmp_path}/jobs.db"
    with Redrive(url, clock=clock, release="1.8.1") as app:
        job = failing(app).submit()
    with Redrive(url, clock=clock, release="1.8.2") as app:
        failing(app)
        app.run_due()
        (found,) = app.desk.jobs.find("release:1.8.2").jobs
        assert (found.id, found.failed_release, found.release) == (job.id, "1.8.2", "1.8.1")
        assert app.desk.jobs.find("release:1.8.2,x").jobs == [found]
        assert app.desk.jobs.find("submitted-release:1.8.1").jobs == [found]
        assert not app.desk.jobs.find("release:1.8.1").jobs
        assert not app.desk.jobs.find("submitted-release:1.8.2").jobs


def test_a_job_of_which_no_failed_release_is_known_counts_by_its_own(clock: ManualClock) -> None:
    with Redrive("memory:", clock=clock) as app:
        app.store.add([dead_letter(1, release="1.7")])
        assert len(app.desk.jobs.find("release:1.7").jobs) == 1
