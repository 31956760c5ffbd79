"""PostgreSQL: submits, one by one and in bulk, against the bare driver and peers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import ours
import server
from jobs import BYTES
from measure import Contestant, Goal, Measure, Stage, Submit, submitting
from peers import chancy, dbos, pgqueuer, procrastinate

from redrive.stores.contract import Store

BULK = 1000
ONE = "INSERT INTO jobs (due, payload) VALUES (%s, %b) RETURNING n"
MANY = "INSERT INTO jobs (due, payload) SELECT %s, * FROM unnest(%b::bytea[]) RETURNING n"


def open_at(url: str) -> Store:
    """Open the store of a database."""
    from redrive.stores.postgres import PostgresStore  # noqa: PLC0415 - the driver is an extra

    return PostgresStore(url)


def open_store(_stage: Stage) -> Store:
    """Open a new store in a database of its own."""
    return open_at(server.new_database())


@contextmanager
def raw(_stage: Stage) -> Iterator[Submit]:
    """Insert rows into one table; many of them as arrays, the quickest way that tells their ids."""
    with server.connect(server.new_database()) as connection:
        connection.execute(
            "CREATE TABLE jobs (n bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " due float8 NOT NULL, payload bytea NOT NULL)"
        )

        def insert(number: int, bulk: int) -> None:
            for _ in range(number // bulk):
                if bulk == 1:
                    connection.execute(ONE, (time.time(), BYTES)).fetchone()
                else:
                    connection.execute(MANY, (time.time(), [BYTES] * bulk)).fetchall()

        yield insert


SUBMIT = Measure(
    name="postgres-submit",
    title="PostgreSQL: submit, one job a call",
    unit="/s",
    contestants=(
        Contestant("Redrive", "P", submitting(ours.adding(open_store), full=2000)),
        Contestant("raw psycopg, one table", "P", submitting(raw, full=2000)),
        Contestant("pgqueuer", "P", submitting(pgqueuer.opened, full=2000)),
        Contestant("chancy", "P", submitting(chancy.opened, full=1000)),
        Contestant("procrastinate", "P", submitting(procrastinate.opened, full=1000)),
        Contestant("dbos", "P", submitting(dbos.opened, full=500, quick=100)),
        Contestant(
            "Redrive, handler.submit",
            "P",
            submitting(ours.handing(lambda _: server.new_database()), full=2000),
        ),
    ),
    goals=(
        Goal(
            "Redrive",
            "pgqueuer",
            1.0,
            1.15,
            why="within the spread of the two; two tables and four indexes",
        ),
    ),
    note="Async peers run on uvloop, which made them faster.",
    plotted=True,
)

BULKS = Measure(
    name="postgres-bulk",
    title="PostgreSQL: submit, 1000 jobs a call",
    unit="/s",
    contestants=(
        Contestant("Redrive", "P", submitting(ours.adding(open_store), full=20_000, bulk=BULK)),
        Contestant("raw psycopg, one table", "P", submitting(raw, full=20_000, bulk=BULK)),
        Contestant("pgqueuer", "P", submitting(pgqueuer.opened, full=20_000, bulk=BULK)),
        Contestant("chancy", "P", submitting(chancy.opened, full=4000, bulk=BULK)),
        Contestant("procrastinate", "P", submitting(procrastinate.opened, full=4000, bulk=BULK)),
        Contestant("dbos", "P", submitting(dbos.opened, full=1000, bulk=BULK)),
        Contestant(
            "Redrive, handler.submit_many",
            "P",
            submitting(ours.handing(lambda _: server.new_database()), full=20_000, bulk=BULK),
        ),
    ),
    goals=(
        Goal("Redrive", "pgqueuer", 1.0, 1.3, why="two tables and four indexes"),
        Goal(
            "Redrive, handler.submit_many",
            "Redrive",
            0.8,
            0.9,
            why="JSON, checks and record take 11 µs a job",
        ),
    ),
    note="Raw: one statement with a binary array. dbos: 1000 calls in one transaction.",
    plotted=True,
)
