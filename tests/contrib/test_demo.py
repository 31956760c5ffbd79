"""`redrive demo`: unattended, in under a minute, told to the end, and nothing is left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptykit import on_terminal
from redrive.contrib.demo import sample, story
from redrive.desk.status import status_of

END = "47 jobs completed, 3 closed by a person, none lost."
COMMAND = [sys.executable, "-m", "redrive", "demo"]


def environment(folder: Path) -> dict[str, str]:
    """What a bare machine has; a proxy or a store of the developer's must not matter."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "http_proxy": "http://127.0.0.1:9",
        "REDRIVE_STORE": str(folder / "mine.db"),
    }


def test_without_a_terminal_it_is_told_in_lines(tmp_path: Path) -> None:
    done = subprocess.run(
        COMMAND,
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert END in done.stdout
    for part in (
        r"\d+ waiting, \d+ running, \d+ completed, \d+ dead",
        r"12 jobs failed at first and succeeded after retries",
        r"G\d: 20 × HTTPError: HTTP Error 401",
        r"R1: canaries succeeded, 20 cards charged",
        r"demo: discard handler:parcel.ship \(the customers were refunded\)",
    ):
        assert re.search(part, done.stdout), part
    assert "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rich", [True, False])
def test_on_a_terminal_a_table_moves(tmp_path: Path, rich: bool) -> None:
    shown = on_terminal("demo", env=environment(tmp_path), rich=rich)
    assert shown.code == 0
    assert END in shown.text
    assert ("printer.print" in shown.text) == rich
    assert list(tmp_path.iterdir()) == []


def test_it_says_so_when_the_story_ends_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    """The wrong key: the canaries die, the run stops, the other jobs are not touched."""
    assert not story.tell(story.Screen(), new_key="a wrong one")
    told = capsys.readouterr().out
    assert "R1: stopped" in told
    assert "did not end as expected: {'completed': 27, 'dead': 20, 'resolved': 3}" in told


def test_the_sample_has_an_incident_and_its_run_succeeds(tmp_path: Path) -> None:
    sample.fill(tmp_path / "sample.db")
    with sample.shop(tmp_path / "sample.db") as app:
        verdict = status_of(app.desk).verdict()
        assert (verdict.level, "api.stripe.example" in verdict.why) == ("INCIDENT", True)
        assert len(app.desk.groups.find()) == 4
        app.desk.runs.set_rate("R1", "1000/s")
        app.run_due()
        (run,) = app.desk.runs.recent()
        assert run.counts is not None
        assert (run.counts.succeeded, run.counts.failed) == (94, 1), "one card has expired"
