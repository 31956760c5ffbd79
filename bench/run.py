"""Measure the stores against the bare disk and bare SQLite, in one run.

    python bench/run.py             every measure, median of 5 interleaved rounds
    python bench/run.py --rounds 3  quicker

Ratios are what counts: absolute figures belong to one disk on one day. Durability is named, because
a figure without it means nothing: P survives a power cut, K survives kill -9.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from redrive import _ids
from redrive.job import Attempt, Claim, Completed, Job, Reason, Settlement
from redrive.stores.base import Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.sqlite import SqliteStore

PAYLOAD = json.dumps({"id": 7, "text": "x" * 1000}, separators=(",", ":"))
NOISY = 0.25


@dataclass(frozen=True)
class Measure:
    """One thing to measure: gives how many a second; `against` is what it is compared with."""

    name: str
    durability: str
    run: Callable[[Path], float]
    against: str = ""


def new_job() -> Job:
    """Make a pending job of a kibibyte."""
    now = time.time()
    return Job(
        id=_ids.new_id(), handler="h", lane="h", payload=PAYLOAD,
        created=now, due=now, since=now, updated=now, limit=10,
    )  # fmt: skip


def timed(number: int, work: Callable[[], object]) -> float:
    """Give how many a second, if `work` does so many."""
    began = time.perf_counter()
    work()
    return number / (time.perf_counter() - began)


def raw_append(directory: Path, number: int = 2000) -> float:
    """Write and fdatasync, one line each."""
    descriptor = os.open(directory / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    line = PAYLOAD.encode() + b"\n"

    def work() -> None:
        for _ in range(number):
            os.write(descriptor, line)
            os.fdatasync(descriptor)

    rate = timed(number, work)
    os.close(descriptor)
    return rate


def raw_sqlite(directory: Path, number: int = 2000) -> float:
    """Insert one row a transaction, WAL and FULL."""
    connection = sqlite3.connect(directory / "raw.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, state TEXT, due REAL, payload TEXT)")

    def work() -> None:
        for _ in range(number):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO t (state, due, payload) VALUES ('p', 1.0, ?)", (PAYLOAD,)
            )
            connection.execute("COMMIT")

    rate = timed(number, work)
    connection.close()
    return rate


def submit(make: Callable[[Path], Store], *, threads: int = 1, bulk: int = 1, number: int = 2000):  # noqa: ANN201
    """Add jobs one by one or in bulk, from one thread or many."""

    def run(directory: Path) -> float:
        store = make(directory)
        each = number // threads // bulk

        def work() -> None:
            for _ in range(each):
                store.add([new_job() for _ in range(bulk)])

        def all_threads() -> None:
            pool = [threading.Thread(target=work) for _ in range(threads)]
            for thread in pool:
                thread.start()
            for thread in pool:
                thread.join()

        rate = timed(each * bulk * threads, work if threads == 1 else all_threads)
        store.close()
        return rate

    return run


def drain(make: Callable[[Path], Store], *, batch: int = 100, number: int = 20_000):  # noqa: ANN201
    """Claim and settle, with an attempt's record each."""

    def run(directory: Path) -> float:
        store = make(directory)
        for _ in range(0, number, 1000):
            store.add([new_job() for _ in range(1000)])

        def work() -> None:
            while claims := store.claim({"h"}, limit=batch, holder="bench", lease_for=60):
                store.settle([settlement(claim) for claim in claims])

        rate = timed(number, work)
        store.close()
        return rate

    return run


def settlement(claim: Claim) -> Settlement:
    """Give the good end of a claim."""
    job = claim.job
    attempt = Attempt(
        ordinal=job.lease, number=job.attempts, life=0, started=job.updated, duration=0.001,
        worker="bench", outcome="done",
    )  # fmt: skip
    return Settlement(claim, Completed(Reason.DONE), attempt)


def sqlite(directory: Path) -> Store:
    """Open the default store."""
    return SqliteStore(directory / "jobs.db")


def jsonl(directory: Path) -> Store:
    """Open the readable store."""
    return JsonlStore(directory / "jobs.jsonl")


MEASURES = [
    Measure("raw write + fdatasync", "P", raw_append),
    Measure("raw sqlite3, 1 row a commit", "P", raw_sqlite),
    Measure("SQLite submit, 1 thread", "P", submit(sqlite), "raw sqlite3, 1 row a commit"),
    Measure(
        "SQLite submit, 32 threads",
        "P",
        submit(sqlite, threads=32, number=9600),
        "SQLite submit, 1 thread",
    ),
    Measure(
        "SQLite submit, 1000 a call",
        "P",
        submit(sqlite, bulk=1000, number=20_000),
        "SQLite submit, 1 thread",
    ),
    Measure("SQLite claim + settle, 100", "K", drain(sqlite), "SQLite submit, 1 thread"),
    Measure("JSON Lines submit, 1 thread", "P", submit(jsonl), "raw write + fdatasync"),
    Measure(
        "JSON Lines submit, 32 threads",
        "P",
        submit(jsonl, threads=32, number=9600),
        "JSON Lines submit, 1 thread",
    ),
    Measure(
        "JSON Lines submit, 1000 a call",
        "P",
        submit(jsonl, bulk=1000, number=20_000),
        "JSON Lines submit, 1 thread",
    ),
    Measure("JSON Lines claim + settle, 100", "K", drain(jsonl), "JSON Lines submit, 1 thread"),
]


def main() -> None:
    """Measure in interleaved rounds and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {measure.name: [] for measure in MEASURES}
    for _ in range(rounds):
        for measure in MEASURES:
            with tempfile.TemporaryDirectory() as directory:
                found[measure.name].append(measure.run(Path(directory)))
    print("| measure | durability | per second | spread | ratio |\n|---|---|---|---|---|")
    for measure in MEASURES:
        rates = found[measure.name]
        median = statistics.median(rates)
        spread = (max(rates) - min(rates)) / median
        ratio = ""
        if measure.against:
            ratio = f"{median / statistics.median(found[measure.against]):.2f} × {measure.against}"
        noisy = " (noisy: measure again)" if spread > NOISY else ""
        print(
            f"| {measure.name} | {measure.durability} | {median:,.0f} | {spread:.0%}{noisy} | {ratio} |"
        )


if __name__ == "__main__":
    main()
