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
    assert "mail.sent" in command("list", *store, "--tag", event_id)
    command("discard", job, *store, "--reason", "gone", "--yes")
    command("reopen", job, *store, "--yes")
    command("retry", job, *store, "--yes")
    assert "discard" in command("log", *store)
    command("verify", *store)
    assert stream.app.get(job).state == "pending"


@pytest.mark.parametrize(
    ("name", "delays"),
    [
        ("exponential", ["1s", "2s", "4s", "8s"]),
        ("linear", ["1s", "3s", "5s", "7s"]),
        ("constant", ["5s", "5s", "5s", "5s"]),
        ("fibonacci", ["1s", "1s", "2s", "3s"]),
    ],
)
def test_r_events_5_policy_show_prints_the_delays(
    command: Command, name: str, delays: list[str]
) -> None:
    rows = [line.split("\t") for line in command("policy", "show", name).splitlines()]
    assert [row[2] for row in rows if row[0] == "delay"][:4] == delays
