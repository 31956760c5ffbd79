"""C1: a command that only looks starts quickly, because it loads only what looking needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from shopkit import Shop

PROBE = """
import json, sys
from redrive.cli._root import root
try:
    root({words!r})
except SystemExit:
    pass
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""
SLOW = {
    "asyncio", "hashlib", "http.client", "importlib.resources", "redrive.app", "redrive.classify",
    "redrive.submission", "redrive.policies.policy", "redrive.runs.run_records", "redrive.attempts.executions",
    "rich", "socket", "ssl", "tempfile", "zipfile",
}  # fmt: skip


def loaded(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(words=list(words))],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("words", [["list"], ["list", "state:dead handler:mail.*"], ["dlq"]])
def test_a_list_loads_nothing_that_runs_jobs(shop: Shop, words: list[str]) -> None:
    assert shop.run(*words).exit_code == 0
    found = loaded(*words, "--plain")
    assert "redrive.desk.desk" in found
    assert not found & SLOW


def test_status_and_groups_load_neither_workers_nor_rich(shop: Shop) -> None:
    assert shop.run("status").exit_code == 0
    for words in (["status"], ["groups"]):
        assert not loaded(*words, "--plain") & (SLOW - {"redrive.runs.run_records"})
