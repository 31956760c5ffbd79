"""Programs that tests run in a process of their own, because they die, fork, or have no rights."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2]

PRELUDE = f"""
import json, os, signal, sys, threading
sys.path += [{str(TESTS)!r}, {str(TESTS / "kits")!r}]
from stores.contract.verbs import DEAD, DONE, claim, count, get, ids, settle
from kit import make_action, make_failure, make_job
from redrive.errors import *
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.sqlite import SqliteStore
import redrive.stores._wake  # loaded late, when there may be no right to read it
path = sys.argv[1]
"""


def run(program: str, path: Path, *args: str) -> Any:
    """Run a program on a store's path to its end; gives the JSON it printed."""
    command = [sys.executable, "-c", PRELUDE + program, str(path), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def start(program: str, path: Path, *args: str) -> subprocess.Popen[str]:
    """Start a program that talks to the test over its pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + program, str(path), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
