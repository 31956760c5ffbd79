"""A job as a row of PostgreSQL: reading `job_rows`, and the columns of a state row.

A claim writes only the lease. So the row of a job that runs is read as it was before the claim, and then
through `claimed`: how a claim changes a job stands there alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.jobs.job import Job, State
from redrive.jobs.transitions import claimed, is_suspect
from redrive.stores.record_codec import category_of, given_of, job_from, more_of
from redrive.stores.sql.rows import UNREADABLE, damaged_job, readable_rows
from redrive.stores.sql.tx import Row

ROW, PLACE = "_row", "_file"
"""What a job carries beside its fields: the number of its row, and in whose tables."""
_NAMES = (
    ROW,
    "id",
    "created",
    "key",
    "event",
    "given",
    "payload",
    "original",
    "state",
    "lease",
    "due",
    "updated",
    "first_failed",
    "group",
    "variant",
    "run",
    "max_attempts",
    "attempts",
    "lane",
    "handler",
)
"""The columns of `job_rows` before `more`, since, lease_end and holder, by the names of fields."""
_GIVEN, _STATE, _LEASE, _MORE = 5, 8, 9, len(_NAMES)


def job_from_row(row: Row, place: str = "") -> Job:
    """Build a job from a row of `job_rows`; StoreDamaged if it is not what Redrive wrote."""
    columns: dict[str, Any] = dict(zip(_NAMES, row, strict=False))
    given, more = columns.pop("given"), row[_MORE]
    since, lease_end, holder = row[_MORE + 1 :]
    columns[PLACE] = place
    try:
        if holder is None:
            return job_from(columns, given, more)
        columns["state"] = "pending"
        columns["lease"] = row[_LEASE] - 1
        return claimed(
            job_from(columns, given, more), holder=holder, now=since, lease_end=lease_end, boot=None
        )
    except UNREADABLE as error:
        raise damaged_job(row[1], row[_GIVEN], row[_MORE]) from error


def readable(rows: Iterable[Row], place: str = "") -> list[Job]:
    """Return the jobs of those rows that can be read; the log names the others, once each."""
    return readable_rows(rows, lambda row: job_from_row(row, place))


def new_row(job: Job) -> Row:
    """Return what `store_jobs` writes of a new job."""
    held = job.state is State.RUNNING
    return (
        job.id,
        job.created,
        job.key,
        job.event,
        given_of(job),
        job.payload,
        job.original,
        job.state._value_,
        job.lease,
        job.due,
        job.updated,
        job.first_failed,
        job.group,
        job.variant,
        job.run,
        job.max_attempts,
        job.attempts - 1 if held else job.attempts,
        int(is_suspect(job)),
        job.lane,
        job.handler,
        category_of(job),
        more_of(job),
        job.updated if held else None,
        job.lease_end,
        job.holder,
    )


def state_row(job: Job) -> Row:
    """Return what a settlement writes of a job's state."""
    return (
        job.state._value_,
        job.due,
        job.updated,
        job.first_failed,
        job.group,
        job.max_attempts,
        job.attempts,
        job.variant,
        int(is_suspect(job)),
        category_of(job),
        more_of(job),
    )
