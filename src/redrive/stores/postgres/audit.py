"""What `verify` looks at in a schema of PostgreSQL, and what it reports."""

from __future__ import annotations

from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.report import Report
from redrive.stores.sql.audit import problems

_LONG_AGO = 3600.0
_REMEDY = "set the column to NULL with psql, or restore a backup of the database"

_RULES = {
    "odd_place": "is not in exactly one of the tables open and ended",
    "stray_place": "is gone, but its state is not",
    "odd_lease": "has half a lease",
    "odd_state": "has ended in a state that does not exist",
    "no_cause": "belongs to a group that does not exist",
    "stray_attempt": "is gone, but its attempts are not",
}
"""Queries that find nothing in a sound store, and what is wrong with a job they find."""


def verify(tx: PostgresTx, place: str, facts: dict[str, str]) -> Report:
    """Check that the rows make sense together; the server itself sees to its pages."""
    found = list(problems(tx, place, _RULES, job_from_row, _REMEDY))
    (jobs,) = tx.one("count_jobs") or (0,)
    return Report(int(jobs), found, facts | _facts(tx))


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
