"""Health says whether the store answers; a full dead-letter queue is nobody's ill health."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.errors import StoreLost
from redrive.web import health
from shopkit import dead_letter, name
from webkit import READ, Web


def broken(*_: object, **__: object) -> Any:
    msg = "the file is gone"
    raise StoreLost(msg)


def test_without_a_token_it_says_only_that_it_is_up_however_many_are_dead(web: Web) -> None:
    web.app.store.add([dead_letter(number) for number in range(10, 2010)])
    for path in ("/api/v1/health", "/healthz", "/readyz"):
        assert web.get(path, token=None) == {"status": "ok"}


def test_with_a_token_it_says_how_things_stand(web: Web) -> None:
    web.app.desk.lanes.pause("mail.send", actor="ada")
    note = {"host": "w1", "pid": 7, "version": "1", "since": 0.0, "lanes": ["pay.charge"]}
    web.app.store.note("worker:x", json.dumps(note), expires_in=30)
    found = web.get("/api/v1/health", token=READ)
    assert found["counts"] == {
        "pending": 2, "running": 0, "completed": 1, "dead": 4, "resolved": 0,
    }  # fmt: skip
    assert found["oldest_due_seconds"] == 86_400
    assert found["oldest_dead_seconds"] == 86_340
    assert found["durability"] == "full"
    assert found["store"].startswith("sqlite:")
    (worker,) = found["workers"]
    assert (worker["host"], worker["pid"], worker["lanes"]) == ("w1", 7, ["pay.charge"])
    assert (found["unserved"], found["last_pass"]) == ([], None)
    assert [pause["lane"] for pause in found["pauses"]] == ["mail.send"]


def test_it_says_who_hangs_and_why_a_lane_is_not_served(web: Web) -> None:
    missing = {"pay.charge": ["pay.charge", "No module named 'stripe'"]}
    note = {"host": "w1", "pid": 7, "since": 0.0, "lanes": [], "lasts": 30.0, "missing": missing}
    note["blocked"] = {"job": name(1), "handler": "mail.send", "since": 0.0}
    web.app.store.note("worker:x", json.dumps(note), expires_in=10)
    found = web.get("/api/v1/health", token=READ)
    (worker,) = found["workers"]
    assert worker["silent_seconds"] == 20
    since = "1970-01-01T00:00:00.000Z"
    assert worker["blocked"] == {"job": name(1), "handler": "mail.send", "since": since}
    why = "handler pay.charge cannot run: No module named 'stripe'"
    assert found["unserved_because"] == {"pay.charge": why}


def test_a_store_that_does_not_answer_is_503(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for verb in ("counts", "notes"):
        monkeypatch.setattr(web.app.store, verb, broken)
    monkeypatch.setattr(web.app.store, "note", broken)
    monkeypatch.setattr(web.app.store, "find", broken)
    for path in ("/api/v1/health", "/readyz"):
        answer = web.ask("GET", path, token=None)
        assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert web.ask("GET", "/api/v1/health", token=READ).status_code == 503
    assert web.get("/healthz", token=None) == {"status": "ok"}
    answer = web.ask("GET", "/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (503, "store")
    assert "gone" not in answer.text, "what is wrong with it is for the log"


def test_a_store_that_says_nothing_is_503(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()
    monkeypatch.setattr(health, "PATIENCE", 0.1)
    for verb in ("counts", "notes", "note"):
        monkeypatch.setattr(web.app.store, verb, lambda *_, **__: free.wait(30))
    try:
        for path in ["/api/v1/health", "/readyz"] * 6:  # more often than there are threads
            assert web.ask("GET", path, token=None).status_code == 503
            assert web.ask("GET", path, token=READ).status_code == 503
        assert web.get("/healthz", token=None) == {"status": "ok"}
    finally:
        free.set()


def test_a_store_that_is_away_is_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections and says nothing
        server = f"postgresql://ada@127.0.0.1:{silent.getsockname()[1]}/jobs?connect_timeout=2"
        for place in (server, tmp_path / "later.db"):
            with Redrive(place, create=False) as app:
                web = Web(app)
                assert web.ask("GET", "/api/v1/health", token=None).status_code == 503
                assert web.get("/healthz", token=None) == {"status": "ok"}
    with Redrive(tmp_path / "later.db") as maker:
        maker.store.now()
        assert Web(maker).get("/api/v1/health", token=None) == {"status": "ok"}


def test_counts_are_asked_for_every_two_seconds(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    first = web.get("/api/v1/health")
    web.app.desk.retry(name(1))
    assert web.get("/api/v1/health") == first
    later = time.monotonic() + health.FRESH
    monkeypatch.setattr("redrive.web.shared.time.monotonic", lambda: later)
    assert web.get("/api/v1/health")["counts"]["dead"] == 3


def test_readiness_means_that_writes_are_taken(tmp_path: Path, web: Web) -> None:
    with Redrive(tmp_path / "jobs.db", read_only=True) as app:
        reader = Web(app)
        assert reader.ask("GET", "/readyz", token=None).status_code == 503
        assert reader.get("/api/v1/health", token=None) == {"status": "ok"}


def test_metrics_are_for_those_who_may_read(web: Web) -> None:
    answer = web.ask("GET", "/metrics", token=READ)
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    (line,) = [one for one in answer.text.splitlines() if 'state="dead"' in one and "pdf" in one]
    assert line.endswith(" 1.0")
    assert web.ask("GET", "/metrics", token=None).status_code == 401
