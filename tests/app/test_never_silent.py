"""Dead letters and unserved lanes reach standard error while a program has set up no logging."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from redrive import Redrive
from redrive.cli._logging import warn_on_stderr
from redrive.jobs import logger
from redrive.jobs.logger import LONGEST_LINE, MINUTE, LastResort
from tablekit import each_row

PROGRAM = """
from redrive import Redrive
app = Redrive("jobs.db")

@app.handler("mail.send", attempts=1)
def send(number: int) -> None:
    raise ValueError(f"cannot send to password=hunter2-and-more\\nover")
"""
PASS = "for number in range(14): send.submit(number)\napp.run_due()\n"
WORKER = """
import time
with Redrive("jobs.db") as other:
    other.handler("gone.away", lane="gone")(lambda: None).submit()
send.submit(1)
with app.worker():
    until = time.monotonic() + 30
    while time.monotonic() < until and not app.desk.jobs.find(state="dead").jobs:
        time.sleep(0.05)
"""


def run(tmp_path: Path, text: str) -> str:
    (tmp_path / "shop.py").write_text(text, "utf-8")
    done = subprocess.run(
        [sys.executable, "shop.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_a_script_without_logging_writes_ten_deaths_of_a_group_and_counts_the_others(
    tmp_path: Path,
) -> None:
    lines = run(tmp_path, PROGRAM + PASS).splitlines()
    assert len(lines) == 11
    assert all(line.startswith("redrive: dead_letter job=") for line in lines[:10])
    assert lines[0].endswith(r"cause=G1 ValueError: cannot send to password=•••\nover")
    assert lines[10] == "redrive: dead_letter G1: 4 more, not shown"


@each_row(
    "setup",
    [
        "import logging; logging.getLogger('redrive').addHandler(logging.NullHandler())\n",
        "import logging; logging.basicConfig(filename='log.txt')\n",
    ],
)
def test_a_program_that_has_set_up_logging_gets_nothing_twice(tmp_path: Path, setup: str) -> None:
    assert run(tmp_path, PROGRAM + setup + PASS) == ""


def test_a_worker_inside_a_program_writes_deaths_and_unserved_lanes(tmp_path: Path) -> None:
    text = PROGRAM + WORKER
    lines = run(tmp_path, text).splitlines()
    assert [line.split(" job=")[0] for line in sorted(lines)] == [
        "redrive: dead_letter",
        "redrive: unserved lane gone: jobs are due and no worker serves it; redrive list 'lane:gone'",
    ]


def set_up_no_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("redrive"), "handlers", [LastResort()])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])


def test_the_count_comes_when_the_minute_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_no_logging(monkeypatch)
    seconds = [1000.0]
    monkeypatch.setattr("redrive.jobs.logger.time.monotonic", lambda: seconds[0])

    def die(group: str) -> None:
        logger.log.warning(
            "dead_letter of %s", group, extra={"event": "dead_letter", "group": group}
        )

    for _ in range(12):
        die("G1")
    die("G2")
    assert capsys.readouterr().err.count("\n") == 11
    logger.write_line_counts()
    assert capsys.readouterr().err == ""
    seconds[0] += MINUTE
    logger.write_line_counts()
    assert capsys.readouterr().err == "redrive: dead_letter G1: 2 more, not shown\n"
    die("G1")
    assert capsys.readouterr().err == "redrive: dead_letter of G1\n"


def test_the_text_log_of_a_worker_has_times_and_errors_and_stays_short(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """1,000 deaths after 1,000 failed attempts, in 20 groups with long texts: 10,000 fit in 2 MB."""
    set_up_no_logging(monkeypatch)
    warn_on_stderr(logging.INFO, times=True)
    with Redrive("memory:") as app:
        for name in range(20):

            @app.handler(f"mail.send{name}", attempts=2)
            def send(number: int) -> None:
                raise ValueError(f"the template is broken {'x' * 1000}")

            for number in range(50):
                send.submit(number)
        app.run_due()
        app.run_due(ignore_backoff=True)
        assert len(app.desk.jobs.find(state="dead", limit=1000).jobs) == 1000
    text = capsys.readouterr().err
    assert len(text) <= 200_000
    deaths = [line for line in text.splitlines() if "dead_letter job=" in line]
    assert len(deaths) == 200
    assert sorted(map(len, deaths))[179] == LONGEST_LINE, "the first of each group is whole"
    failed = next(line for line in text.splitlines() if " failed: " in line)
    assert "failed: ValueError: the template is broken xxx" in failed
    assert failed[:2] == "20"
    assert failed[19:26] == "Z INFO:"
