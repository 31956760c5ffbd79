"""What `verify` looks at in a SQLite file, and what it tells about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from redrive.errors import StoreDamaged
from redrive.jobs.transitions import is_suspect
from redrive.stores.counting import counts_from_json
from redrive.stores.group_codec import group_from
from redrive.stores.record_codec import at_of, category_of
from redrive.stores.report import Problem, Report
from redrive.stores.sql import damage
from redrive.stores.sql.rows import UNREADABLE
from redrive.stores.sqlite.rows import job_from_row, unreadable
from redrive.stores.sqlite.tx import SqliteTx

_MOST = 1000
_RACE_FIXED = (3, 51, 3)
_RESTORE = "keep a copy, then restore a backup or use the .recover command of the sqlite3 shell"
_TELL = "export the jobs and import them into a new store; please report it"
_MEND = "keep a copy; set the column to NULL with the sqlite3 shell, or restore a backup"

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
    problems = list(_broken_pages(tx, place)) or [
        *_broken_rules(tx, place),
        *(Problem(f"{place}: {where}", what, _MEND) for where, what in _damage(tx)),
    ]
    jobs = 0 if problems else int((tx.one("count_jobs") or (0,))[0])
    return Report(jobs, problems, facts | _facts(tx, place))


def _broken_pages(tx: SqliteTx, place: Path) -> Iterator[Problem]:
    try:
        for (said,) in tx.all("check_pages"):
            if said != "ok":
                yield Problem(str(place), said, _RESTORE)
    except sqlite3.DatabaseError as error:
        yield Problem(str(place), str(error), _RESTORE)


def _broken_rules(tx: SqliteTx, place: Path) -> Iterator[Problem]:
    for query, what in _RULES.items():
        for (job,) in tx.all(query):
            yield Problem(f"{place}: job {job}", what, _TELL)


def _damage(tx: SqliteTx) -> Iterator[tuple[str, str]]:
    """Read everything that is more than a plain value, some rows at a time."""
    for each in (_jobs, damage.records, damage.acts, _counts, _strays):
        yield from islice(each(tx), _MOST)


def _jobs(tx: SqliteTx) -> Iterator[tuple[str, str]]:
    last = 0
    while rows := tx.all("checked", (last, _MOST)):
        for suspect, category, at, *row in rows:
            last = row[0]
            try:
                _, job = job_from_row(tuple(row))
            except StoreDamaged:
                for column in unreadable(*row[-2:]) or ["state"]:
                    yield f"job {row[1]}", f"has a {column} that cannot be read"
                continue
            if (suspect, category, at) != (is_suspect(job), category_of(job), at_of(job)):
                yield f"job {row[1]}", "is filed under a wrong time or among the wrong jobs"


def _counts(tx: SqliteTx) -> Iterator[tuple[str, str]]:
    for number, _, counts in tx.all("ticks"):
        try:
            counts_from_json(counts)
        except UNREADABLE:
            yield f"tick {number}", "has counts that cannot be read"
    for number, *_, seen, said in tx.all("every_group"):
        try:
            group_from({"number": number, "fingerprint": None}, seen, said)
        except UNREADABLE:
            yield f"group G{number}", "has a record that cannot be read"


def _strays(tx: SqliteTx) -> Iterator[tuple[str, str]]:
    for (act,) in tx.all("act_strays"):
        yield f"act {act}", "is gone, but the jobs it took are not"


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
