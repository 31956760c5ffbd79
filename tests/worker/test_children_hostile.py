"""Whatever a handler does in a child, the worker lives and the exact end is recorded.

J4, J5, F36, F38-F40, F50, F51.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from childkit import end_of, evil_job, held, is_right_end, left
from redrive.attempts.executions import Execution
from redrive.jobs.clock import SystemClock
from redrive.jobs.outcomes import Done, Failed
from redrive.worker.children import Ran

Run = Callable[..., Ran]


SOME = [
    "exits",
    "is_killed",
    "segfaults",
    "aborts",
    "kills_its_group",
    "forks_and_hangs",
    "takes_signals",
    "stalls_the_loop",
    "moves",
    "raises_a_base_exception",
    "raises_what_cannot_be_said",
    "raises_a_long_story",
    "wants_too_much",
    "runs_nonsense",
]
"""One of each kind; the rig `evil` has them all."""


@pytest.mark.parametrize("name", SOME)
def test_an_evil_handler_comes_to_its_end_and_the_next_job_finds_all_as_it_was(
    run: Run, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = held()
    outcome = run(name).outcome
    assert is_right_end(name, outcome), end_of(outcome)
    assert isinstance(run("look").outcome, Done), "the next job was harmed"
    assert held() == before
    assert len(left(1)) == 1, "the child itself, and nothing that the handler left"
    assert len(capfd.readouterr().err) < 200_000


@pytest.mark.parametrize("name", ["sleeps", "spins", "holds_the_interpreter", "ignores_the_signal"])
def test_a_late_handler_is_ended_soon_after_its_limit(run: Run, name: str) -> None:
    """Asked at the limit (0.3 s), killed after the grace (0.5 s)."""
    ran = run(name)
    assert ran.duration >= 0.3
    assert time.time() - ran.started >= 0.3


def test_where_a_late_handler_stood_is_recorded_if_it_can_be_asked(run: Run) -> None:
    asked, stuck = run("sleeps").outcome, run("holds_the_interpreter").outcome
    assert isinstance(asked, Failed)
    assert isinstance(stuck, Failed)
    assert "time.sleep(3600)" in asked.failure.traceback
    assert stuck.failure.traceback == ""


@pytest.mark.parametrize("name", ["raises_half_characters", "gives_up", "exits"])
def test_a_failure_means_the_same_in_a_child_and_here(run: Run, name: str) -> None:
    """One cause is one group, wherever it was seen."""
    job, entry = evil_job(name)
    execution = Execution(entry, job, SystemClock())
    with execution:
        entry.function()
    here, there = execution.outcome, run(name).outcome
    assert isinstance(here, Failed)
    assert isinstance(there, Failed)
    assert replace(here.failure, traceback="") == replace(there.failure, traceback="")
    assert here.failure.traceback.splitlines()[-3:] == there.failure.traceback.splitlines()[-3:]
