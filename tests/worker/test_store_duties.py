"""What a worker does for its store: it folds counts."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crewkit import app_of, crew, fill, wait_for
from redrive.worker import worker
from workkit import all_done, app_on, until, url_of


def rows(path: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


def test_an_idle_worker_folds_what_was_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "FOLD_EVERY", 0.05)
    with app_on("sqlite", tmp_path) as app:

        @app.handler("n")
        def n(number: int) -> None: ...

        for number in range(3):
            n.submit(number)
        counted = "SELECT sum(attempts), sum(successes) FROM lane_counts WHERE span = 3600"
        with app.worker():
            until(lambda: all_done(app))
            until(lambda: rows(tmp_path / "jobs.db", counted) == [(3, 3)])
            until(lambda: rows(tmp_path / "jobs.db", "SELECT count(*) FROM ticks") == [(0,)])


def test_folding_nothing_writes_nothing(tmp_path: Path) -> None:
    with app_on("jsonl", tmp_path) as app:
        app.store.fold()
        size = (tmp_path / "jobs.jsonl").stat().st_size
        for _ in range(3):
            app.store.fold()
        assert (tmp_path / "jobs.jsonl").stat().st_size == size


def test_a_killed_worker_is_named_by_host_and_process_in_the_history(tmp_path: Path) -> None:
    """And so is the start of the attempt that it took down."""
    url = url_of("sqlite", tmp_path)
    with app_of(url) as app, crew(tmp_path, url, CREW_LEASE="0.5") as made:
        (job,) = fill(app, "work", [{"number": 0, "seconds": 60.0}])
        wait_for(made, 1)
        (pid,) = made.workers()
        os.kill(pid, signal.SIGKILL)
        until(lambda: app.get(job).history)
        (attempt,) = app.get(job).history
        assert (attempt.outcome, attempt.worker) == ("crashed", f"{socket.gethostname()}:{pid}")
        assert app.get(job).created <= attempt.started < time.time()
