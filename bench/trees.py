"""Compare two source trees of Redrive in turns: CPU time a job, before and after a change.

    python bench/trees.py /path/to/before/src src          every case, 5 rounds
    python bench/trees.py /path/to/before/src src --rounds 9 submit

Each case runs in a process of its own, first with one tree, then with the other, and the order changes
each round. It prints the median CPU time (user and system) of both and their ratio: below 1 the second
tree is cheaper. Cases of PostgreSQL show the time of the program and that of its sessions (`+ server`);
those named `latency` show the wall time from submit to the handler's start instead. Only names that both
trees have are used: `Redrive`, `handler`, `submit`, `run_due`, `worker`, and the command line.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import server

PROGRAM = """
import os, sys, time
from redrive import Redrive
app = Redrive(os.environ["BENCH_STORE"])

@app.handler("noop")
def noop(n, text=""):
    if n < 0 or (os.environ.get("BENCH_FLAKY") and n % 5 == 0 and not hasattr(noop, "again")):
        raise ConnectionError("connection refused by 10.0.0.%d" % (n % 7))

def submit(jobs):
    for n in range(jobs):
        noop.submit(n, "x" * 1000)

def fill(jobs):  # many to a sync: it is not measured
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: noop.submit(n, "x" * 1000), range(jobs)))

class Sessions:  # those of PostgreSQL that work for this process

    def __init__(self, url):
        import psycopg
        self._connection = psycopg.connect(url, autocommit=True)

    def spent(self):
        rows = self._connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid()")
        return sum(self._of(pid) for (pid,) in rows) / 1e9

    def _of(self, pid):
        try:
            return int(open("/proc/%d/schedstat" % pid).read().split()[0])
        except OSError:  # it has just ended
            return 0

spent = time.process_time
url = os.environ["BENCH_STORE"]
server = Sessions(url).spent if url.startswith("postgresql") else lambda: 0.0

def latency():
    import statistics, threading
    begun = threading.Event()

    @app.handler("soon")
    def soon():
        begun.set()

    waits = []
    with app.worker(concurrency=4):
        for _ in range(jobs):
            time.sleep(0.02)
            begun.clear()
            start = time.perf_counter()
            soon.submit()
            begun.wait(10)
            waits.append(time.perf_counter() - start)
    return statistics.median(waits) * jobs

jobs = int(os.environ["BENCH_JOBS"])
case = os.environ["BENCH_CASE"]
if case == "latency":
    print(latency(), 0.0)
    sys.exit()
if case == "submit":
    app.store.now()
    began, server_began = spent(), server()
    submit(jobs)
else:
    fill(jobs)
    began, server_began = spent(), server()
    if case == "pass":
        app.run_due()
    else:
        with app.worker(concurrency=4, batch=int(os.environ["BENCH_BATCH"])):
            while sum(c.jobs for c in app.store.counts() if c.state in ("pending", "running") and not c.category):
                time.sleep(0.05)
print(spent() - began, server() - server_began)
"""

CASES = {
    "submit-sqlite": ("sqlite", "submit", 1000),
    "submit-jsonl": ("jsonl", "submit", 1000),
    "submit-memory": ("memory", "submit", 5000),
    "pass-sqlite": ("sqlite", "pass", 1000),
    "drain-sqlite": ("sqlite", "drain", 4000),
    "drain-jsonl": ("jsonl", "drain", 4000),
    "drain-memory": ("memory", "drain", 8000),
    "flaky-sqlite": ("sqlite", "flaky", 2000),
    "submit-postgres": ("postgresql", "submit", 1000),
    "drain-postgres": ("postgresql", "drain", 6000),
    "drain500-postgres": ("postgresql", "drain", 6000),
    "flaky-postgres": ("postgresql", "flaky", 3000),
    "latency-postgres": ("postgresql", "latency", 60),
}
COMMANDS = {
    "import": ["-c", "import redrive; redrive.Redrive"],
    "status": ["-m", "redrive", "status"],
}


class Cost(NamedTuple):
    """What one job, or one command, took, in microseconds."""

    program: float
    server: float = 0.0


def cost(tree: Path, name: str) -> Cost:
    """Run a case once; returns its CPU time for a job, or that of the whole command."""
    with tempfile.TemporaryDirectory() as directory:
        env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONHASHSEED": "0"}
        if name in COMMANDS:
            env["REDRIVE_STORE"] = f"sqlite:{directory}/redrive.db"
            subprocess.run(
                [sys.executable, "-m", "redrive", "init"], env=env, check=True, capture_output=True
            )
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *COMMANDS[name]], env=env, check=True, capture_output=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return Cost(spent * 1e6)
        kind, case, jobs = CASES[name]
        store = "memory:" if kind == "memory" else f"{kind}:{directory}/jobs"
        if kind == "postgresql":
            store = server.new_database()
        env |= {"BENCH_STORE": store, "BENCH_JOBS": str(jobs), "BENCH_CASE": case}
        env["BENCH_BATCH"] = "500" if "500" in name else "100"
        if case == "flaky":
            env["BENCH_FLAKY"] = "1"
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, check=True, stdout=subprocess.PIPE, text=True
        )
        if kind == "postgresql":
            server.drop(store)
        return Cost(*(float(one) / jobs * 1e6 for one in done.stdout.split()))


def main() -> None:
    """Measure both trees in turns and print medians and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("cases", nargs="*", help=f"of: {', '.join([*COMMANDS, *CASES])}")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_intermixed_args()
    trees = (asked.before.resolve(), asked.after.resolve())
    print(
        f"{'case':<18}{'before µs':>12}{'after µs':>12}{'ratio':>8}   CPU, median of {asked.rounds}"
    )
    for name in [*COMMANDS, *CASES]:
        if asked.cases and not any(name.startswith(case) for case in asked.cases):
            continue
        found: tuple[list[Cost], list[Cost]] = ([], [])
        for turn in range(asked.rounds):
            for which in (0, 1) if turn % 2 else (1, 0):
                found[which].append(cost(trees[which], name))
        for part, label in (("program", name), ("server", "  + server")):
            before, after = (
                statistics.median(getattr(one, part) for one in all_) for all_ in found
            )
            if before:
                print(f"{label:<18}{before:>12.1f}{after:>12.1f}{after / before:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
