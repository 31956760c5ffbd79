"""kill -9 of the command line and of the worker in mid-run; the run goes on, its counts are right."""

from __future__ import annotations

import signal
import subprocess

from redrive.runs.run_records import Counts
from runs.scene import FAILING, JOBS, Scene
from workkit import number, until


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
    let_go = [
        action.done
        for action in scene.app.desk.log.actions(run="R1", limit=1000)
        if action.verb == "release"
    ]
    assert sum(let_go) == JOBS
    done = (scene.folder / "ledger").read_text("ascii").split()
    assert {int(n) for n in done} == set(range(JOBS))


def test_the_last_word_of_the_command_that_waited(scene: Scene) -> None:
    """The exit code says that some failed again."""
    scene.work()
    face = scene.start("retry", "G1", "--yes", "--wait", "--json")
    assert face.wait(60) == 6, (scene.folder / "log").read_text("utf-8")
    assert scene.ended() == JOBS


def test_ctrl_c_detaches_and_the_run_goes_on(scene: Scene) -> None:
    face = scene.start("retry", "G1", "--rate", "60/s", "--yes", "--wait")
    until(lambda: scene.run() is not None)
    until(lambda: "R1 retries" in (scene.folder / "log").read_text("utf-8"))
    face.send_signal(signal.SIGINT)
    assert face.wait(20) == 130
    assert "redrive run R1 pause" in (scene.folder / "log").read_text("utf-8")
    scene.work()
    until(lambda: scene.ended() == JOBS, 60)
