"""R-SYNC 3, A5: Cloud Monitoring counts what `sync.py --serve` logs of a dead letter."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from logfilterkit import Filter, entry_of, extracted, value_of
from redrive.delivery import signing
from workkit import free_port, until

ROOT = Path(__file__).parents[2]
METRIC = json.loads((ROOT / "ops" / "google" / "log-metric.json").read_text("utf-8"))
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
WAREHOUSE = """
class Refused(Exception):
    status = 403

class Client:
    def insert_rows_json(self, table, rows, **options):
        if rows[0]["sessionId"] == "s-refused":
            raise Refused("no rights on " + table)
        return []
"""


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def service(tmp_path: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """The example as it runs on Cloud Run; the warehouse refuses one session."""
    package = tmp_path / "google" / "cloud"
    package.mkdir(parents=True)
    (package / "bigquery.py").write_text(WAREHOUSE, "utf-8")
    names = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(tmp_path),
        "SYNC_STORE": str(tmp_path / "sync.db"),
        "SYNC_PROJECT": "shop",
        "SYNC_CALLBACK": "https://sync.example.org/",
        "SYNC_SECRET": SECRET,
    }
    running = subprocess.Popen(
        [sys.executable, str(ROOT / "examples" / "sync.py"), "--serve", str(port)],
        env=names,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield running
    running.kill()
    running.communicate()


def call(port: int, job: str) -> int:
    """Call back as Cloud Tasks does."""
    body, name = json.dumps({"job": job}).encode(), f"task-{job}"
    headers = {
        "X-CloudTasks-TaskName": name,
        "X-CloudTasks-QueueName": "bigquery-sync-queue",
        **signing.sign(name, body, [SECRET], 0.0),
    }
    request = urllib.request.Request(f"http://127.0.0.1:{port}/", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def test_the_metric_counts_the_dead_letters_that_the_service_logs(
    service: subprocess.Popen[str],
    port: int,
    tmp_path: Path,
    load_example: Callable[[str], ModuleType],
) -> None:
    module = load_example("sync")
    app, sync = module.connect(str(tmp_path / "sync.db"), alerts=None)
    with app:
        task: dict[str, Any] = {"userId": "u-1", "tableName": "events", "retryCount": 0}
        jobs = [sync.submit(sessionId=one, **task) for one in ("s-1", "s-refused")]
        until(lambda: answers(port))
        statuses = [call(port, job.id) for job in jobs]
        states = [app.get(job.id).state for job in jobs]
    service.terminate()
    _, logged = service.communicate(timeout=30)
    assert statuses == [200, 200], logged
    assert states == ["completed", "dead"]
    entries = [entry_of(line) for line in logged.splitlines()]
    assert all("jsonPayload" in entry for entry in entries), logged
    counted = [entry for entry in entries if Filter(METRIC["filter"])(entry)]
    assert [value_of(entry, "jsonPayload.job") for entry in counted] == [jobs[1].id]
    assert extracted(METRIC, counted[0]) == {"lane": "bigquery.sync", "reason": "permanent"}
    assert len(entries) > len(counted), "nothing else was logged that the filter had to leave out"
