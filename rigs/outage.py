"""A dependency is down for an hour while 100,000 jobs need it: no job pays for it, and none floods it.

    python rigs/outage.py            100,000 jobs in memory, 10,000 in SQLite, 3,000 for a worker
    python rigs/outage.py --short    fewer
    python rigs/outage.py --control  without a pause, or with one that lets everything go at once

In memory and in SQLite the hour is simulated, with a pass every ten seconds, and once a second while
the backlog is let go. The third is a worker in threads, on SQLite, in real time: there the hour is 20
seconds, and a probe goes every second. The dependency itself writes down when it was called. Held
against that: while it was down only the jobs that tripped the pause and the probes called it, and
only the former spent an attempt; afterwards no second saw more calls than the rate, or half as many
again for the worker, which looks every 0.2 s; and in the end all are completed.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "kits"))

from broken import workers

from crewkit import fill
from redrive import Pause, Policy, Redrive, exponential
from redrive.jobs.clock import Clock, SystemClock
from redrive.testing import ManualClock

AFTER = 10
BATCH = 100


@dataclass(frozen=True)
class Case:
    """What is run: where, how many jobs, for how long it is down, jobs a second afterwards."""

    kind: str
    jobs: int
    down: float
    rate: float
    probe: float = 60.0
    broken: str = ""

    def __str__(self) -> str:
        return f"outage {self.kind}{f' ({self.broken})' if self.broken else ''}"


FULL = [
    Case("memory", 100_000, 3600, 100),
    Case("sqlite", 10_000, 3600, 100),
    Case("worker", 3_000, 20, 100, probe=1),
]
SHORT = [
    Case("memory", 5_000, 3600, 100),
    Case("sqlite", 1_000, 3600, 50),
    Case("worker", 500, 5, 100, probe=1),
]
CONTROLS = [
    Case("memory", 2_000, 3600, 100, broken="pauseless"),
    Case("memory", 2_000, 3600, 100, broken="flood"),
]


class Dependency:
    """Something that jobs call: down until a second of the clock. It remembers when it was called."""

    def __init__(self, clock: Clock, down: float) -> None:
        self._clock = clock
        self.began = clock.now()
        self.up = self.began + down
        self.calls: list[float] = []

    def call(self) -> None:
        """Answer, or fail."""
        now = self._clock.now()
        self.calls.append(now)
        if now < self.up:
            raise ConnectionRefusedError(111, "the dependency is down")

    @property
    def is_up(self) -> bool:
        """Whether it works again."""
        return self._clock.now() >= self.up


@contextlib.contextmanager
def program(case: Case, clock: Clock) -> Iterator[tuple[Redrive, Dependency]]:
    """Give an app whose jobs depend on something that is down."""
    dependency = Dependency(clock, case.down)
    pause = None if case.broken == "pauseless" else Pause(AFTER, case.probe, case.rate)
    policy = Policy(attempts=5, wait=exponential(1, cap=300), pause=pause)
    with tempfile.TemporaryDirectory(prefix="redrive-rig-") as directory:
        where = "memory:" if case.kind == "memory" else f"{directory}/jobs.db"
        with Redrive(where, policy=policy, clock=clock, lease=1e6) as app:

            @app.handler("call")
            def call(number: int) -> None:  # noqa: ARG001
                dependency.call()

            fill(app, "call", ({"number": number} for number in range(case.jobs)))
            yield app, dependency


def run(case: Case) -> list[str]:
    """Run one case and print its figures; what is wrong."""
    began = time.monotonic()
    workers.sabotage(case.broken if case.broken == "flood" else "")
    clock = SystemClock() if case.kind == "worker" else ManualClock()
    with program(case, clock) as (app, dependency):
        if isinstance(clock, ManualClock):
            passes(app, clock, dependency)
        else:
            work(app, case)
        faults, words = judge(app, dependency, case)
    seconds = time.monotonic() - began
    print(f"{case}: {words}, {len(faults)} faults, {seconds:.0f} s", flush=True)
    return faults


def passes(app: Redrive, clock: ManualClock, dependency: Dependency) -> None:
    """One pass after the other until nothing is left, or nothing is done any more."""
    while not dependency.is_up:
        app.run_due()
        clock.advance(10)
    done = 1
    while done and left(app):
        done = 0
        for _ in range(70):
            done += app.run_due().taken
            clock.advance(1)


def work(app: Redrive, case: Case) -> None:
    """Have a worker do it."""
    end = time.monotonic() + case.down + 3 * case.jobs / case.rate + 30
    with app.worker(batch=BATCH):
        while left(app) and time.monotonic() < end:
            time.sleep(0.05)


def left(app: Redrive) -> int:
    """Count what is not yet at its end."""
    return sum(
        count.jobs for count in app.desk.jobs.counts() if count.state in {"pending", "running"}
    )


def judge(app: Redrive, dependency: Dependency, case: Case) -> tuple[list[str], str]:
    """Compare what is stored with what the dependency saw."""
    states = Counter(str(job.state) for job in app.desk.jobs.each())
    failures = sum(job.attempts for job in app.desk.jobs.each()) - states["completed"]
    down = sum(at < dependency.up for at in dependency.calls)
    after = [at for at in dependency.calls if at >= dependency.up]
    peak = most_in_a_second(after)
    tripping = AFTER + (BATCH if case.kind == "worker" else 0)
    expected = tripping + math.ceil(case.down / case.probe)
    most = case.rate * 1.5 if case.kind == "worker" else case.rate
    faults = [f"{number:,} jobs are {s}" for s, number in states.items() if s != "completed"]
    faults += [f"{down:,} calls while it was down"] if down > expected else []
    faults += [f"{failures:,} attempts were spent"] if failures > tripping else []
    faults += [f"{peak:,} calls in a second"] if peak > most else []
    last = max(dependency.calls) - dependency.up
    slow = last > 1.2 * case.jobs / case.rate + 2 * case.probe + 5
    faults += [f"it took {last:,.0f} s"] if slow else []
    return faults, (
        f"{case.jobs:,} jobs, down for {case.down:,.0f} s: {down:,} calls and {failures:,} attempts "
        f"spent; then at most {peak:,} a second of {case.rate:g}, over after {last:,.0f} s"
    )


def most_in_a_second(times: list[float]) -> int:
    """Give the greatest number of calls in any second."""
    most, start = 0, 0
    for end, at in enumerate(sorted(times)):
        while times[start] <= at - 1.0:
            start += 1
        most = max(most, end - start + 1)
    return most


def main() -> int:
    """Run what is asked for; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    cases = CONTROLS if given.control else SHORT if given.short else FULL
    results = {case: run(case) for case in cases}
    if given.control:
        missed = [case for case, faults in results.items() if not faults]
        print(*(f"NOT FOUND OUT: {case}" for case in missed), sep="\n", end="")
        return 1 if missed else 0
    for faults in results.values():
        print(*faults[:5], sep="\n", end="\n" if faults else "")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
