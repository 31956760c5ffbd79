"""W1: from "160 jobs died" to a verdict in three commands, on a terminal, against a real worker."""

from __future__ import annotations

import pytest

from ptykit import on_terminal
from redrive.cli._follow import Pace, line_of
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
        (Counts(succeeded=50, working=50, failing=50), "50 to be tried again"),
        (Counts(succeeded=90, left=10), "100%"),
    ],
)
def test_the_line_says_how_far_a_run_is(counts: Counts, words: str) -> None:
    run = Run(number=12, by="ada", created=0.0, phase="live", total=100, counts=counts)
    assert words in line_of(run, 0.0, 0)
    for width in (20, 40, 80, 140):
        line = line_of(run, 2.5, width)
        assert len(line) < width
        has_ahead = counts.waiting + counts.untried > 0
        assert (" left" in line) == has_ahead if width >= 80 else line.endswith("…")


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
    stands = line_of(run, 2.5, 0, 41.0)
    assert ("none ended for 41s" in stands, "left" in stands) == (True, False)


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    pace = Pace()
    for second in range(61):
        pace.saw(float(second), 10 * second)
    assert (pace.speed, pace.still) == (pytest.approx(10, abs=0.5), 0)
    for second in range(61, 72):  # the workers died
        pace.saw(float(second), 600)
    assert (pace.still, pace.speed) == (11, pytest.approx(6.3, abs=0.5))
    for second in range(72, 95):
        pace.saw(float(second), 600)
    assert pace.speed == 0
    pace.saw(95.0, 601)
    assert pace.still == 0


def test_a_slow_run_does_not_stand_still_between_two_jobs() -> None:
    pace = Pace()
    for second in range(60):
        pace.saw(float(second), second // 12)
    assert (pace.still, 0 < pace.speed < 0.1) == (0, True)
