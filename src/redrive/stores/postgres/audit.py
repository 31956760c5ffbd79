"""What `verify` looks at in a schema of PostgreSQL, and what it tells about it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from redrive.errors import StoreDamaged
from redrive.jobs.transitions import is_suspect
from redrive.stores.counting import counts_from_json
from redrive.stores.postgres.rows import job_from_row, unreadable
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import category_of
from redrive.stores.report import Problem, Report
from redrive.stores.sql import damage
from redrive.stores.sql.rows import UNREADABLE

_LONG_AGO = 3600.0
_MOST = 1000
_TELL = "export the jobs and import them into a new store; please report it"
_MEND = "set the column to NULL with psql, or restore a backup of the database"

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
    problems = [*_broken_rules(tx, place), *_unreadable(tx, place)]
    (jobs,) = tx.one("count_jobs") or (0,)
    return Report(int(jobs), problems, facts | _facts(tx))


def _broken_rules(tx: PostgresTx, place: str) -> Iterator[Problem]:
    for query, what in _RULES.items():
        for (job,) in tx.all(query):
            yield Problem(f"{place}: job {job}", what, _TELL)


def _unreadable(tx: PostgresTx, place: str) -> Iterator[Problem]:
    """Read everything that is more than a plain value, some rows at a time."""
    found = (_jobs(tx), damage.records(tx), damage.acts(tx), _counts(tx))
    for where, what in (one for each in found for one in islice(each, _MOST)):
        yield Problem(f"{place}: {where}", what, _MEND)


def _jobs(tx: PostgresTx) -> Iterator[tuple[str, str]]:
    last = 0
    while rows := tx.all("checked", (last, _MOST)):
        for *row, category, suspect in rows:
            last = row[0]
            odd = unreadable(row[5], row[20])
            for column in odd:
                yield f"job {row[1]}", f"has a {column} that cannot be read"
            if odd:
                continue
            try:
                job = job_from_row(tuple(row))
            except StoreDamaged:
                yield f"job {row[1]}", "has a state that cannot be read"
                continue
            if (category, suspect) != (category_of(job), int(is_suspect(job))):
                yield f"job {row[1]}", "is filed among the wrong jobs"


def _counts(tx: PostgresTx) -> Iterator[tuple[str, str]]:
    for at, text in tx.all("ticks"):
        try:
            counts_from_json(text)
        except UNREADABLE:
            yield f"counts of {at:.0f}", "cannot be read"


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
