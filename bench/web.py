"""How long the server takes to answer beside very many jobs.

    python bench/web.py [--jobs 1000000] [--kind sqlite] [--rounds 20]

`redrive serve` in a process of its own, asked over loopback on one connection. A health that was asked
within two seconds comes from memory; "counted anew" waits until it does not.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from desk import fill, place, program

TOLD = ("health", "health, no token")
GOAL = 0.05
"""Seconds for health, warm."""
TOKEN = "bench-" + "x" * 30
FRESH = 2.0
QUESTIONS = {
    "healthz": "/healthz",
    "health": "/api/v1/health",
    "readyz": "/readyz",
    "a page of jobs": "/api/v1/jobs",
    "a page of dead jobs": "/api/v1/jobs?q=state:dead&limit=200",
    "groups": "/api/v1/groups",
    "metrics": "/metrics",
}


PAGES = {
    "/": 0.3,
    "/groups": 0.16,
    "/groups/G1": 0.3,
    "/jobs": 0.03,
    "/jobs?q=G1": 0.3,
    "/runs": 0.02,
    "/system": 0.3,
}
"""Pages of the console, and the seconds that each may take when nothing is in the cache."""
TABS, WATCHED = 20, 30.0


def main() -> None:
    """Fill a store, serve it, and print a line for each question."""
    said = argparse.ArgumentParser()
    said.add_argument("--jobs", type=int, default=1_000_000)
    said.add_argument("--kind", choices=["sqlite", "postgresql", "both"], default="both")
    said.add_argument("--rounds", type=int, default=20)
    given = said.parse_args()
    for kind in ["sqlite", "postgresql"] if given.kind == "both" else [given.kind]:
        with place(kind) as url:
            fill(url, given.jobs, dead=False)
            with served(url) as (client, pid):
                for name, path in QUESTIONS.items():
                    show(kind, name, asked(client, path, given.rounds))
                anew = asked(client, QUESTIONS["health"], 5, rest=FRESH + 0.1)
                show(kind, "health, counted anew", anew)
                console(kind, client, pid)
                del client.headers["authorization"]
                probed = asked(client, QUESTIONS["health"], 5, rest=FRESH + 0.1)
                show(kind, "health, no token", probed)


def console(kind: str, client: httpx.Client, pid: int) -> None:
    """Measure pages, first and from the cache, and what twenty tabs of the Overview cost the server."""
    origin = {"origin": str(client.base_url).rstrip("/")}
    client.post("/sign-in", data={"token": TOKEN}, headers=origin)
    for path, goal in PAGES.items():
        first = [took(client, path) for _ in range(3) if not time.sleep(5.1)]
        then = [took(client, path) for _ in range(10)]
        late = " too long" * (statistics.median(first) > goal)
        print(
            f"{kind:10} {path:22} first {statistics.median(first) * 1e3:7.1f} ms  "
            f"then {statistics.median(then) * 1e3:6.1f} ms{late}"
        )
    before, end = cpu(pid), time.monotonic() + WATCHED
    while (now := time.monotonic()) < end:
        for _ in range(TABS):
            client.get("/", headers={"hx-request": "true"}).raise_for_status()
        time.sleep(max(0.0, now + 5 - time.monotonic()))
    share = (cpu(pid) - before) / (time.monotonic() - end + WATCHED)
    print(f"{kind:10} {TABS} tabs of the Overview: {share:.1%} of a core")
    sys.stdout.flush()


def took(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    client.get(path).raise_for_status()
    return time.perf_counter() - began


def cpu(pid: int) -> float:
    """Return the seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def show(kind: str, name: str, times: list[float]) -> None:
    middle, worst = statistics.median(times), max(times)
    late = " too long" * (name in TOLD and middle > GOAL)
    print(f"{kind:10} {name:22} middle {middle * 1e3:7.1f} ms  worst {worst * 1e3:7.1f} ms{late}")
    sys.stdout.flush()


def asked(client: httpx.Client, path: str, rounds: int, rest: float = 0.0) -> list[float]:
    """Ask some times, the first one aside; give how long each took."""
    times: list[float] = []
    for _ in range(rounds + 1):
        time.sleep(rest)
        began = time.perf_counter()
        client.get(path).raise_for_status()
        times.append(time.perf_counter() - began)
    return times[1:]


@contextmanager
def served(url: str) -> Iterator[tuple[httpx.Client, int]]:
    """Serve a store on a free port, and end the server afterwards."""
    command = [*program(), "serve", "--port", "0", "--store", url]
    env = {**os.environ, "REDRIVE_ACT_TOKEN": TOKEN}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving on (\S+)", line)
        if found is None:
            sys.exit(f"the server did not start: {line}")
        headers = {"authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=found[1], headers=headers, timeout=60) as client:
            yield client, process.pid
    finally:
        process.terminate()
        process.wait(20)


if __name__ == "__main__":
    main()
