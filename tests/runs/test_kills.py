"""kill -9 of the command line and of the worker in mid-run; the run goes on, its counts are right."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgkit
from kit import START, make_failure, make_job
from redrive import Reason, Redrive, State
from redrive.runs import Counts, Run
from workkit import number, until, url_of

JOBS, FAILING = 160, 8
HERE = Path(__file__).parent


class Scene:
    """A store full of dead letters, and real processes at it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        self.app = Redrive(url)
        self._started: list[subprocess.Popen[bytes]] = []
        cause = make_failure("permanent", cause="outage")
        self.app.store.add(
            [
                make_job(
                    f"job{n:05d}",
                    handler="charge",
                    payload=f'{{"n":{n}}}',
                    state=State.DEAD,
                    reason=Reason.PERMANENT,
                    finished=START,
                    failure=cause,
                )
                for n in range(JOBS)
            ]
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start `redrive` with these words, in a group of its own."""
        env = {
            **os.environ,
            "RUN_URL": self.url,
            "RUN_LEDGER": str(self.folder / "ledger"),
            "REDRIVE_STORE": self.url,
            "PYTHONPATH": str(HERE),
        }
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "redrive", *words],
                env=env,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def work(self) -> subprocess.Popen[bytes]:
        """Start a worker that is one process."""
        return self.start("work", "program:app", "--processes", "0")

    def run(self) -> Run | None:
        """Give the run, once there is one."""
        return next(iter(self.app.runs()), None)

    def ended(self) -> int:
        """How many of its jobs have ended."""
        run = self.run()
        return run.counts.ended if run and run.counts else 0

    def close(self) -> None:
        """End what was started here."""
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.app.close()


@pytest.fixture(params=["sqlite", "jsonl", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    schema = pgkit.new_schema() if request.param == "postgresql" else ""
    url = pgkit.url_of(schema) if schema else url_of(request.param, tmp_path)
    scene = Scene(url, tmp_path)
    yield scene
    scene.close()
    if schema:
        pgkit.release(schema)


def killed(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    assert process.wait(20) == -signal.SIGKILL


def test_a_run_goes_on_when_both_are_killed(scene: Scene) -> None:
    worker = scene.work()
    face = scene.start("retry", "G1", "--canary", "3", "--rate", "60/s", "--yes", "--wait")
    until(lambda: scene.ended() >= 30)
    killed(face)
    was = scene.ended()
    until(lambda: scene.ended() > was)  # nobody looks, and it goes on
    killed(worker)
    stopped = scene.ended()
    assert stopped < JOBS
    scene.work()
    until(lambda: (run := scene.run()) is not None and run.is_over, 60)
    run = scene.run()
    assert run is not None
    (new,) = run.counts.new if run.counts else ()
    assert run.counts == Counts(succeeded=JOBS - FAILING, failed=FAILING, new={new: FAILING})
    assert (run.total, run.phase) == (JOBS, "done")
    assert number(scene.app, "completed") == JOBS - FAILING
    let_go = [act.done for act in scene.app.acts(run="R1", limit=1000) if act.verb == "release"]
    assert sum(let_go) == JOBS
    done = (scene.folder / "ledger").read_text("ascii").split()
    assert {int(n) for n in done} == set(range(JOBS))


def test_the_last_word_of_the_command_that_waited(scene: Scene) -> None:
    """W1: the exit code says that some failed again."""
    scene.work()
    face = scene.start("retry", "G1", "--yes", "--wait", "--json")
    assert face.wait(60) == 6, (scene.folder / "log").read_text("utf-8")
    assert scene.ended() == JOBS


def test_ctrl_c_detaches_and_the_run_goes_on(scene: Scene) -> None:
    face = scene.start("retry", "G1", "--rate", "60/s", "--yes", "--wait")
    until(lambda: scene.run() is not None)
    until(lambda: "drives" in (scene.folder / "log").read_text("utf-8"))
    face.send_signal(signal.SIGINT)
    assert face.wait(20) == 130
    assert "redrive run R1 pause" in (scene.folder / "log").read_text("utf-8")
    scene.work()
    until(lambda: scene.ended() == JOBS, 60)
