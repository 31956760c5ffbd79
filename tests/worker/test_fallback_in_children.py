"""Providers asked in a child: the winner comes back, and its cooldowns are those of all."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = """
from pathlib import Path
from redrive import Redrive, Skip, fallback

app = Redrive("jobs.db")

def asked(name):
    with open("asked", "a") as file:
        print(name, file=file)
    if Path(f"{name}-is-down").exists():
        raise ConnectionRefusedError(name)
    return name

ask = fallback(openai=lambda: asked("openai"), claude=lambda: asked("claude"))

@app.handler("lacks", isolation="process")
def lacks():
    import no_such_library

@app.handler("alone", isolation="process")
async def alone(name):
    from redrive import current
    with open("asked", "a") as file:
        print(name, current().job_id, file=file)

@app.handler("ask", isolation="process")
def handle(skip=False):
    ask()
    if skip:
        raise Skip("enough")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A program in a directory of its own."""
    (tmp_path / "askshop.py").write_text(PROGRAM, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("askshop")
    yield module
    module.app.close()
    del sys.modules["askshop"]


def test_the_winner_and_the_cool_downs_of_a_child_count(shop: ModuleType, tmp_path: Path) -> None:
    down = tmp_path / "openai-is-down"
    down.touch()
    done, skipped = shop.handle.submit(), shop.handle.submit(skip=True)
    assert shop.app.run_due().succeeded == 2
    ends = [shop.app.get(job.id).history[0] for job in (done, skipped)]
    assert [(end.outcome, end.provider) for end in ends] == [
        ("done", "claude"),
        ("skipped", "claude"),
    ]
    assert [note.name for note in shop.app.store.notes("pause:")] == ["pause:provider:openai"]
    assert (tmp_path / "asked").read_text().split() == ["openai", "claude", "claude"]


def test_all_paused_spends_nothing_and_being_wanted_now_asks_them(
    shop: ModuleType, tmp_path: Path
) -> None:
    for name in ("openai", "claude"):
        shop.app.desk.lanes.pause(f"provider:{name}", duration="10m")
    job = shop.handle.submit()
    done = shop.app.run_due()
    assert (done.taken, done.returned) == (0, 1)
    waiting = shop.app.get(job.id)
    assert (waiting.attempts, waiting.history) == (0, ())
    assert "no provider could be asked" in waiting.detail
    assert 500 < waiting.due - waiting.updated <= 630
    assert shop.app.run_due(ignore_backoff=True).succeeded == 1
    assert (tmp_path / "asked").read_text().split() == ["openai"]


def test_a_missing_library_in_a_child_is_returned_unspent(shop: ModuleType) -> None:
    jobs = [shop.lacks.submit() for _ in range(2)]
    assert shop.app.run_due().returned == 1
    assert [shop.app.get(job.id).attempts for job in jobs] == [0, 0]
    assert shop.app.submitter.registry.withdrawn == {"lacks": "No module named 'no_such_library'"}
    assert list(shop.app.desk.lanes.unserved()) == ["lacks"]


def test_async_jobs_of_one_child_know_each_its_own_job(shop: ModuleType, tmp_path: Path) -> None:
    jobs = [shop.alone.submit(name) for name in ("a", "b")]
    assert shop.app.run_due().succeeded == 2
    said = (tmp_path / "asked").read_text().splitlines()
    assert sorted(said) == [f"a {jobs[0].id}", f"b {jobs[1].id}"]
