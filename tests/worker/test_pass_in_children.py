"""A pass of a program that children can import keeps time limits and survives crashes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = """
import os, time
from redrive import Redrive

app = Redrive("jobs.db")

@app.handler("hang", timeout=0.3, attempts=1)
def hang(): time.sleep(60)

@app.handler("fall", isolation="process", attempts=1)
def fall(): os._exit(7)

@app.handler("good")
def good(): pass
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A program in a directory of its own."""
    (tmp_path / "apartshop.py").write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("apartshop")
    yield module
    module.app.close()
    del sys.modules["apartshop"]


def test_a_pass_ends_what_is_late_and_lives_on_after_a_crash(shop: ModuleType) -> None:
    late, fell, fine = shop.hang.submit(), shop.fall.submit(), shop.good.submit()
    done = shop.app.run_due()
    assert (done.taken, done.succeeded, done.died) == (3, 1, 2)
    failures = [shop.app.get(job.id).failure for job in (late, fell)]
    assert [(failure.category, failure.why) for failure in failures] == [
        ("timeout", "ran past its time limit of 0.3 s"),
        ("crash", "exited with code 7"),
    ]
    assert shop.app.get(fine.id).state == "completed"


def test_a_job_that_took_a_process_down_runs_in_a_child_in_a_pass_too(shop: ModuleType) -> None:
    """By the third crash it is dead, and this process lives."""
    job = shop.fall.options(attempts=5).submit()
    for _ in range(3):
        shop.app.run_due(ignore_backoff=True)
    dead = shop.app.get(job.id)
    assert (dead.state, dead.reason, dead.crashes) == ("dead", "crash", 3)
