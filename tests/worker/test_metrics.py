"""Metrics with three real worker processes, and after kill -9 of one of them."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from crewkit import Crew, app_of, crew, fill
from redrive import Redrive, State
from redrive.attempts import counters
from redrive.metrics import text
from workkit import all_done, until

JOBS = 600


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "jobs.db")


def samples(app: Redrive) -> dict[tuple[str, ...], float]:
    """What a scrape sees, by name and sorted labels."""
    return {
        (one.name, *(f"{name}={value}" for name, value in sorted(one.labels.items()))): one.value
        for family in text_string_to_metric_families(text(app.desk))
        for one in family.samples
    }


def attempts(seen: dict[tuple[str, ...], float], outcome: str) -> float:
    return seen.get(("redrive_attempts_total", "lane=work", f"outcome={outcome}"), 0)


class Watched:
    """Looks again and again, and sees to it that no counter goes back."""

    def __init__(self, app: Redrive) -> None:
        self.app = app
        self.last: dict[tuple[str, ...], float] = {}

    def look(self) -> dict[tuple[str, ...], float]:
        now = samples(self.app)
        back = {
            key: (value, now.get(key, 0))
            for key, value in self.last.items()
            if key[0].endswith(("_total", "_count", "_bucket", "_sum")) and now.get(key, 0) < value
        }
        assert not back, back
        self.last = now
        return now


def check_gauges(app: Redrive, seen: dict[tuple[str, ...], float]) -> None:
    """The store is at rest: a gauge for each count, and no other."""
    expected = {
        (
            "redrive_jobs",
            f"category={one.category or ''}",
            f"lane={one.lane}",
            f"state={one.state}",
        ): (one.jobs)
        for one in app.desk.jobs.counts()
    }
    assert {key: one for key, one in seen.items() if key[0] == "redrive_jobs"} == expected


def ended_by(crew: Crew, pid: int, since: float) -> int:
    return sum(one.pid == pid and one.at >= since for one in crew.ran("ended"))


@pytest.mark.timeout(240)
def test_three_processes_and_kill_9_of_one(tmp_path: Path, url: str) -> None:
    with app_of(url) as app:
        app.store.now()  # made here, before three want to make it
        watch = Watched(app)
        with crew(tmp_path, url, "--processes", "3", "--concurrency", "2") as team:
            fill(app, "work", ({"number": n} for n in range(JOBS)))
            until(lambda: all_done(app), 60)
            # One sign of life later everything is counted, exactly.
            until(lambda: attempts(watch.look(), "done") >= JOBS, counters.EVERY + 60)
            assert attempts(watch.look(), "done") == JOBS
            assert watch.last["redrive_workers",] == 3
            check_gauges(app, watch.last)

            fill(app, "work", ({"number": n, "seconds": 0.02} for n in range(JOBS)))
            until(lambda: len(team.ran("ended")) > JOBS * 4 / 3, 60)
            victim = Counter(one.pid for one in team.ran("began")[-50:]).most_common(1)[0][0]
            os.kill(victim, signal.SIGKILL)
            killed = time.monotonic()
            until(lambda: all_done(app), 60)
            team.terminate()
            assert team.end() == 0
        lost = ended_by(team, victim, killed - counters.EVERY - 1)
        seen = watch.look()
        completed = sum(one.jobs for one in app.desk.jobs.counts() if one.state is State.COMPLETED)
        assert completed == 2 * JOBS
        assert completed - lost <= attempts(seen, "done") <= completed
        crashed = [
            one
            for job in app.desk.jobs.each()
            if job.crashes
            for one in app.get(job.id).history
            if one.outcome == "crashed"
        ]
        assert attempts(seen, "crashed") == len(crashed)
        check_gauges(app, seen)
