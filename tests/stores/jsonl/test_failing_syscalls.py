"""Killed or failing at any call to the system: what was acknowledged is there, and nothing is half."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kit import make_job
from redrive.stores.jsonl import JsonlStore
from redrive.testing import ManualClock
from stores.jsonl.conftest import FULL
from stores.jsonl.faults import script
from stores.jsonl.scenes import picture

ACTOR = Path(__file__).parent / "faults.py"


def run(directory: Path, mode: str, step: int = 1, *old: str) -> list[dict[str, Any]]:
    """Play the script with a fault at each call, one after the other."""
    command = [sys.executable, str(ACTOR), str(directory), mode, str(1 if FULL else step), *old]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the store is before the script and after each step of it."""
    path = tmp_path_factory.mktemp("right") / "jobs.jsonl"
    store = JsonlStore(path, clock=ManualClock())
    out = [picture(store)]
    for operation in script():
        operation(store)
        out.append(picture(store))
    store.close()
    return out


def steps(ran: dict[str, Any], word: str) -> int:
    return sum(1 for said in ran["said"] if said[0] == word)


def reopened(directory: Path, ran: dict[str, Any]) -> JsonlStore:
    return JsonlStore(directory / str(ran["number"]) / "jobs.jsonl", clock=ManualClock())


def check(directory: Path, ran: dict[str, Any], pictures: list[dict[str, Any]]) -> None:
    """The acknowledged steps are there, the one that was begun wholly or not at all."""
    store = reopened(directory, ran)
    assert picture(store) in pictures[steps(ran, "done") : steps(ran, "begun") + 1], ran
    store.add([make_job("later")])
    assert store.get("later") is not None
    assert store.verify().ok
    store.close()
    assert not list((directory / str(ran["number"])).glob("*.compacting"))


@pytest.mark.parametrize("mode", ["kill", "killhalf"])
def test_killed_at_every_call_nothing_acknowledged_is_lost_and_nothing_is_half(
    tmp_path: Path, pictures: list[dict[str, Any]], mode: str
) -> None:
    """T2, T5, F1, F2, F8: before each call, and in the middle of each write or after the call."""
    runs = run(tmp_path, mode)
    assert len(runs) > 40
    for ran in runs:
        assert ran["status"] == signal.SIGKILL
        check(tmp_path, ran, pictures)


@pytest.mark.parametrize("mode", ["EIO", "EIO half", "ENOSPC", "ENOSPC half", "EDQUOT half"])
def test_an_error_at_any_call_fails_that_operation_only_and_repeating_it_works(
    tmp_path: Path, pictures: list[dict[str, Any]], mode: str
) -> None:
    """T6, F9, F10, F12: the call raises, nothing half-written stays, work goes on."""
    runs = run(tmp_path, mode, step=2)
    for ran in runs:
        assert ran["status"] == 0
        assert ["finished"] in ran["said"], ran
        store = reopened(tmp_path, ran)
        assert picture(store) == pictures[-1], ran
        assert store.verify().ok
        store.close()
    assert any(steps(ran, "failed") for ran in runs)


@pytest.mark.parametrize("mode", ["EIO on", "ENOSPC on", "EIO half on"])
def test_a_disk_that_stays_broken_keeps_what_it_acknowledged(
    tmp_path: Path, pictures: list[dict[str, Any]], mode: str
) -> None:
    """F9, F10: also when the bytes cannot be taken back."""
    for ran in run(tmp_path, mode, step=3):
        check(tmp_path, ran, pictures)


def test_a_short_write_is_followed_by_the_rest(
    tmp_path: Path, pictures: list[dict[str, Any]]
) -> None:
    """F13: no byte twice, no byte missing."""
    for ran in run(tmp_path, "short", step=2):
        assert steps(ran, "failed") == 0
        store = reopened(tmp_path, ran)
        assert picture(store) == pictures[-1]
        assert store.verify().ok
        store.close()
