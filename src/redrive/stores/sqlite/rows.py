"""Rows of the table `jobs` as jobs, and back."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from redrive.jobs.job import TERMINAL, Job
from redrive.jobs.transitions import Changed, is_suspect
from redrive.stores.record_codec import COLUMNS as JOB_COLUMNS
from redrive.stores.record_codec import (
    at_of,
    blank_fields,
    category_of,
    given_of,
    job_from_fields,
    more_of,
)
from redrive.stores.sql.rows import UNREADABLE, damaged_job, readable_rows
from redrive.stores.sql.tx import Row

_TEXTS = ("payload", "original")  # columns of a table of their own
_RENAMED = {"max_attempts": "ceiling", "group": "cause"}
FIELDS = {name: _RENAMED.get(name, name) for name in JOB_COLUMNS if name not in _TEXTS}
"""The fields of a job that are columns of `jobs`, and the names of these columns."""
READ = ", ".join(("n", *FIELDS.values(), *_TEXTS, "given", "more"))
"""What every query that reads whole jobs selects."""
ROW, FILE = "_row", "_file"
"""What a stored job carries beside its fields: its number, and if it was claimed, whose number that is."""

_READ_FIELDS = (ROW, *FIELDS, *_TEXTS)
_OWN = ("n", "id", "lane", "handler", "created", "due", "updated", "at", "ceiling")
_USUAL: dict[str, str | int | None] = {
    "state": "pending",
    "suspect": 0,
    "category": "",
    "attempts": 0,
    "lease": 0,
    **dict.fromkeys(("key", "event", "first_failed", "cause", "run")),
    **dict.fromkeys(("holder", "lease_end", "given", "more")),
}
"""What most new jobs have in these columns. To bind a value takes SQLite as long as to store it."""
_USUAL_VALUES = tuple(_USUAL.values())
_SQL = {"pending": "'pending'", "": "''", 0: "0", None: "NULL"}
COLUMNS = (*_OWN, *_USUAL)
_LEASES = frozenset({"state", "attempts", "lease", "holder", "lease_end", "updated", "run"})
"""Changes from which, as long as the job is open, no other column follows."""


def row_of(job: Job, number: int = 0) -> Row:
    """Return the columns of a new job, in the order of COLUMNS; 0 lets SQLite choose the number."""
    return (
        number,
        job.id,
        job.lane,
        job.handler,
        job.created,
        job.due,
        job.updated,
        at_of(job),
        job.max_attempts,
        job.state._value_,
        int(is_suspect(job)),
        category_of(job),
        job.attempts,
        job.lease,
        job.key,
        job.event,
        job.first_failed,
        job.group,
        job.run,
        job.holder,
        job.lease_end,
        given_of(job),
        more_of(job),
    )


def insert_of(jobs: Iterable[Job]) -> tuple[str, list[Row]]:
    """Return the statement that inserts new jobs, and its rows, without numbers.

    It binds the columns that all have, and those in which one of them is unusual.
    """
    rows = [row_of(job) for job in jobs]
    size = len(_OWN)
    if {row[size:] for row in rows} == {_USUAL_VALUES}:
        return insert(()), [row[:size] for row in rows]
    columns = zip(_USUAL.items(), list(zip(*rows, strict=True))[size:], strict=True)
    named = tuple(name for (name, usual), values in columns if set(values) != {usual})
    places = [COLUMNS.index(name) for name in named]
    return insert(named), [(*row[:size], *[row[place] for place in places]) for row in rows]


@cache
def insert(named: tuple[str, ...]) -> str:
    """Compose the statement; the columns of _USUAL that are not named get what is usual."""
    values = ["nullif(?, 0)"] + ["?"] * (len(_OWN) - 1)
    values += ["?" if name in named else _SQL[usual] for name, usual in _USUAL.items()]
    return (  # of constants only
        f"INSERT INTO jobs ({', '.join(COLUMNS)}) VALUES ({', '.join(values)}) "  # noqa: S608
        "ON CONFLICT DO NOTHING"
    )


class Written(NamedTuple):
    """What some changes write."""

    columns: tuple[str, ...]
    """Those of the fields that change, the state first, then those that follow from them."""
    fields: tuple[str, ...]
    derives: bool
    """True if other columns follow; nothing does from the lease of an open job, or from a tag."""


def written(change: Changed) -> Written:
    """Return what a change writes."""
    was, changes, job = change
    return _written(tuple(changes), was.state not in TERMINAL and job.state not in TERMINAL)


@cache
def _written(names: tuple[str, ...], is_open: bool) -> Written:
    fields = sorted((name for name in names if name in FIELDS), key=lambda name: name != "state")
    columns = [FIELDS[name] for name in fields]
    derives = names != ("run",) and not (is_open and _LEASES.issuperset(names))
    columns += ["suspect", "category", "at", "more"] if derives else []
    return Written(tuple(columns), tuple(fields), derives)


def values_written(change: Changed, plan: Written, more: str | None) -> list[object]:
    """Return what a change writes into these columns; `more` is the job's."""
    _, changes, job = change
    values = [changes[name] for name in plan.fields]
    if "state" in changes:
        values[0] = job.state._value_
    if plan.derives:
        values += int(is_suspect(job)), category_of(job), at_of(job), more
    return values


def job_from_row(row: Row) -> Job:
    """Return the job of a row of READ, with its number; StoreDamaged if it cannot be read."""
    fields, (given, more) = blank_fields(), row[-2:]
    fields.update(zip(_READ_FIELDS, row, strict=False))  # all but the two
    try:
        return job_from_fields(fields, given, more)
    except UNREADABLE as error:
        raise damaged_job(row[1], given, more) from error


def readable(rows: Iterable[Row]) -> list[Job]:
    """Return the jobs of those rows that can be read; the log names the others, once each."""
    return readable_rows(rows, job_from_row)
