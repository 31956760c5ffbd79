"""What `verify` looks at in a schema of PostgreSQL, and what it tells about it."""

from __future__ import annotations

from collections.abc import Iterator

from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.report import Problem, Report
from redrive.stores.sql import damage

_LONG_AGO = 3600.0
_TELL = "export the jobs and import them into a new store; please report it"
_MEND = "set the column to NULL with psql, or restore a backup of the database"

_RULES = {
    "odd_place": "is pending, but neither waits nor runs; or does one of them too much",
    "odd_end": "is finished without a time, or has one without being finished",
    "odd_sort": "is filed under a wrong time or among the wrong jobs",
    "no_payload": "has no payload",
    "no_cause": "belongs to a group that does not exist",
    "stray_payload": "is gone, but its payload is not",
    "stray_place": "waits or runs where its record would not have it",
    "stray_attempt": "is gone, but its attempts are not",
}
"""Queries that find nothing in a sound store, and what is wrong with a job they find."""


def verify(tx: PostgresTx, place: str, facts: dict[str, str]) -> Report:
    """Check that the rows make sense together; the server itself sees to its pages."""
    problems = [*_broken_rules(tx, place), *damage.problems(tx, place, _MEND)]
    (jobs,) = tx.one("count_jobs") or (0,)
    return Report(int(jobs), problems, facts | _facts(tx))


def _broken_rules(tx: PostgresTx, place: str) -> Iterator[Problem]:
    for query, what in _RULES.items():
        for (job,) in tx.all(query):
            yield Problem(f"{place}: job {job}", what, _TELL)


def _facts(tx: PostgresTx) -> dict[str, str]:
    server, database, size, dead = tx.one("server") or ("", "", 0, 0)
    (version,) = tx.one("schema_version") or (0,)
    fsync, pages, commit = tx.one("durability") or ("", "", "")
    facts = {
        "server": f"PostgreSQL {server}",
        "database": str(database),
        "size": f"{size} bytes",
        "schema version": str(version),
        "settings": f"fsync {fsync}, full_page_writes {pages}, synchronous_commit {commit}",
        "old row versions": str(dead or 0),
    }
    (oldest,) = tx.one("old_snapshot") or (None,)
    if oldest is not None and oldest > _LONG_AGO:
        facts["old row versions"] += (
            f" (a transaction of {oldest:.0f} s keeps them from being removed, which slows claims)"
        )
    return facts
