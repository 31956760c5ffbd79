"""R-SUMMARIES: a job table in PostgreSQL behind a service. Each test names the sentence it walks."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from redrive import Category, State
from redrive.testing import ManualClock
from summarykit import VIEW, Service, new_database

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
YEAR = 365 * 86400.0


class Throttled(Exception):
    """Asks for a long wait, which this policy does not grant."""

    status = 429
    retry_after = 7000


class Forbidden(Exception):
    status = 403


def test_r_summaries_1_pending_running_completed(service: Service) -> None:
    seen: list[str] = []
    service.while_asked = lambda: seen.append(service.row("a1")["status"])
    service.accept("a1", "some text")
    seen.append(service.row("a1")["status"])
    assert service.app.run_due().succeeded == 1
    row = service.row("a1")
    assert [*seen, row["status"]] == ["pending", "running", "completed"]
    assert row["created_at"] <= row["started_at"] <= row["completed_at"]
    assert service.sql("SELECT summary FROM articles") == [{"summary": "SOME TEXT"}]


def test_r_summaries_1_a_failure_is_pending_again_at_once_and_the_third_is_a_dead_letter(
    service: Service,
) -> None:
    service.failing["some text"] = ValueError("no sense in it")
    service.accept("a1", "some text")
    seen: list[tuple[str, int, int, bool]] = []
    while service.app.run_due().taken:
        row = service.row("a1")
        ended = row["completed_at"] is not None
        seen.append((row["status"], row["retry_count"], row["max_retries"], ended))
    assert seen == [
        ("pending", 1, 3, False),
        ("pending", 2, 3, False),
        ("dead_letter", 3, 3, True),
    ]
    assert service.row("a1")["error_message"] == "ValueError: no sense in it"


@pytest.mark.parametrize(
    "error", [KeyError("x"), ConnectionError("down"), Throttled("later"), Forbidden("no")], ids=repr
)
def test_r_summaries_1_every_category_has_three_attempts_without_a_wait(
    service: Service, error: Exception
) -> None:
    service.failing["some text"] = error
    job = service.accept("a1", "some text")
    service.work()
    assert service.asked == ["some text"] * 3
    dead = service.app.get(job.id)
    assert (dead.state, dead.reason, dead.attempts) == ("dead", "exhausted", 3)


def test_r_summaries_1_what_works_in_the_end_is_completed_with_its_failures_counted(
    service: Service,
) -> None:
    service.failing["some text"] = ConnectionError("down")
    service.accept("a1", "some text")
    service.app.run_due()
    service.failing.clear()
    service.work()
    row = service.row("a1")
    assert (row["status"], row["retry_count"]) == ("completed", 1)


def test_r_summaries_1_the_article_and_its_job_are_stored_together_or_not_at_all(
    service: Service,
) -> None:
    with service.db.transaction(force_rollback=True):
        service.accept("a1", "some text")
        assert service.sql(f"SELECT * FROM {VIEW}") == [], "seen before it was committed"
    assert service.sql("SELECT * FROM articles") == []
    assert service.app.desk.jobs.find().jobs == []
    service.accept("a1", "some text")
    assert [row["article_id"] for row in service.sql(f"SELECT * FROM {VIEW}")] == ["a1"]


def test_r_summaries_1_an_article_may_have_many_jobs(service: Service) -> None:
    for text in ("first text", "second text"):
        service.accept("a1", text)
        service.work()
    rows = service.sql(f"SELECT status FROM {VIEW} WHERE article_id = 'a1'")
    assert rows == [{"status": "completed"}] * 2
    assert service.sql("SELECT summary FROM articles") == [{"summary": "SECOND TEXT"}]


def test_r_summaries_2_a_job_that_keeps_timing_out_ends_and_stops_delaying_others(
    service: Service,
) -> None:
    service.hanging.add("endless")
    service.app.close()
    service.app, service.summarize = service.connect(seconds=0.6)
    slow = service.accept("slow", "endless")
    service.accept("quick", "some text")
    service.work()
    dead = service.app.get(slow.id)
    assert (dead.state, dead.reason, dict(dead.spent)) == ("dead", "exhausted", {"timeout": 3})
    shown = service.sql(f"SELECT error_message FROM {VIEW} WHERE status = 'dead_letter'")
    assert shown[0]["error_message"].startswith("TimeoutError: ran past its time limit of ")
    assert dead.failure is not None
    assert dead.failure.category is Category.TIMEOUT
    assert service.row("quick")["status"] == "completed"
    service.asked.clear()
    service.accept("next", "more text")
    service.work()
    assert service.asked == ["more text"], "it still takes the time of others"
    assert service.row("next")["status"] == "completed"


def test_r_summaries_3_nothing_is_deleted(service: Service) -> None:
    clock = ManualClock()
    service.app.close()
    service.app, service.summarize = service.connect(clock=clock)
    service.failing["bad"] = ValueError("no")
    done = service.summarize.submit("done")
    service.sql("INSERT INTO articles VALUES ('done', 'good'), ('dead', 'bad'), ('closed', 'bad')")
    dead, closed = service.summarize.submit("dead"), service.summarize.submit("closed")
    service.work()
    service.app.desk.resolve(closed.id, reason="written by hand")
    clock.advance(30 * YEAR)
    assert service.app.run_due().purged == 0
    assert service.app.cleanup() == 0
    states = [service.app.get(job.id).state for job in (done, dead, closed)]
    assert states == [State.COMPLETED, State.DEAD, State.RESOLVED]


def test_r_summaries_4_processing_again_by_hand_resets_the_count(service: Service) -> None:
    service.failing["some text"] = ValueError("no")
    job = service.accept("a1", "some text")
    service.work()
    assert service.run("retry", job.id, "--reason", "the model is mended").exit_code == 0
    row = service.row("a1")
    assert (row["status"], row["retry_count"], row["completed_at"]) == ("pending", 0, None)
    service.work()
    assert (service.row("a1")["status"], service.row("a1")["retry_count"]) == ("dead_letter", 3)
    assert len(service.asked) == 6, "a fresh life has three attempts"
    assert [one.life for one in service.app.get(job.id).history] == [0, 0, 0, 1, 1, 1]


def test_r_summaries_5_a_death_is_one_line_in_the_log(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive")
    service.failing["bad"] = ValueError("no")
    dead = service.accept("a1", "bad")
    service.accept("a2", "good")
    service.work()
    lines = [one.getMessage() for one in caplog.records if "dead_letter" in one.getMessage()]
    (line,) = lines
    assert line.startswith(f"dead_letter job={dead.id} handler=article.summarize reason=exhausted")


def test_the_script_summarises_files_and_says_which_it_could_not(
    run_example: Callable[..., Any], tmp_path: Path
) -> None:
    """R-SUMMARIES 1, 5: as the service's people run it."""
    (tmp_path / "good.txt").write_text("The first sentence. The second.", "utf-8")
    (tmp_path / "bad.txt").write_text("nothing that ends", "utf-8")
    with new_database() as url:
        good = run_example("summaries.py", str(tmp_path / "good.txt"), SUMMARIES_DATABASE=url)
        assert (good.returncode, good.stderr) == (0, "")
        assert good.stdout == "good.txt: The first sentence.\n"
        bad = run_example("summaries.py", str(tmp_path / "bad.txt"), SUMMARIES_DATABASE=url)
        assert bad.returncode == 1
        assert bad.stderr.startswith("WARNING dead_letter job=")
        assert "bad.txt: (none)" in bad.stdout


def test_the_worker_of_the_command_line_runs_the_script_s_jobs(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SUMMARIES 1: `redrive work`, from cron for example."""
    service.accept("a1", "One sentence. Two.")
    monkeypatch.setenv("SUMMARIES_DATABASE", service.url)
    words = [sys.executable, "-m", "redrive", "work", "summaries:app", "--once"]
    done = subprocess.run(
        words, cwd=EXAMPLES, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert service.sql("SELECT summary FROM articles") == [{"summary": "One sentence."}]
