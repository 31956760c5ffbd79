"""R-SYNC 5: who may call, what is answered, and why attempts never multiply."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from queuekit import PLACE, QUEUE, call_of, client_of, emulator, free_port, is_empty, task, until

from redrive import Redrive, State
from redrive.delivery import signing

CHILD = """
import logging, os, sys, time
sys.path += sys.argv[2:4]
import sync
from queuekit import client_of

def insert(table, row, key):
    with open("calls.txt", "a") as file:
        file.write("call\\n")
    if os.path.exists("hang"):
        time.sleep(60)

app, handler = sync.connect("sync.db", insert, alerts=None, lease=2)
with client_of(sys.argv[1]) as google:
    tasks = sync.scheduler(app, google)
    sync.server(tasks, int(tasks.callback.rpartition(":")[2].strip("/"))).serve_forever()
"""


@pytest.fixture
def held(google):
    """The queue, paused: the test makes the calls itself."""
    google.create_queue(parent=PLACE, queue={"name": QUEUE})
    google.pause_queue(name=QUEUE)


@pytest.fixture
def called(user, held):
    """An adapter with one job that is due, and the call for it."""
    with user.running() as (app, handler, tasks):
        job = handler.submit(**task())
        (made,) = user.google.list_tasks(parent=QUEUE)
        yield app, job, tasks, *call_of(made)


def test_a_call_is_answered_once_it_is_settled_and_repeats_change_nothing(user, called):
    app, job, tasks, headers, body = called
    assert [tasks.handle(headers, body) for _ in range(3)] == [200, 200, 200]
    assert (app.get(job.id).state, app.get(job.id).attempts) == ("completed", 1)
    assert len(user.warehouse.calls) == 1


def test_names_of_headers_are_read_in_any_case(called):
    app, job, tasks, headers, body = called
    lower = {name.lower(): value for name, value in headers.items()}
    assert tasks.handle(lower, body) == 200
    assert app.get(job.id).state is State.COMPLETED


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"X-CloudTasks-TaskName": ""}, 403),
        ({"X-CloudTasks-QueueName": ""}, 403),
        ({"X-CloudTasks-QueueName": "other-queue"}, 403),
        ({"X-CloudTasks-TaskName": "another"}, 401),
        ({"Webhook-Id": "another", "X-CloudTasks-TaskName": "another"}, 401),
        ({"Webhook-Signature": ""}, 401),
        ({"Webhook-Signature": "v1,AAAA"}, 401),
        ({"Webhook-Timestamp": "1"}, 401),
        ({"Authorization": "Bearer x", "Webhook-Signature": "x"}, 401),
    ],
    ids=str,
)
def test_whoever_is_not_the_queue_runs_nothing(user, called, change, status):
    app, job, tasks, headers, body = called
    assert tasks.handle({**headers, **change}, body) == status
    assert tasks.handle(headers, body + b" ") == 401
    assert (app.get(job.id).attempts, user.warehouse.calls) == (0, [])


def test_the_signature_of_one_task_is_worth_nothing_for_another_job(user, held):
    with user.running() as (_, handler, tasks):
        for _ in range(2):
            handler.submit(**task())
        (mine, body), (_, other) = map(call_of, user.google.list_tasks(parent=QUEUE))
        assert tasks.handle(mine, other) == 401
        assert tasks.handle(mine, body) == 200


def test_without_the_secret_nobody_may_call(called, monkeypatch):
    app, job, tasks, headers, body = called
    monkeypatch.delenv("SYNC_SECRET")
    assert tasks.handle(headers, body) == 500
    assert app.get(job.id).attempts == 0


def test_while_a_secret_is_replaced_both_are_good(called, monkeypatch):
    _, _, tasks, headers, body = called
    monkeypatch.setenv("SYNC_NEXT", "whsec_" + "A" * 44)
    tasks._secret_env = ("SYNC_NEXT", "SYNC_SECRET")
    assert tasks.handle(headers, body) == 200
    new = signing.sign(headers["Webhook-Id"], body, ["whsec_" + "A" * 44], time.time())
    assert tasks.handle({**headers, **new}, body) == 200


def test_eight_calls_at_the_same_time_are_one_attempt(user, called):
    app, job, tasks, headers, body = called
    user.warehouse.slow = 0.3
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: tasks.handle(headers, body), range(8)))
    assert len(user.warehouse.calls) == 1
    assert answers.count(200) >= 1
    assert set(answers) <= {200, 409}, "409: not settled yet, call again"
    assert (app.get(job.id).state, app.get(job.id).attempts) == ("completed", 1)


def test_a_failed_attempt_called_for_again_waits_for_its_own_task(user, called):
    """The old task comes again before the new one: the wait is kept, and one task is enough."""
    app, job, tasks, headers, body = called
    user.warehouse.fails = True
    assert [tasks.handle(headers, body) for _ in range(5)] == [200] * 5
    assert (app.get(job.id).state, app.get(job.id).attempts) == ("pending", 1)
    assert len(list(user.google.list_tasks(parent=QUEUE))) == 2


def test_each_wait_costs_one_call_of_google(user, called, monkeypatch):
    """The news of the failed attempt makes the task; the answer need not ask again."""
    _, _, tasks, headers, body = called
    asked, create = [], user.google.create_task
    monkeypatch.setattr(user.google, "create_task", lambda **a: asked.append(a) or create(**a))
    user.warehouse.fails = True
    assert [tasks.handle(headers, body) for _ in range(3)] == [200] * 3
    tasks.tend()
    assert len(asked) == 1


def test_another_process_finds_the_task_there_and_says_nothing(user, called, caplog):
    app, job, tasks, headers, body = called
    caplog.set_level("INFO", "redrive")
    user.warehouse.fails = True
    assert tasks.handle(headers, body) == 200
    with user.running() as (_, _, others):
        others.create_queue()
        assert others.handle(headers, body) == 200
    assert len(list(user.google.list_tasks(parent=QUEUE))) == 2
    assert caplog.text.count("Retry task enqueued. Attempt: 1, Delay: 1s") == 1
    assert "created in" not in caplog.text
    assert app.get(job.id).attempts == 1


def test_a_job_that_is_gone_or_closed_needs_no_call(user, held):
    with user.running() as (app, handler, tasks):
        job = handler.submit(**task())
        (made,) = user.google.list_tasks(parent=QUEUE)
        app.desk.discard(job.id, reason="a test")
        assert tasks.handle(*call_of(made)) == 200
        assert user.warehouse.calls == []
    Path("sync.db").unlink()
    with user.running() as (_, _, tasks):
        assert tasks.handle(*call_of(made)) == 200


def test_when_google_does_not_answer_nothing_is_lost_and_nothing_counted_twice(user, held, caplog):
    user.warehouse.fails = True
    nobody = f"127.0.0.1:{free_port()}"
    with client_of(nobody) as down, user.running() as (app, handler, tasks):
        job = handler.submit(**task())
        (made,) = user.google.list_tasks(parent=QUEUE)
        tasks._google = down
        assert tasks.handle(*call_of(made)) == 500, "settled, but its next wait has no task"
        assert app.get(job.id).attempts == 1
        other = handler.submit(**task())
        assert f"no task for job {other.id}" in caplog.text
        tasks._google = user.google
        assert tasks.handle(*call_of(made)) == 200
        assert app.get(job.id).attempts == 1
        assert len(list(user.google.list_tasks(parent=QUEUE))) == 2
        tasks.tend()
        assert app.get(other.id).attempts == 1, "it was due"


def test_tend_makes_tasks_for_what_others_stored(user):
    """The command line knows nothing of the queue."""
    with user.running() as (app, handler, tasks), Redrive("sync.db") as elsewhere:
        handler.submit(**task("s-1"))
        tasks.close()
        twin = user.sync.connect("sync.db", alerts=None)[1]
        later = twin.options(delay=1).submit(**task("s-2"))
        far = twin.options(delay="3h").submit(**task("s-3"))
        tasks.tend()
        until(lambda: app.get(later.id).state is State.COMPLETED)
        assert elsewhere.get(far.id).attempts == 0
        assert is_empty(user.google)
        twin.submitter.close()


def test_a_callback_that_is_killed_costs_one_attempt(sync, tmp_path, monkeypatch):
    """F: kill -9 in the middle of a handler; the queue calls again, and the lease decides when."""
    port = free_port()
    monkeypatch.setenv("SYNC_CALLBACK", f"http://127.0.0.1:{port}/")
    (tmp_path / "child.py").write_text(CHILD, "utf-8")
    (tmp_path / "hang").touch()
    calls = tmp_path / "calls.txt"
    with emulator() as address, client_of(address) as google:
        app, handler = sync.connect("sync.db", alerts=None)
        child = started(address)
        try:
            tasks = sync.scheduler(app, google)
            job = handler.submit(**task())
            until(calls.exists)
            child.send_signal(signal.SIGKILL)
            child.wait()
            (tmp_path / "hang").unlink()
            child = started(address)
            done = until(lambda: (j := app.get(job.id)).state is State.COMPLETED and j, 30)
            until(lambda: is_empty(google))
        finally:
            child.kill()
            child.wait()
            tasks.close()
            app.close()
    assert calls.read_text("utf-8") == "call\n" * 2
    assert (done.attempts, dict(done.spent)) == (2, {"crash": 1})


def started(address):
    here = Path(__file__).resolve().parent
    words = ["child.py", address, str(here), str(here.parent / "examples")]
    return subprocess.Popen([sys.executable, "-W", "ignore", *words])


def test_many_jobs_run_once_each(user):
    """Twenty jobs, half of which fail once, called for by several threads."""
    seen, lock = set(), threading.Lock()

    def insert(table, row, key):
        with lock:
            first = key not in seen
            seen.add(key)
            user.warehouse.calls.append(key)
        if first and int(row["sessionId"]) % 2:
            raise ConnectionError("the warehouse is down")

    user.warehouse.insert = insert
    with user.running() as (app, handler, _):
        jobs = [handler.submit(**task(str(number))) for number in range(20)]
        until(lambda: all(app.get(job.id).state is State.COMPLETED for job in jobs), 40)
        until(lambda: is_empty(user.google))
        attempts = [app.get(job.id).attempts for job in jobs]
    assert attempts == [1, 2] * 10
    assert len(user.warehouse.calls) == 30
