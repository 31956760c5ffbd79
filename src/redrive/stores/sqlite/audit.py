"""What `verify` looks at in a SQLite file, and what it reports."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from redrive.stores.report import Problem, Report
from redrive.stores.sql.audit import problems
from redrive.stores.sqlite.rows import job_from_row
from redrive.stores.sqlite.tx import SqliteTx

_RACE_FIXED = (3, 51, 3)
_RESTORE = "keep a copy, then restore a backup or use the .recover command of the sqlite3 shell"
_REMEDY = "keep a copy; set the column to NULL with the sqlite3 shell, or restore a backup"

_RULES = {
    "odd_lease": "is running without a holder, or has one without running",
    "no_payload": "has no payload",
    "no_cause": "belongs to a group that does not exist",
    "stray_payload": "is gone, but its payload is not",
    "stray_attempt": "is gone, but its attempts are not",
}
"""Queries that find nothing in a sound store, and what is wrong with a job they find."""


def verify(tx: SqliteTx, place: Path, facts: dict[str, str]) -> Report:
    """Check the file's structure, then that the rows make sense together."""
    found = list(_broken_pages(tx, place)) or list(
        problems(tx, str(place), _RULES, job_from_row, _REMEDY)
    )
    jobs = 0 if found else int((tx.one("count_jobs") or (0,))[0])
    return Report(jobs, found, facts | _facts(tx, place))


def _broken_pages(tx: SqliteTx, place: Path) -> Iterator[Problem]:
    try:
        for (problem,) in tx.all("check_pages"):
            if problem != "ok":
                yield Problem(str(place), problem, _RESTORE)
    except sqlite3.DatabaseError as error:
        yield Problem(str(place), str(error), _RESTORE)


def _facts(tx: SqliteTx, place: Path) -> dict[str, str]:
    (version,) = tx.one("schema_version") or (0,)
    (mode,) = tx.one("journal_mode") or ("",)
    facts = {
        "path": str(place),
        "size": f"{place.stat().st_size} bytes",
        "schema version": str(version),
        "journal mode": str(mode),
        "sqlite": sqlite3.sqlite_version,
    }
    if sqlite3.sqlite_version_info < _RACE_FIXED:
        facts["sqlite"] += " (before 3.51.3: its checkpoint race is avoided by our lock)"
    return facts
