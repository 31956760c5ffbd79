"""One job that takes its process with it, among 500: it dies of its third crash, and it alone.

    python rigs/poison.py            every way to run it and to die of it, on every store
    python rigs/poison.py --short    three of them, on SQLite
    python rigs/poison.py --control  builds that run suspects together, or take unbegun jobs for begun

A supervisor with two worker processes (one for JSON Lines) of 8 slots works off 500 jobs in batches
of 100. One of them ends its process, kills it, or kills the whole tree, supervisor and all; then the
rig starts everything again. Handlers that may run but once never run twice; they die with it where
they had begun, and not where they had not: but for one in each process that dies, which was noted as
begun in that very moment.
Who began is written down by the handlers themselves, outside the store.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from scene import KINDS, place

from crewkit import Crew, app_of, crew, fill
from redrive import Job, Redrive

JOBS = 500
HERE = Path(__file__).parent
OPTIONS = ("--batch", "100", "--concurrency", "8", "--processes")


@dataclass(frozen=True)
class Case:
    """What is run: a store, a handler of the program, how the poison works, a sabotage."""

    kind: str
    handler: str
    deed: str
    broken: str = ""

    def __str__(self) -> str:
        words = f"poison {self.kind} {self.handler} {self.deed}"
        return f"{words} ({self.broken})" if self.broken else words


FULL = [
    Case(kind, handler, deed)
    for kind in KINDS
    for handler in ("work", "beside", "once")
    for deed in ("2", "kill", *["tree"] * 5)  # now and then two suspects would die together
]
SHORT = [Case("sqlite", *rest) for rest in (("work", "tree"), ("beside", "2"), ("once", "kill"))]
CONTROLS = [
    Case("sqlite", "beside", "kill", broken="together"),
    Case("sqlite", "once", "kill", broken="unasked"),
]


def run(case: Case) -> list[str]:
    """Run one case; what is wrong, and a line of figures."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="redrive-rig-") as directory, place(case.kind) as url:
        poison = random.randrange(JOBS // 5, JOBS // 2)
        with app_of(url) as app:
            fill(app, case.handler, payloads(case, poison))
            options = [*OPTIONS, "1" if case.kind == "jsonl" or case.broken else "2"]
            more = {"CREW_LEASE": "1", "CREW_BROKEN": case.broken}
            with crew(
                Path(directory), url, *options, program="crewed:app", path=HERE, **more
            ) as made:
                starts = work_off(app, made)
            faults, words = judge(case, app, made, poison)
    seconds = time.monotonic() - began
    print(f"{case}: {words}, {starts} starts, {len(faults)} faults, {seconds:.0f} s", flush=True)
    return faults


def payloads(case: Case, poison: int) -> list[dict[str, object]]:
    """Return the jobs; all are quick, one is poison.

    In the control they last long enough to be there when the poison takes their process.
    """
    deeds = [case.deed if number == poison else "" for number in range(JOBS)]
    seconds = 0.2 if case.broken == "together" else 0.002
    return [{"number": n, "seconds": seconds, "deed": deed} for n, deed in enumerate(deeds)]


def work_off(app: Redrive, made: Crew) -> int:
    """Wait until nothing is left, starting the crew again whenever all of it is gone."""
    starts, end = 1, time.monotonic() + 120
    while any(count.state in {"pending", "running"} for count in app.desk.jobs.counts()):
        if made.process is None or made.process.poll() is not None:
            made.start()
            starts += 1
        if time.monotonic() > end:
            break
        time.sleep(0.05)
    return starts


def judge(case: Case, app: Redrive, made: Crew, poison: int) -> tuple[list[str], str]:
    """Compare what is stored with what the handlers wrote down."""
    began = Counter(one.job for one in made.ran())
    jobs = {job.id: job for job in app.desk.jobs.each()}
    numbers = {one.job: one.number for one in made.ran()}
    guilty = [job for job in jobs.values() if numbers.get(job.id) == poison]
    dead = [job for job in jobs.values() if job.state == "dead" and job not in guilty]
    faults = [f"there are {len(jobs)} jobs"] if len(jobs) != JOBS else []
    faults += [
        f"{job.id} is {job.state}" for job in jobs.values() if job.state in {"pending", "running"}
    ]
    for job in guilty:
        faults += guilt(job, began[job.id])
    faults += ["the poison never ran"] if not guilty else []
    never = [job.id for job in dead if not began[job.id]]
    killed = 2 if case.deed == "tree" and case.kind != "jsonl" else 1
    faults += [f"{one} is dead and never began" for one in never[killed:]]
    if case.handler == "once":
        faults += [f"{job} ran {runs} times" for job, runs in began.items() if runs > 1]
    faults += [f"{job.id} is dead: {job.detail}" for job in dead if job.max_attempts > 1]
    again = sum(began.values()) - len(began)
    words = f"{JOBS} jobs, poison began {began[guilty[0].id] if guilty else 0} times"
    return faults, f"{words}, {len(dead)} others dead, {len(never)} unbegun, {again} ran again"


def guilt(job: Job, runs: int) -> list[str]:
    """Say what is wrong with the end of the poison."""
    crashes = min(3, job.max_attempts)
    good = job.state == "dead" and job.crashes == crashes == runs
    return [] if good else [f"the poison is {job.state}, {job.crashes} crashes, {runs} runs"]


def main() -> int:
    """Run what is asked for; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("stores", nargs="*", help=f"of: {', '.join(KINDS)}; all if none is named")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    cases = CONTROLS if given.control else SHORT if given.short else FULL
    cases = [case for case in cases if not given.stores or case.kind in given.stores]
    if given.control:
        # Which suspects run beside the poison is chance, so it is tried again.
        missed = [case for case in cases if not any(run(case) for _ in range(4))]
        print(*(f"NOT FOUND OUT: {case}" for case in missed), sep="\n", end="")
        return 1 if missed else 0
    results = {case: run(case) for case in cases}
    for faults in results.values():
        print(*faults[:5], sep="\n", end="\n" if faults else "")
    return 1 if any(results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
