"""The scripts of `examples/` run unattended, end as they say, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from redrive import Redrive

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_events_run_in_a_temporary_directory(run_example: Run, tmp_path: Path) -> None:
    ended = run_example("events.py")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "the partner was told about order 4711" in ended.stdout
    assert left_in(tmp_path) == []


def test_the_events_leave_a_log_and_a_store_where_asked(run_example: Run, tmp_path: Path) -> None:
    ended = run_example("events.py", str(tmp_path / "here"))
    assert ended.returncode == 0
    lines = (tmp_path / "here/event_stream.jsonl").read_text("utf-8").splitlines()
    statuses = [json.loads(line)["status"] for line in lines]
    recovered = ["pending", "retrying", "retrying", "success"]
    hopeless = ["pending", "dead_letter"]
    exhausted = ["pending", "retrying", "retrying", "dead_letter"]
    redriven = ["retrying", "success"]
    assert statuses == [*recovered, *hopeless, *exhausted, *redriven]
    assert (tmp_path / "here/dead_letter_queue.jsonl").is_file()


def test_one_hook_that_cannot_be_kept_does_not_stop_those_behind_it(
    run_example: Run, tmp_path: Path
) -> None:
    hooks, store = tmp_path / "hooks.jsonl", f"jsonl:{tmp_path / 'failed.jsonl'}"
    hooks.write_text('{"n": 1e999}\n{"n": 2}\n', "utf-8")
    ended = run_example(
        "hooks.py", str(hooks), HOOKS_STORE=store, HOOKS_ENDPOINT="http://127.0.0.1:9/"
    )
    assert ended.returncode == 1
    assert "a hook was not accepted: $.hook.n" in ended.stderr
    with Redrive(store) as app:
        assert [json.loads(job.payload)["hook"] for job in app.desk.jobs.find().jobs] == [{"n": 2}]


def test_one_task_that_cannot_be_kept_does_not_stop_those_behind_it(
    run_example: Run, tmp_path: Path
) -> None:
    tasks, store = tmp_path / "tasks.jsonl", str(tmp_path / "sync.db")
    good = {"userId": "u", "sessionId": "s", "tableName": "t"}
    tasks.write_text(f'{{"userId": "u"}}\n{json.dumps(good)}\n', "utf-8")
    ended = run_example("sync.py", str(tasks), SYNC_STORE=store)
    assert ended.returncode == 1
    assert "a task was not accepted: these arguments do not fit the handler" in ended.stderr
    with Redrive(store) as app:
        assert [json.loads(job.payload) for job in app.desk.jobs.find().jobs] == [good]
