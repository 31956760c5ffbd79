"""The scripts of `examples/` run unattended, end as they say, and leave nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

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
    assert statuses == [*recovered, *hopeless, *exhausted]
    assert (tmp_path / "here/dead_letter_queue.jsonl").is_file()
