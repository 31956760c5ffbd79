"""Live random lives with every store for a long time, and report the first divergence of each.

    python rigs/machine.py                          100,000 steps for each store
    python rigs/machine.py --steps 1000000 jsonl    only that store, longer
    python rigs/machine.py --short                  a taste of it, for every change
    python rigs/machine.py --control                a store without a fence: must be found out

Seeds are fresh at every run but the short one; a divergence is shrunk and printed as the steps that lead to it.
Exit code 1 when something diverged (with --control: when nothing did).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from stores.contract.checks import Unfenced
from stores.contract.kinds import KINDS, Kind
from stores.contract.machine import machine_for

LIFE = 60
"""Steps of one life at most; then an empty store again."""

SHORT = {"memory": 12_000, "jsonl": 12_000, "sqlite": 8_000, "postgresql": 2_000}
"""Steps of the short form: more than 500 lives."""

CONTROL = Kind("unfenced", lambda _directory, clock: Unfenced(clock=clock))


def run(kind: Kind, steps: int, *, shrink: bool = True, same: bool = False) -> bool:
    """Live with one store, `same`: the lives of every such run; True if it did as the model says."""
    machine = machine_for(kind)
    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    began, diverged = time.monotonic(), 0
    while machine.steps < steps and not diverged:
        lives = max(1, (steps - machine.steps) // LIFE)
        try:
            run_state_machine_as_test(
                machine,
                settings=settings(
                    max_examples=lives,
                    stateful_step_count=LIFE,
                    deadline=None,
                    database=None,
                    derandomize=same,
                    phases=phases,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        except Exception:  # noqa: BLE001 - whatever it is, it is what we look for
            traceback.print_exc()
            diverged = 1
    seconds = time.monotonic() - began
    print(
        f"{kind.name}: {machine.steps:,} steps, {diverged} divergences, {seconds:.0f} s", flush=True
    )
    return not diverged


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(kind.name for kind in KINDS)}")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--short", action="store_true", help="fewer steps, for every change")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    if given.control:
        return 1 if run(CONTROL, given.steps, shrink=False) else 0
    chosen = [kind for kind in KINDS if not given.stores or kind.name in given.stores]
    if not chosen:
        parser.error(f"no such store: {' '.join(given.stores)}")
    results = [
        run(kind, SHORT[kind.name] if given.short else given.steps, same=given.short)
        for kind in chosen
    ]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
