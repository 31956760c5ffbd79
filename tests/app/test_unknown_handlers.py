"""A process takes only the jobs it knows how to run, and loses none of the others."""

from __future__ import annotations

from datetime import date

import pytest

from kit import make_job
from redrive import Policy, Redrive, State, constant
from redrive.jobs.ids import new_id
from redrive.testing import ManualClock


def stored(app: Redrive, name: str, payload: str = "{}") -> str:
    """A job that another program submitted; gives its id."""
    (job,) = app.store.add([make_job(new_id(), handler=name, payload=payload)])
    return job.id


def test_a_job_of_an_unknown_handler_waits_unspent_for_a_program_that_knows_it(
    app: Redrive, clock: ManualClock
) -> None:
    """Neither dropped nor tried; any other job goes on."""
    ran: list[str] = []
    app.handler("known")(lambda: ran.append("known")).submit()
    job_id = stored(app, "other")
    for _ in range(3):
        app.run_due(ignore_backoff=True)
        clock.advance(3600)
    kept = app.get(job_id)
    assert (kept.state, kept.attempts, kept.history) == (State.PENDING, 0, ())
    assert ran == ["known"]
    app.handler("other")(lambda: ran.append("other"))
    assert app.run_due().succeeded == 1
    assert ran == ["known", "other"]


def test_a_pass_does_not_warn_of_redrives_own_jobs(
    app: Redrive, caplog: pytest.LogCaptureFixture
) -> None:
    """Another thread has just submitted an alert, and is about to send it."""
    stored(app, "redrive.alert")
    stored(app, "nobody.knows")
    app.run_due()
    warned = [record.getMessage() for record in caplog.records if "no such handler" in record.msg]
    assert warned == ["jobs are due for nobody.knows, but this program has no such handler"]


def test_a_job_under_a_former_name_is_run_by_its_handler(app: Redrive) -> None:
    """A renamed handler leaves no job behind."""
    ran: list[str] = []
    app.handler("new", formerly="old")(lambda: ran.append("new"))
    job_id = stored(app, "old")
    assert app.run_due().succeeded == 1
    assert app.get(job_id).state is State.COMPLETED
    assert ran == ["new"]


def test_arguments_that_do_not_fit_can_be_mended(app: Redrive) -> None:
    """They may be of another release, so they are tried again; edited, they run."""
    ran: list[str] = []

    @app.handler("mail")
    def mail(to: str, at: date | None = None) -> None:
        ran.append(to)

    payloads = ('{"old":1}', "{}", '{"to":"ada","more":1}', '{"to":"ada","at":"yesterday"}')
    ids = [stored(app, "mail", payload) for payload in payloads]
    assert app.run_due().failed == len(ids)
    for job_id in ids:
        failure = app.get(job_id).failure
        assert failure is not None
        assert failure.category == "unknown"
        app.desk.edit(job_id, '{"to":"ada"}')
        app.desk.retry(job_id)
    assert ran == []
    assert app.run_due().succeeded == len(ids)


def test_an_import_that_fails_inside_a_handler_leaves_its_jobs_to_the_next_deployment(
    app: Redrive, clock: ManualClock
) -> None:
    """The next deployment may have the module; until then nothing is spent."""

    @app.handler("report", policy=Policy(attempts=3, wait=constant(60, jitter="none")))
    def report() -> None:
        import not_there_at_all  # type: ignore[import-not-found]  # noqa: F401, PLC0415

    job = report.submit()
    assert app.run_due().returned == 1
    kept = app.get(job.id)
    assert (kept.state, kept.due, kept.attempts) == (State.PENDING, job.due, 0)
    deployed = Redrive(app.store, clock=clock)
    deployed.handler("report")(lambda: None)
    assert deployed.run_due().succeeded == 1
