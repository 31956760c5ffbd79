"""A command that only looks starts quickly, because it loads only what looking needs."""

from __future__ import annotations

import json
import subprocess
import sys

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
    "redrive.cli.act", "rich", "socket", "ssl", "tempfile", "tomllib", "difflib",
    "importlib.metadata", "zipfile",
}  # fmt: skip


def loaded(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(words=list(words))],
        capture_output=True,
        text=True,
        check=False,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_a_list_loads_nothing_that_runs_jobs(shop: Shop) -> None:
    found = loaded("list", "state:dead handler:mail.*", "--plain")
    assert "redrive.desk.desk" in found
    assert not found & SLOW


def test_status_loads_neither_workers_nor_rich(shop: Shop) -> None:
    found = loaded("status", "--plain")
    assert found & SLOW <= {"redrive.runs.run_records", "tomllib"}
