"""Storing new jobs: one statement for all of them, and a look at what is there if an id or key is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from psycopg.errors import UniqueViolation

from redrive.jobs.job import Job
from redrive.jobs.transitions import Place
from redrive.stores._codec import attempt_to_json
from redrive.stores._keys import check_same
from redrive.stores.counting import Tick, counts_to_json, last_release
from redrive.stores.postgres.rows import job_from_row, new_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.groups import Placing
from redrive.stores.sql.outbox import EventRow
from redrive.stores.sql.tx import Row


class Taken(Exception):
    """Somebody else has stored an id or key meanwhile: look again."""


def are_distinct(jobs: Sequence[Job]) -> bool:
    """Return True if no two of them have the same id or key."""
    keys = [job.key for job in jobs if job.key is not None]
    return len({job.id for job in jobs}) == len(jobs) and len(set(keys)) == len(keys)


def insert(
    tx: PostgresTx, jobs: Sequence[Job], ticks: Sequence[Tick], events: Sequence[EventRow]
) -> None:
    """Store jobs with their history, counts and events, all or none; Taken if an id or key is.

    Keys are taken in one order, so that two who want the same do not wait for each other.
    """
    if not jobs:
        return
    jobs = sorted(jobs, key=lambda job: job.key or "")
    columns = list(zip(*map(new_row, jobs), strict=True))
    history = _columns(
        ((job.id, one.ordinal, attempt_to_json(one)) for job in jobs for one in job.history), 3
    )
    counts = _columns(((at, counts_to_json(one)) for at, one in ticks), 2)
    lists = chain(columns, history, counts, _columns(events, 5))
    try:
        tx.call("store_jobs", lists)
    except UniqueViolation as error:
        raise Taken from error


def _columns(rows: Iterable[Row], number: int) -> list[Sequence[object]]:
    return list(zip(*rows, strict=True)) or [()] * number


def sorted_out(
    tx: PostgresTx, jobs: Sequence[Job], placing: Placing
) -> tuple[list[Job], list[Job]]:
    """Return those that are to be stored, and the answer for each job."""
    by_id = {job.id: job for job in _stored(tx, "by_ids", [job.id for job in jobs])}
    keys = [job.key for job in jobs if job.key is not None]
    by_key = {job.key: job for job in _stored(tx, "by_keys", keys)} if keys else {}
    fresh: list[Job] = []
    answers: list[Job] = []
    for job in jobs:
        stored = by_id.get(job.id) or (by_key.get(job.key) if job.key is not None else None)
        if stored is None:
            if job.failure is not None:
                placing.place(job.failure, release=last_release(job))
            fresh.append(as_new(job, placing.place))
            stored = by_id[job.id] = without_history(fresh[-1])
            if job.key is not None:
                by_key[job.key] = stored
        elif stored.id != job.id:
            check_same(stored, job)
            stored = replace(stored, is_new=False)
        answers.append(stored)
    return fresh, answers


def _stored(tx: PostgresTx, query: str, values: Sequence[str]) -> list[Job]:
    return [job_from_row(row) for row in tx.all(query, (list(values),))]


def as_new(job: Job, place: Place) -> Job:
    """Return the job as it is stored: with the numbers of its group, and a lease number that is free."""
    group, variant = place(job.failure) if job.failure else (None, None)
    lease = max([job.lease, *(attempt.ordinal for attempt in job.history)])
    if (group, variant, lease) == (job.group, job.variant, job.lease) and job.is_new:
        return job
    return replace(job, group=group, variant=variant, lease=lease, is_new=True)


def without_history(job: Job) -> Job:
    """Return the job as `add` answers it."""
    return replace(job, history=()) if job.history else job
