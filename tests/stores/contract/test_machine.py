"""Random lives of every store, compared with a model step by step; see machine.py and checks.py.

A few short lives that are the same every time. The search is a rig, with fresh seeds and long lives:
`python rigs/machine.py`, and for every change `python rigs/machine.py --short`.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from stores.contract.checks import Unfenced
from stores.contract.kinds import Kind
from stores.contract.machine import machine_for

LIVES = {"memory": 60, "jsonl": 60, "sqlite": 40, "postgresql": 10}

SETTINGS = settings(
    deadline=None,
    database=None,
    derandomize=True,
    stateful_step_count=40,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.mark.timeout(300)
def test_every_store_lives_as_the_model_says(kind: Kind) -> None:
    """No job lost, one live lease, one record an ended claim, only TRANSITIONS."""
    lives = settings(SETTINGS, max_examples=LIVES[kind.name])
    run_state_machine_as_test(machine_for(kind), settings=lives)


def test_a_store_without_a_fence_is_found_out() -> None:
    """The negative control: the machine can fail."""
    loose = Kind("unfenced", lambda _directory, clock: Unfenced(clock=clock))
    with pytest.raises(AssertionError, match="fence"):
        run_state_machine_as_test(
            machine_for(loose),
            settings=settings(SETTINGS, max_examples=200, phases=[Phase.generate]),
        )
