"""R-SYNC 5 without Google's client: what needs it says so, and no job is lost.

What the adapter does with the client is in `tests_cloudtasks`, which has an environment of its own.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from redrive import Redrive
from redrive.contrib.cloud_tasks import CloudTasks
from redrive.errors import UsageError

PLACE = {"project": "shop", "location": "asia-northeast1", "queue": "bigquery-sync-queue"}


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Redrive]:
    monkeypatch.setenv("SYNC_SECRET", "whsec_" + "A" * 44)
    with Redrive("memory:") as made:
        yield made


def tasks_of(app: Redrive, callback: str = "https://shop.example.org/") -> CloudTasks:
    return CloudTasks(app, callback=callback, secret_env="SYNC_SECRET", **PLACE)


def test_the_module_loads_without_the_client() -> None:
    words = "import sys, redrive.contrib.cloud_tasks; sys.exit(any(n.startswith('google') for n in sys.modules))"
    assert subprocess.run([sys.executable, "-c", words], check=False, timeout=60).returncode == 0


def test_what_needs_the_client_says_how_to_get_it(app: Redrive) -> None:
    with pytest.raises(UsageError, match=r"pip install 'redrive\[cloudtasks\]'"):
        tasks_of(app).create_queue()


def test_a_job_is_stored_though_no_task_can_be_made(
    app: Redrive, caplog: pytest.LogCaptureFixture
) -> None:
    @app.handler("note")
    def note(number: int) -> None: ...

    tasks = tasks_of(app)
    job = note.submit(1)
    assert f"no task for job {job.id}; `tend` will create it: " in caplog.text
    assert tasks.tend().succeeded == 1


def test_a_callback_is_a_url(app: Redrive) -> None:
    with pytest.raises(UsageError, match="callback must be the URL"):
        tasks_of(app, "shop.example.org/redrive")


def test_a_task_is_refused_without_a_secret(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SYNC_SECRET", "hunter2")
    headers = {"X-CloudTasks-TaskName": "t", "X-CloudTasks-QueueName": PLACE["queue"]}
    assert tasks_of(app).handle({**headers, "Webhook-Id": "t"}, b"{}") == 500
    assert "SYNC_SECRET must be set, to whsec_" in caplog.text
    assert "hunter2" not in caplog.text
