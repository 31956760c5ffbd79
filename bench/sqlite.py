"""SQLite: submits against the bare library and peers, claims and settlements against bare tables."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TypeVar

import ours
from jobs import HANDLER, TEXT, new_job, settlement
from measure import (
    Contestant,
    Goal,
    Measure,
    Round,
    Stage,
    Submit,
    cpu,
    report_cpu,
    seconds,
    submitting,
)
from peers import litequeue, persistqueue, sqlitehuey

from redrive.jobs.job import Claim
from redrive.stores.contract import Store

C = TypeVar("C")
S = TypeVar("S")

BATCH = 100


def connect(place: Path, synchronous: str) -> sqlite3.Connection:
    """Open a database in WAL mode, with a roomy cache."""
    connection = sqlite3.connect(place, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute("PRAGMA cache_size=-65536")
    return connection


@contextmanager
def raw(stage: Stage) -> Iterator[Submit]:
    """Insert rows into one table: what any store in SQLite has to pay."""
    with closing(connect(stage.fresh() / "raw.db", "FULL")) as connection:
        connection.execute("CREATE TABLE jobs (n INTEGER PRIMARY KEY, due REAL, payload TEXT)")

        def insert(number: int, bulk: int) -> None:
            for _ in range(number // bulk):
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany(
                    "INSERT INTO jobs (due, payload) VALUES (?, ?)", [(time.time(), TEXT)] * bulk
                )
                connection.execute("COMMIT")

        yield insert


BARE = """
CREATE TABLE jobs (
    n INTEGER PRIMARY KEY, state INTEGER NOT NULL, due REAL NOT NULL, attempts INTEGER NOT NULL,
    lease INTEGER NOT NULL, holder TEXT, lease_end REAL
);
CREATE INDEX pending ON jobs (due) WHERE state = 0;
CREATE TABLE payloads (n INTEGER PRIMARY KEY, payload TEXT NOT NULL);
CREATE TABLE attempts (
    n INTEGER, ordinal INTEGER, started REAL, duration REAL, outcome TEXT, PRIMARY KEY (n, ordinal)
) WITHOUT ROWID;
"""


class Bare:
    """Jobs in bare tables: leased, fenced and recorded, without anything else Redrive does."""

    def __init__(self, place: Path) -> None:
        self.connection = connect(place, "NORMAL")
        self.connection.execute("PRAGMA wal_autocheckpoint=10000")
        self.connection.executescript(BARE)

    def add(self, number: int) -> None:
        """Put jobs that are due."""
        (last,) = self.connection.execute("SELECT coalesce(max(n), 0) FROM jobs").fetchone()
        numbers, now = range(last + 1, last + number + 1), time.time()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "INSERT INTO jobs VALUES (?, 0, ?, 0, 0, NULL, NULL)", [(n, now) for n in numbers]
        )
        self.connection.executemany(
            "INSERT INTO payloads VALUES (?, ?)", [(n, TEXT) for n in numbers]
        )
        self.connection.execute("COMMIT")

    def claim(self, limit: int) -> list[tuple[int, int, int, str]]:
        """Lease the jobs that are due first: number, attempts, lease, payload."""
        now = time.time()
        self.connection.execute("BEGIN IMMEDIATE")
        rows: list[tuple[int, int, int, str]] = self.connection.execute(
            "SELECT n, attempts + 1, lease + 1, payload FROM jobs JOIN payloads USING (n)"
            " WHERE state = 0 AND due <= ? ORDER BY due LIMIT ?",
            (now, limit),
        ).fetchall()
        self.connection.executemany(
            "UPDATE jobs SET state = 1, attempts = ?, lease = ?, holder = 'bench', lease_end = ?"
            " WHERE n = ?",
            [(attempts, lease, now + 60, n) for n, attempts, lease, _ in rows],
        )
        self.connection.execute("COMMIT")
        return rows

    def settle(self, rows: list[tuple[int, int, int, str]]) -> None:
        """Complete jobs whose lease is still ours, with a record of the attempt."""
        now = time.time()
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany(
            "UPDATE jobs SET state = 2, due = ?, holder = NULL, lease_end = NULL"
            " WHERE n = ? AND state = 1 AND lease = ? AND holder = 'bench'",
            [(now, n, lease) for n, _, lease, _ in rows],
        )
        self.connection.executemany(
            "INSERT INTO attempts VALUES (?, ?, ?, 0.001, 'done')",
            [(n, lease, now) for n, _, lease, _ in rows],
        )
        self.connection.execute("COMMIT")


@contextmanager
def bare_drain(stage: Stage) -> Iterator[Round]:
    """Claim and settle in the bare tables."""
    bare = Bare(stage.fresh() / "bare.db")
    number = stage.size(20_000, 2000)

    def one_round() -> float:
        bare.add(number)
        return number / drained(lambda: bare.claim(BATCH), bare.settle, lambda row: row)

    with closing(bare.connection):
        yield one_round


def drain(
    open_store: Callable[[Stage], Store],
) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Claim and settle through a store of ours."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = stage.size(20_000, 2000)
        with closing(open_store(stage)) as store:

            def claim() -> list[Claim]:
                return store.claim({HANDLER}, limit=BATCH, holder="bench", lease_for=60)

            def one_round() -> float:
                for _ in range(number // 1000):
                    store.add([new_job() for _ in range(1000)])
                return number / drained(claim, store.settle, settlement)

            yield one_round

    return prepare


def drained(
    claim: Callable[[], list[C]],
    settle: Callable[[list[S]], object],
    ended: Callable[[C], S],
) -> float:
    """Claim and settle until there is nothing left; gives the seconds spent in these two calls."""
    spent = used = 0.0
    jobs = 0
    while True:
        began, before = time.perf_counter(), cpu()
        claims = claim()
        spent, used = spent + time.perf_counter() - began, used + cpu() - before
        if not claims:
            report_cpu(jobs, used)
            return spent
        jobs += len(claims)
        results = [ended(one) for one in claims]
        before = cpu()
        spent += seconds(lambda: settle(results))  # noqa: B023 - called at once
        used += cpu() - before


_JSON = "JSON, id and record take 5.5 µs unchecked, where the store takes 12.5 in all"
_TREES = "three tables and four indexes, where Huey has one of each"

SUBMIT = Measure(
    name="sqlite-submit",
    title="SQLite: submit",
    unit="/s",
    contestants=(
        Contestant("Redrive", "P", submitting(ours.adding(ours.sqlite))),
        Contestant("raw sqlite3, one table", "P", submitting(raw)),
        Contestant("SqliteHuey", "P", submitting(sqlitehuey.opened)),
        Contestant("persist-queue", "P", submitting(persistqueue.opened)),
        Contestant("litequeue", "K", submitting(litequeue.opened)),
        Contestant(
            "Redrive, handler.submit",
            "P",
            submitting(ours.handing(lambda place: f"sqlite:{place / 'jobs.db'}")),
        ),
    ),
    goals=(
        Goal("Redrive", "SqliteHuey", 0.9, 1.0, why=_TREES),
        Goal("Redrive", "raw sqlite3, one table", 0.5, 0.6),
    ),
    note="One thread, one job a call.",
    plotted=True,
)

SHARED = Measure(
    name="sqlite-shared",
    title="SQLite: submit, many jobs to a sync",
    unit="/s",
    contestants=(
        Contestant("Redrive, 1 thread", "P", submitting(ours.adding(ours.sqlite))),
        Contestant(
            "Redrive, 32 threads",
            "P",
            submitting(ours.adding(ours.sqlite, threads=32), full=9600, quick=960),
        ),
        Contestant(
            "Redrive, 1000 a call",
            "P",
            submitting(ours.adding(ours.sqlite), full=20_000, quick=3000, bulk=1000),
        ),
        Contestant(
            "Redrive, handler.submit_many",
            "P",
            submitting(
                ours.handing(lambda place: f"sqlite:{place}/jobs.db"),
                full=20_000,
                quick=3000,
                bulk=1000,
            ),
        ),
        Contestant(
            "raw sqlite3, 1000 a transaction",
            "P",
            submitting(raw, full=20_000, quick=3000, bulk=1000),
        ),
    ),
    goals=(
        Goal(
            "Redrive, 32 threads",
            "Redrive, 1 thread",
            3,
            4,
            why="one thread is already bound by the processor",
        ),
        Goal("Redrive, 1000 a call", "Redrive, 1 thread", 10, 13),
        Goal("Redrive, handler.submit_many", "Redrive, 1000 a call", 0.8, 0.9, why=_JSON),
    ),
)

SETTLE = Measure(
    name="sqlite-settle",
    title="SQLite: claim 100 and settle 100, with the record of each attempt",
    unit="/s",
    contestants=(
        Contestant("Redrive", "K", drain(ours.sqlite)),
        Contestant("bare tables", "K", bare_drain),
    ),
    goals=(Goal("Redrive", "bare tables", 0.28, 0.4),),
    note="Time within the two calls. Bare tables: plain sqlite3, narrow rows, a transaction a call.",
    plotted=True,
)
