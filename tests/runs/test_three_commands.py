"""W1: from "160 jobs died" to a verdict in three commands, on a terminal, against a real worker."""

from __future__ import annotations

import pytest

from ptykit import on_terminal
from redrive.cli._follow import line_of
from redrive.runs.run_records import Counts, Run, Spec
from runs.scene import FAILING, JOBS, Scene


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


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (Counts(waiting=100), "R12   0%  0 ok · 0 failed again"),
        (Counts(succeeded=50, failed=5, waiting=45), "R12  55%  50 ok · 5 failed again"),
        (Counts(succeeded=50, working=50, failing=50), "50 waiting for retry"),
        (Counts(succeeded=90, left=10), "100%"),
    ],
)
def test_the_line_says_how_far_a_run_is(counts: Counts, words: str) -> None:
    run = Run(number=12, by="ada", created=0.0, phase="live", total=100, counts=counts)
    assert words in line_of(run, 0.0, 0)
    for width in (20, 40, 80, 140):
        line = line_of(run, 2.5, width)
        assert len(line) < width
        assert (" left" in line) if width >= 80 else line.endswith("…")


def test_the_line_says_what_it_waits_for() -> None:
    run = Run(
        number=12,
        by="ada",
        created=0.0,
        phase="live",
        total=100,
        counts=Counts(waiting=97, working=3),
        spec=Spec(canary=3),
    )
    assert "canary" in line_of(run, 0.0, 0)
    assert "40s left" in line_of(run, 2.5, 0)
