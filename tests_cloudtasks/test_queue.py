"""R-SYNC 5: jobs that wait are called for by a queue, by the real client against the emulator."""

import json
import logging

import pytest
from queuekit import PLACE, QUEUE, call_of, is_empty, job_of, task, until

from alertkit import slack_like
from redrive import State
from redrive.alerts import webhook
from redrive.testing import ManualClock

DOUBLING = [1, 2, 4, 8, 16, 32, 64, 128, 256]


@pytest.fixture
def paused(google):
    """The queue, made before and paused: tasks stay in it."""
    google.create_queue(parent=PLACE, queue={"name": QUEUE})
    google.pause_queue(name=QUEUE)


def said(caplog):
    return [one.getMessage() for one in caplog.records if "enqueued" in one.getMessage()]


def test_the_queue_is_made_when_it_is_missing(user, caplog):
    caplog.set_level(logging.INFO, "redrive")
    with user.running() as (_, handler, _):
        handler.submit(**task())
        until(lambda: user.warehouse.rows)
        handler.submit(**task())
        until(lambda: len(user.warehouse.rows) == 2)
    (queue,) = user.google.list_queues(parent=PLACE)
    assert queue.name == QUEUE
    assert queue.retry_config.max_attempts == -1
    assert queue.retry_config.max_backoff.total_seconds() == 300
    lines = [one.getMessage() for one in caplog.records]
    assert lines.count(f"queue bigquery-sync-queue created in {PLACE}") == 1


def test_a_task_posts_to_the_callback_at_the_time_the_job_is_due(user, paused, caplog):
    caplog.set_level(logging.INFO, "redrive")
    with user.running() as (_, handler, tasks):
        job = handler.options(delay="90s").submit(**task("s-1"))
        (made,) = user.google.list_tasks(parent=QUEUE)
        assert abs(made.schedule_time.timestamp() - job.due) < 0.001
        request = made.http_request
        assert (request.http_method.name, request.url) == ("POST", tasks.callback)
        assert json.loads(request.body) == {"job": job.id, "attempt": 1}
        assert "s-1" not in str(made), "what is in the job stays in the store"
    assert said(caplog) == ["Task enqueued. Delay: 90s"]


def test_ten_attempts_at_their_times_then_a_dead_letter_and_people_are_told(
    user, caplog, monkeypatch, sync
):
    """Our clock stands: the queue calls too early, again and again, and nothing runs before its time."""
    caplog.set_level(logging.INFO, "redrive")
    clock = ManualClock()
    user.warehouse.fails = True
    with slack_like() as there:
        monkeypatch.setenv("SLACK_URL", there.url)
        alerts = sync.alerts(webhook(url_env="SLACK_URL", allow=there.allow))
        with user.running(clock=clock, alerts=alerts) as (app, handler, _):
            job = handler.submit(**task("s-9"))
            for number, wait in enumerate(DOUBLING, 1):
                until(
                    lambda n=number: (j := app.get(job.id)).attempts == n and j.state == "pending"
                )
                assert len(user.warehouse.calls) == number
                clock.advance(wait)
            dead = until(lambda: (j := app.get(job.id)).state is State.DEAD and j)
            until(lambda: there.bodies)
            until(lambda: is_empty(user.google))
    assert (dead.attempts, len(user.warehouse.calls)) == (10, 10)
    retries = [f"Retry task enqueued. Attempt: {n}, Delay: {d}s" for n, d in enumerate(DOUBLING, 1)]
    assert said(caplog) == ["Task enqueued. Delay: 0s", *retries]
    assert there.titles == ["[DEAD] BigQuery同期が10回失敗しました: session=s-9"]


def test_by_real_clocks_it_is_called_when_it_is_due_and_not_before(user):
    user.warehouse.fails = True
    with user.running() as (app, handler, _):
        job = handler.submit(**task())
        until(lambda: (j := app.get(job.id)).attempts == 2 and j.state == "pending")
        user.warehouse.fails = False
        done = until(lambda: (j := app.get(job.id)).state is State.COMPLETED and j)
    first, second, third = user.warehouse.calls
    assert done.attempts == 3
    assert 0.99 <= second - first <= 10
    assert 1.99 <= third - second <= 10


def test_what_fails_in_place_is_called_for(user, paused, caplog):
    """The other way in: a first try here and now."""
    caplog.set_level(logging.INFO, "redrive")
    user.warehouse.fails = True
    with user.running() as (_, handler, _):
        tried = handler.try_now(**task())
        (made,) = user.google.list_tasks(parent=QUEUE)
    assert job_of(made) == tried.job.id
    assert said(caplog) == ["Retry task enqueued. Attempt: 1, Delay: 1s"]


def test_a_dead_letter_that_people_run_again_is_called_for(user):
    user.warehouse.fails = True
    with user.running(rand=lambda: 0.5) as (app, handler, _):
        jobs = [handler.options(attempts=1).submit(**task()) for _ in range(3)]
        until(lambda: all(app.get(job.id).state is State.DEAD for job in jobs))
        user.warehouse.fails = False
        app.desk.retry(jobs[0].id)
        until(lambda: app.get(jobs[0].id).state is State.COMPLETED)
        app.desk.retry("G1")
        until(lambda: all(app.get(job.id).state is State.COMPLETED for job in jobs))


def test_a_pause_is_obeyed_and_the_task_stays_until_it_is_over(user):
    with user.running() as (app, handler, _):
        app.desk.lanes.pause("bigquery.sync", reason="migration")
        job = handler.submit(**task())
        until(lambda: any(t.dispatch_count > 1 for t in user.google.list_tasks(parent=QUEUE)))
        assert user.warehouse.calls == []
        app.desk.lanes.resume("bigquery.sync")
        until(lambda: app.get(job.id).state is State.COMPLETED)
        assert app.get(job.id).attempts == 1


def test_what_is_due_in_months_waits_for_its_task(user, paused):
    with user.running() as (_, handler, _):
        handler.options(delay="60d").submit(**task())
        assert list(user.google.list_tasks(parent=QUEUE)) == []


def test_the_account_for_cloud_run_goes_into_the_task(user, paused, sync):
    with user.running() as (_, handler, tasks):
        tasks._account = "caller@shop.example.org"
        handler.submit(**task())
        (made,) = user.google.list_tasks(parent=QUEUE)
    assert made.http_request.oidc_token.service_account_email == "caller@shop.example.org"
    assert call_of(made)[0]["Webhook-Id"] == made.name.rpartition("/")[2]
