"""R-SYNC 1 with BigQuery's own client: what it makes of each answer, and what becomes of the task."""

import importlib.util
from pathlib import Path

import pytest
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from loopback import Answer, web

from redrive.testing import ManualClock

EXAMPLE = Path(__file__).resolve().parents[1] / "examples/sync.py"


@pytest.fixture
def sync():
    spec = importlib.util.spec_from_file_location("example_sync", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ended(sync, monkeypatch, answer):
    """Register a task, let its time pass, and give the job at its end."""
    clock = ManualClock()
    app, handler = sync.connect("memory:", clock=clock, alerts=None)
    with web(answer) as url, app:
        client = bigquery.Client(
            project="p", credentials=AnonymousCredentials(), client_options={"api_endpoint": url}
        )
        monkeypatch.setattr(sync, "warehouse", lambda: client)
        job = handler.submit(userId="u", sessionId="s-1", tableName="events", retryCount=0)
        while not (now := app.get(job.id)).is_terminal:
            clock.advance(max(0.0, now.due - clock.now()))
            app.run_due()
        return now


def refusal(status, reason):
    said = {"error": {"code": status, "message": "no", "errors": [{"reason": reason}]}}
    return Answer(status, said)


def rejected(reason):
    said = {"insertErrors": [{"index": 0, "errors": [{"reason": reason, "message": "no"}]}]}
    return Answer(200, said)


@pytest.mark.parametrize(
    ("answer", "attempts", "reason"),
    [
        (refusal(503, "backendError"), 10, "exhausted"),
        (refusal(429, "rateLimitExceeded"), 4, "exhausted"),
        (refusal(403, "rateLimitExceeded"), 4, "exhausted"),
        (refusal(401, "authError"), 1, "permanent"),
        (refusal(403, "accessDenied"), 1, "permanent"),
        (refusal(400, "invalid"), 1, "permanent"),
        (rejected("invalid"), 1, "permanent"),
        (rejected("backendError"), 10, "exhausted"),
    ],
    ids=str,
)
def test_what_the_warehouse_says_decides(sync, monkeypatch, answer, attempts, reason):
    job = ended(sync, monkeypatch, answer)
    assert (job.state, job.attempts, job.reason) == ("dead", attempts, reason), job.failure


def test_what_it_takes_is_done(sync, monkeypatch):
    job = ended(sync, monkeypatch, Answer(200, {}))
    assert (job.state, job.attempts) == ("completed", 1)
