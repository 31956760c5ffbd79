"""How long the desk's views take beside very many jobs, and how long `redrive` takes to start.

    python bench/desk.py [--jobs 1000000] [--kind sqlite] [--dead] [--rounds 7]

Each view is the program itself, in a fresh process; the middle of some rounds, in seconds by the clock
and, for a machine with other things to do, in seconds of work. The same view of an empty store, the
start-up, is taken off.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import server
from jobs import new_job

from redrive.jobs.job import Category, Failure, Job, Reason, State
from redrive.stores import open_store

GOAL = 0.2
"""Seconds for a view of a million jobs, without Python's start."""
BATCH = 20_000
CAUSES = 100
FEW = 20
"""Jobs of a store that counts as empty; some, because `group` needs one."""
DAY = 86_400.0
VIEWS = {
    "status": ["status"],
    "list": ["list"],
    "list of one state": ["list", "state:dead"],
    "list of one group": ["list", "G7"],
    "dlq": ["dlq"],
    "groups": ["groups"],
    "groups by growth": ["groups", "--sort", "growth"],
    "group": ["group", "G7"],
    "log": ["log"],
}


def main() -> None:
    """Fill a store and print a line for each view."""
    said = argparse.ArgumentParser()
    said.add_argument("--jobs", type=int, default=1_000_000)
    said.add_argument("--kind", choices=["sqlite", "postgresql", "both"], default="both")
    said.add_argument("--dead", action="store_true", help="all jobs are dead, instead of half")
    said.add_argument("--rounds", type=int, default=7)
    given = said.parse_args()
    start_up(given.rounds)
    for kind in ["sqlite", "postgresql"] if given.kind == "both" else [given.kind]:
        with place(kind) as url, place(kind) as empty:
            fill(url, given.jobs, dead=given.dead)
            fill(empty, FEW, dead=True)
            for name, words in VIEWS.items():
                whole, start = (
                    middle([*program(), *words, "--plain", "--store", one], given.rounds)
                    for one in (url, empty)
                )
                took, work = (max(0.0, one - two) for one, two in zip(whole, start, strict=True))
                late = " too long" * (took > GOAL)
                print(f"{kind:10} {name:20} {took:6.3f} s, {work:.3f} s of work{late}", flush=True)


def start_up(rounds: int) -> None:
    """Compare a list of an empty store with importing click alone."""
    with place("sqlite") as url:
        open_store(url).close()
        listed = middle([*program(), "list", "--plain", "--store", url], rounds)
    click = middle([sys.executable, "-c", "import click"], rounds)
    for what, one, other in zip(("by the clock", "of work"), listed, click, strict=True):
        print(f"list of an empty store: {one:.3f} s {what}, {one / other:.2f} x import click")


def program() -> list[str]:
    """Give the installed command beside this interpreter."""
    return [str(Path(sys.executable).with_name("redrive"))]


def middle(words: list[str], rounds: int) -> tuple[float, float]:
    """Run a program some times; give the middle of how long it took, and of how long it worked."""
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=compiled()
        )
        _, status, used = os.wait4(process.pid, 0)
        times.append((time.perf_counter() - began, used.ru_utime + used.ru_stime))
        if status:
            sys.exit(f"{words} failed")
    clock, work = zip(*times[1:], strict=True)
    return statistics.median(clock), statistics.median(work)


@functools.cache
def compiled() -> dict[str, str]:
    """Give an environment in which Python keeps what it compiled, as an installed program does."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return env | {"PYTHONPYCACHEPREFIX": tempfile.mkdtemp(prefix="redrive-bench-")}


@contextmanager
def place(kind: str) -> Generator[str]:
    """Give the URL of a store that does not exist yet."""
    if kind == "postgresql":
        url = server.new_database()
        try:
            yield url
        finally:
            server.drop(url)
        return
    with tempfile.TemporaryDirectory(prefix="redrive-bench-") as folder:
        yield f"sqlite:{folder}/jobs.db"


def fill(url: str, jobs: int, *, dead: bool) -> None:
    """Lay in jobs that ended in the last two days: half of them dead, of a hundred causes."""
    now = time.time()
    with closing(open_store(url)) as store:
        for start in range(0, jobs, BATCH):
            many = range(start, min(start + BATCH, jobs))
            store.add([make(number, now - 2 * DAY * number / jobs, dead=dead) for number in many])
    if url.startswith("postgresql"):
        with server.connect(url) as connection:
            connection.execute("VACUUM ANALYZE")


def make(number: int, at: float, *, dead: bool) -> Job:
    """Make the job of a number, of seven lanes and a hundred causes of uneven size."""
    lane = f"lane{number % 7}"
    if not dead and number % 4 == 0:
        return new_job(lane=lane, created=at, updated=at)
    if not dead and number % 4 == 1:
        return new_job(
            lane=lane, state=State.COMPLETED, reason=Reason.DONE, finished=at, updated=at
        )
    cause = f"cause{number * number % CAUSES}"
    failure = Failure(
        category=(Category.PERMANENT, Category.TRANSIENT)[number % 2], type="ValueError",
        message=f"no order of {cause}", fingerprint=cause, title=f"ValueError: {cause}",
    )  # fmt: skip
    return new_job(
        lane=lane, state=State.DEAD, reason=Reason.EXHAUSTED, failure=failure, attempts=3,
        spent={failure.category.value: 3}, finished=at, updated=at, first_failed=at - 60,
    )  # fmt: skip


if __name__ == "__main__":
    main()
