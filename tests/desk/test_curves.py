"""Growth and regressions come from what was counted: a retry erases no death."""

from __future__ import annotations

from redrive import Redrive
from redrive.desk.status import status_of
from redrive.testing import ManualClock


def test_a_retry_erases_no_death() -> None:
    clock = ManualClock()
    with Redrive("memory:", clock=clock) as app:

        @app.handler("mail", attempts=1)
        def mail(number: int) -> None:
            raise ConnectionError("refused")

        for number in range(3):
            mail.submit(number)
        app.run_due()
        desk = app.desk
        for state in ("dead", "pending"):
            assert {job.state for job in desk.jobs.find().jobs} == {state}
            assert desk.lanes.deaths(60, 2) == [0, 3]
            assert desk.groups.deaths(3600, 1, [1, 9]) == {1: [3], 9: [0]}
            assert (sum(status_of(desk).minutes), sum(status_of(desk).day)) == (3, 3)
            if state == "dead":
                desk.retry("G1")


def test_a_death_after_it_was_resolved_is_a_regression_even_once_it_is_retried() -> None:
    clock = ManualClock()
    with Redrive("memory:", clock=clock) as app:

        @app.handler("mail", attempts=1)
        def mail() -> None:
            raise ConnectionError("refused")

        mail.submit()
        app.run_due()
        app.desk.groups.mark("G1", resolved=True)
        clock.advance(5)
        app.desk.retry("G1")
        app.run_due()
        record = app.desk.groups.records([1])[1]
        assert (record.status, record.regressed, record.deaths) == ("regressed", clock.now(), 2)
        app.desk.discard("G1", reason="gone")
        assert app.desk.groups.records([1])[1].status == "regressed"
        clock.advance(5)
        assert app.desk.groups.mark("G1", resolved=True).status == "resolved"
