"""Random lives of every store, compared with a model step by step; see machine.py and checks.py.

In a normal run, a few hundred short lives that are the same every time. REDRIVE_STEPS=100000 makes
it a search: fresh seeds, long lives, so many steps for each store.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from stores.contract.checks import Unfenced
from stores.contract.kinds import KINDS, Kind
from stores.contract.machine import machine_for

STEPS = int(os.environ.get("REDRIVE_STEPS", "0"))
LIFE = 60 if STEPS else 40
SHORT = {"sqlite": 250, "postgresql": 60}
OTHERS = 400
"""Lives of a store in a normal run."""

SETTINGS = settings(
    deadline=None,
    database=None,
    derandomize=not STEPS,
    stateful_step_count=LIFE,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)


@pytest.mark.timeout(max(300, STEPS))
def test_every_store_lives_as_the_model_says(kind: Kind) -> None:
    """T1, M2, M5, M6, M7: no job lost, one live lease, one record an ended claim, only TRANSITIONS."""
    machine = machine_for(kind)
    lives = max(1, STEPS // LIFE) if STEPS else SHORT.get(kind.name, OTHERS)
    run_state_machine_as_test(machine, settings=settings(SETTINGS, max_examples=lives))
    print(f"{kind.name}: {machine.steps} steps, 0 divergences")  # noqa: T201 - the long form's result


def test_a_store_without_a_fence_is_found_out() -> None:
    """The negative control: the machine can fail."""
    loose = Kind("unfenced", lambda _directory, clock: Unfenced(clock=clock))
    with pytest.raises(AssertionError, match="fence"):
        run_state_machine_as_test(
            machine_for(loose),
            settings=settings(SETTINGS, max_examples=200, phases=[Phase.generate]),
        )


def test_the_machine_runs_at_least_five_hundred_lives() -> None:
    assert sum(SHORT.get(kind.name, OTHERS) for kind in KINDS) >= 500
