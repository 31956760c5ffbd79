"""R-EVENTS 3 and 5: the command line on a stream's dead letters, and on strategies."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from eventkit import Failing, Setting
from redrive import GiveUp

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "redrive", *arguments],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run


def test_r_events_3_every_command_works_on_the_dead_letters(
    setting: Setting, command: Command
) -> None:
    stream = setting.stream()
    event_id = stream.emit_with_retry("mail.sent", "shop", Failing(GiveUp("no such customer")))
    (dead,) = stream.get_dead_letter_queue()
    stream.close()
    job = dead["job_id"]
    store = ("--store", f"jsonl:{setting.folder / 'dead.jsonl'}")
    assert job in command("dlq", *store)
    assert "no such customer" in command("groups", *store)
    assert event_id in command("show", job, *store)
    assert "mail.sent" in command("list", *store, f"tag:{event_id}")
    command("discard", job, *store, "--reason", "gone", "--yes")
    command("reopen", job, *store, "--yes")
    command("retry", job, *store, "--yes")
    assert "discard" in command("log", *store)
    command("verify", *store)
    assert stream.app.get(job).state == "pending"


def test_explain_prints_the_waits_of_the_preset(command: Command) -> None:
    assert "transient\t4\t0.8s–1.2s, 1.6s–2.4s, 3.2s–4.8s\n" in command("explain", "EVENTS")
