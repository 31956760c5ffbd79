"""A command whose streams are closed, or whose settings are hostile, fails cleanly or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from redrive import Redrive
from tablekit import each_row


def redrive(line: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line of ours, with the redirections of a shell."""
    return subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m redrive {line}"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_closed_streams_stop_no_command_and_show_no_trace(tmp_path: Path) -> None:
    """A deed that was done says so by its exit code."""
    with Redrive(tmp_path / "redrive.db") as app, app.capture("row", {}, reraise=False):
        raise ValueError("bad")
    assert redrive("status >&-", tmp_path).returncode == 0
    assert redrive("retry --all --yes >&- 2>&-", tmp_path).returncode == 0
    nothing = redrive("discard - --reason x --yes <&-", tmp_path)
    assert nothing.returncode == 3
    assert "Traceback" not in nothing.stderr


@each_row("kind", ["deep", "pipe"])
def test_hostile_settings_are_named_and_end_the_command(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "redrive.toml"
    if kind == "deep":
        place.write_text("store = " + "[" * 20_000)
    else:
        os.mkfifo(place)
    done = redrive("status", tmp_path)
    assert done.returncode == 2
    assert "redrive.toml" in done.stderr
    assert "Traceback" not in done.stderr
