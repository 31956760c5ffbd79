"""From "160 jobs died" to a verdict in three commands, on a terminal, against a real worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ptykit import on_terminal
from redrive.cli.runs import _progress
from redrive.runs.run_records import Counts, Run, Spec
from runs.scene import FAILING, JOBS, Scene


@pytest.mark.parametrize("scene", ["sqlite"], indirect=True)
def test_three_commands_from_the_alarm_to_the_verdict(scene: Scene) -> None:
    scene.work()
    status = on_terminal("status", env=scene.environment)
    assert (status.code, f"{JOBS}" in status.text) == (0, True)
    groups = on_terminal("groups", env=scene.environment)
    assert "G1" in groups.text
    words = ["retry", "G1", "--canary", "3", "--rate", "80/s", "--stop-on", "50%", "--wait"]
    shown = on_terminal(*words, typed=f"{JOBS}\n".encode(), env=scene.environment)
    assert f"Type {JOBS} to retry them" in shown.text
    assert "━".encode() in shown.raw
    assert f"R1 done: {JOBS - FAILING} ok · {FAILING} failed again" in shown.text
    assert f"{FAILING} new in G2" in shown.text
    assert "next: redrive list 'run:R1 state:dead'" in shown.text
    assert shown.code == 6
    listed = on_terminal("list", "run:R1 state:dead", "--ids", env=scene.environment)
    assert len(listed.text.split()) >= FAILING


def test_the_line_says_how_far_a_run_is() -> None:
    run = Run(number=12, by="ada", created=0.0, phase="live", total=100, spec=Spec(canary=3))
    counts = Counts(succeeded=40, failed=5, working=10, waiting=45, failing=2)
    said = "40 ok · 5 failed again · 2 to be tried again · canary"
    assert _progress(replace(run, counts=counts)) == (45, 100, said)
    assert _progress(replace(run, phase="paused"))[2] == "0 ok · 0 failed again · paused"
