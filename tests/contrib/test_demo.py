"""`redrive demo`: unattended, in under a minute, told to the end, and nothing is left behind (C2)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ptykit import on_terminal
from redrive.contrib.demo import bad_night, story
from redrive.contrib.demo.screen import Screen

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
        r"inbox: \[NEW\] G\d: .* \(20 jobs\)",
        r"R1: canaries succeeded, 20 cards charged",
        r"demo: discard state:dead \(the customers were refunded\)",
    ):
        assert re.search(part, done.stdout), part
    assert "\x1b" not in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("rich", [True, False])
def test_on_a_terminal_a_table_moves(tmp_path: Path, rich: bool) -> None:
    shown = on_terminal("demo", env=environment(tmp_path), rich=rich)
    assert shown.code == 0
    assert END in shown.text
    assert ("parcel.ship" in shown.text) == rich
    assert list(tmp_path.iterdir()) == []


def test_it_says_so_when_the_story_ends_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wrong key: the canaries die, the run stops, the other jobs are not touched."""
    monkeypatch.setattr(story.Shop, "fix", lambda shop: None)
    assert not story.tell(Screen())
    told = capsys.readouterr().out
    assert "R1: stopped" in told
    assert "did not end as expected: {'completed': 27, 'dead': 23}" in told


def test_what_fails_tonight_joins_the_groups_of_the_bad_night(tmp_path: Path) -> None:
    bad_night.fill(tmp_path / "night.db", factor=0.02)
    shop = bad_night.NightShop(tmp_path / "night.db")
    with shop.app as app:
        known = {group.number: group.title for group in app.desk.groups.find()}
        jobs = [shop.pdf.submit(charge_id="ch_1001").id, shop.charge.submit(charge_id="ch_1100").id]
        for _ in range(2):
            app.run_due(ignore_backoff=True, only=jobs)
        assert [known[app.get(job).group or 0][:9] for job in jobs] == ["KeyError:", "CardError"]
