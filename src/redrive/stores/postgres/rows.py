"""A job as a row of PostgreSQL: reading `job_rows`, and the columns of a state row.

A claim writes only the lease. So the row of a job that runs is read as it was before the claim, and then
through `claimed`: how a claim changes a job stands there alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from redrive.jobs.job import Job, State
from redrive.jobs.transitions import claimed, is_suspect
from redrive.stores.record_codec import (
    blank_fields,
    category_of,
    given_of,
    job_from_fields,
    more_of,
)
from redrive.stores.sql.rows import UNREADABLE, damaged_job, readable_rows
from redrive.stores.sql.tx import Row

ROW, PLACE = "_row", "_file"
"""What a job carries beside its fields: the number of its row, and in whose tables."""
Columns = Sequence[Sequence[object]]
Tables = tuple[Columns, Columns, Columns]
"""The texts, numbers and times of jobs, each as columns."""
_TIMES = frozenset({"created", "due", "updated", "first_failed", "since", "lease_end"})


def job_from_row(row: Row, place: str = "") -> Job:
    """Build a job from a row of `job_rows`; StoreDamaged if it is not what Redrive wrote."""
    fields = blank_fields()
    (
        fields[ROW],
        fields["id"],
        fields["created"],
        fields["key"],
        fields["event"],
        given,
        fields["payload"],
        fields["original"],
        fields["state"],
        fields["lease"],
        fields["due"],
        fields["updated"],
        fields["first_failed"],
        fields["group"],
        fields["run"],
        fields["max_attempts"],
        fields["attempts"],
        fields["lane"],
        fields["handler"],
        more,
        since,
        lease_end,
        holder,
    ) = row
    fields[PLACE] = place
    try:
        if holder is None:
            return job_from_fields(fields, given, more)
        fields["state"] = "pending"
        fields["lease"] -= 1
        pending = job_from_fields(fields, given, more)
        return claimed(pending, holder=holder, now=since, lease_end=lease_end)
    except UNREADABLE as error:
        raise damaged_job(row[1], given, more) from error


def job_from_json(row: dict[str, Any]) -> Job:
    """Build a job from a row of `job_rows` that came as JSON, in which a whole number is no float."""
    values = (
        float(value) if name in _TIMES and value is not None else value
        for name, value in row.items()
    )
    return job_from_row(tuple(values))


def readable(rows: Iterable[Row], place: str = "") -> list[Job]:
    """Return the jobs of those rows that can be read; the log names the others, once each."""
    return readable_rows(rows, lambda row: job_from_row(row, place))


def tables(rows: Iterable[Row], *, texts: int, numbers: int) -> Tables:
    """Return rows as columns of so many texts, then numbers, then times."""
    columns = list(zip(*rows, strict=True))
    return columns[:texts], columns[texts : texts + numbers], columns[texts + numbers :]


def new_row(job: Job) -> Row:
    """Return what `store_jobs` writes of a new job: texts, numbers, times."""
    held = job.state is State.RUNNING
    return (
        job.id,
        job.key,
        job.event,
        given_of(job),
        job.payload,
        job.original,
        job.state._value_,
        job.lane,
        job.handler,
        category_of(job),
        job.holder,
        more_of(job),
        job.lease,
        job.group,
        job.run,
        job.max_attempts,
        job.attempts - 1 if held else job.attempts,
        int(is_suspect(job)),
        job.created,
        job.due,
        job.updated,
        job.first_failed,
        job.updated if held else None,
        job.lease_end,
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
        int(is_suspect(job)),
        category_of(job),
        more_of(job),
    )
