"""Rows of the table `jobs` as jobs, and back. The order of columns is that of COLUMNS everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.jobs.job import TERMINAL, Job
from redrive.jobs.transitions import Changed, is_suspect
from redrive.stores.record_codec import (
    at_of,
    category_of,
    given_of,
    job_from,
    more_of,
)
from redrive.stores.sql.rows import UNREADABLE, damaged_job, readable_rows
from redrive.stores.sql.tx import Row

FIELDS = {
    "id": "id",
    "state": "state",
    "lane": "lane",
    "handler": "handler",
    "created": "created",
    "due": "due",
    "updated": "updated",
    "attempts": "attempts",
    "lease": "lease",
    "max_attempts": "ceiling",
    "key": "key",
    "event": "event",
    "first_failed": "first_failed",
    "group": "cause",
    "variant": "variant",
    "run": "run",
    "holder": "holder",
    "lease_end": "lease_end",
    "boot": "boot",
}
"""The fields of a job that are columns of `jobs`, and the names of these columns."""
_NAMES = (*FIELDS, "payload", "original")
READ = ", ".join(("n", *FIELDS.values(), "payload", "original", "given", "more"))
"""What every query that reads whole jobs selects."""
COLUMNS = ("n", *FIELDS.values(), "suspect", "category", "at", "given", "more")
INSERT = (  # of constants only
    f"INSERT INTO jobs ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "  # noqa: S608
    "ON CONFLICT DO NOTHING"
)
_LEASES = frozenset({"state", "attempts", "lease", "holder", "lease_end", "boot", "updated", "run"})
"""Changes from which, as long as the job is open, no other column follows."""


def row_of(job: Job, number: int) -> Row:
    """Return the columns of a new job."""
    return (
        number,
        job.id,
        job.state._value_,
        job.lane,
        job.handler,
        job.created,
        job.due,
        job.updated,
        job.attempts,
        job.lease,
        job.max_attempts,
        job.key,
        job.event,
        job.first_failed,
        job.group,
        job.variant,
        job.run,
        job.holder,
        job.lease_end,
        job.boot,
        is_suspect(job),
        category_of(job),
        at_of(job),
        given_of(job),
        more_of(job),
    )


def columns_changed(change: Changed, more: str | None) -> dict[str, Any]:
    """Return the columns that a change writes, also those that follow from it; `more` is the job's."""
    _, changes, job = change
    columns: dict[str, Any] = {
        FIELDS[name]: value for name, value in changes.items() if name in FIELDS
    }
    if "state" in columns:
        columns["state"] = job.state._value_
    if leaves_rest(change):
        return columns
    columns["suspect"], columns["category"] = is_suspect(job), category_of(job)
    columns["at"], columns["more"] = at_of(job), more
    return columns


def leaves_rest(change: Changed) -> bool:
    """Return True if no column follows from a change: of a lease that is taken, or of a tag."""
    was, changes, job = change
    if not changes.keys() <= _LEASES:
        return False
    return (was.state not in TERMINAL and job.state not in TERMINAL) or changes.keys() == {"run"}


def job_from_row(row: Row) -> tuple[int, Job]:
    """Return the number and the job of a row of READ; StoreDamaged if it cannot be read."""
    try:
        columns = dict(zip(_NAMES, row[1:-2], strict=True))
        return row[0], job_from(columns, row[-2], row[-1])
    except UNREADABLE as error:
        raise damaged_job(row[1], row[-2], row[-1]) from error


def readable(rows: Iterable[Row]) -> list[tuple[int, Job]]:
    """Return number and job of those rows that can be read; the log names the others, once each."""
    return readable_rows(rows, job_from_row)
