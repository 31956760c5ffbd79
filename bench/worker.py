"""What worker processes get done a second: ours and those of peers, on the same work."""

from __future__ import annotations

from measure import Contestant, Goal, Measure
from worker_crew import cpu, huey, jsonl_url, on_server, ours, postgres_url, sqlite_url

NOTE = (
    "One worker process each, as it comes. The handler does nothing; history is kept. "
    "The clock runs from the tenth part of the runs to the last."
)
FLAKY = NOTE + " Of five jobs one fails twice, and is tried again without a wait."

SQLITE = Measure(
    name="sqlite-drain",
    title="SQLite: a worker drains a backlog",
    unit="/s",
    contestants=(
        Contestant("Redrive", "K", ours(sqlite_url, "noop", 20_000, 3000)),
        Contestant("SqliteHuey", "P", huey("sqlite")),
        Contestant("SqliteHuey, fsync=False", "K", huey("unsynced", full=10_000)),
    ),
    goals=(
        Goal("Redrive", "SqliteHuey", 6, 9),
        Goal("Redrive", "SqliteHuey, fsync=False", 1.7, 2.3),
    ),
    note=NOTE + " Submits are P in all but the last; Huey deletes a job before it runs.",
    plotted=True,
)

SQLITE_RETRY = Measure(
    name="sqlite-retry",
    title="SQLite: a worker drains jobs of which some fail",
    unit="/s",
    contestants=(
        Contestant("Redrive", "K", ours(sqlite_url, "flaky", 10_000, 2000)),
        Contestant("SqliteHuey", "P", huey("sqlite", "flaky", full=3000)),
        Contestant("SqliteHuey, fsync=False", "K", huey("unsynced", "flaky", full=6000)),
    ),
    goals=(Goal("Redrive", "SqliteHuey", 4, 5.5),),
    note=FLAKY,
    plotted=True,
)

JSONL = Measure(
    name="jsonl-drain",
    title="JSON Lines: a worker drains a backlog",
    unit="/s",
    contestants=(
        Contestant("Redrive", "K", ours(jsonl_url, "noop", 20_000, 3000)),
        Contestant("FileHuey", "K", huey("file", full=5000)),
    ),
    goals=(Goal("Redrive", "FileHuey", 10, 30),),
    note=NOTE + " FileHuey reads its whole directory for each job: the longer the slower.",
    plotted=True,
)

_NEAR = "within the spread of the two"
_MORE = "each end also writes the attempt's record, time buckets and groups"
_ENDS = (
    " Redrive waits for the disk at submits and claims, not at ends: a server that crashes may undo the"
    " last ones, and their jobs run again."
)

POSTGRES = Measure(
    name="postgres-drain",
    title="PostgreSQL: a worker drains a backlog",
    unit="/s",
    contestants=(
        Contestant("Redrive, batch 100", "K", ours(postgres_url, "noop", 20_000, 3000)),
        Contestant(
            "Redrive, batch 500",
            "K",
            ours(postgres_url, "noop", 20_000, 3000, "--batch", "500"),
        ),
        Contestant("pgqueuer, batch 100", "P", on_server("worker_pgqueuer.py", 100)),
        Contestant("pgqueuer, batch 500", "P", on_server("worker_pgqueuer.py", 500)),
        Contestant(
            "procrastinate, 50 at one time",
            "P",
            on_server("worker_procrastinate.py", 50, full=2000, quick=300),
        ),
    ),
    goals=(
        Goal("Redrive, batch 100", "pgqueuer, batch 100", 1.3, 1.6, why=_NEAR),
        Goal("Redrive, batch 500", "pgqueuer, batch 500", 1.3, 1.6),
        Goal("Redrive, batch 100", "procrastinate, 50 at one time", 8, 8),
    ),
    note=NOTE + _ENDS + " Tables are analysed before. Async peers run on uvloop.",
    plotted=True,
)

POSTGRES_RETRY = Measure(
    name="postgres-retry",
    title="PostgreSQL: a worker drains jobs of which some fail",
    unit="/s",
    contestants=(
        Contestant("Redrive, batch 100", "K", ours(postgres_url, "flaky", 10_000, 2000)),
        Contestant("pgqueuer, batch 100", "P", on_server("worker_pgqueuer.py", 100, "flaky", 5000)),
        Contestant(
            "procrastinate, 50 at one time",
            "P",
            on_server("worker_procrastinate.py", 50, "flaky", full=1500, quick=300),
        ),
    ),
    goals=(
        Goal("Redrive, batch 100", "pgqueuer, batch 100", 2.2, 3, why=_NEAR),
        Goal("Redrive, batch 100", "procrastinate, 50 at one time", 8, 8),
    ),
    note=FLAKY + _ENDS,
    plotted=True,
)

POSTGRES_CPU = Measure(
    name="postgres-cpu",
    title="PostgreSQL: CPU time of worker and server for a job",
    unit="µs",
    contestants=(
        Contestant("Redrive", "K", ours(postgres_url, "noop", 20_000, 3000, result=cpu)),
        Contestant("pgqueuer", "P", on_server("worker_pgqueuer.py", 100, result=cpu)),
    ),
    goals=(Goal("Redrive", "pgqueuer", 0.7, 0.6, at_most=True, why=_MORE),),
    note="As above, in batches of 100. User and system time of the worker process and of its sessions.",
)

MEASURES = (SQLITE, SQLITE_RETRY, JSONL, POSTGRES, POSTGRES_RETRY, POSTGRES_CPU)
