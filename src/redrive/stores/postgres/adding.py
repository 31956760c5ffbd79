"""Storing new jobs: one statement for all of them, and a look at what is there if an id or key is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from psycopg.errors import UniqueViolation

from redrive.jobs.job import Job
from redrive.stores._codec import attempt_to_json
from redrive.stores._keys import check_same
from redrive.stores.counting import Tick, counts_to_json
from redrive.stores.postgres.rows import Tables, job_from_row, new_row, tables
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.outbox import EventRow

Extras = dict[str, Sequence[object]]
"""The counts, events and attempts that are stored with jobs, by name."""
_EVENT = ("subscription", "job", "kind", "at", "body")


class Taken(Exception):
    """Somebody else has stored an id or key meanwhile: look again."""


def are_distinct(jobs: Sequence[Job]) -> bool:
    """Return True if no two of them have the same id or key."""
    keys = [job.key for job in jobs if job.key is not None]
    return len({job.id for job in jobs}) == len(jobs) and len(set(keys)) == len(keys)


def insert(
    tx: PostgresTx, jobs: Sequence[Job], ticks: Sequence[Tick], events: Sequence[EventRow]
) -> None:
    """Store jobs with their history, counts and events, all or none; Taken if an id or key is."""
    if not jobs:
        return
    try:
        tx.call("store_jobs", *arguments(jobs, ticks, events))
    except UniqueViolation as error:
        raise Taken from error


def arguments(
    jobs: Sequence[Job], ticks: Sequence[Tick], events: Sequence[EventRow]
) -> tuple[Tables, Extras | None]:
    """Return what `store_jobs` takes: columns of texts, numbers and times, and the extras.

    Keys are taken in one order, so that two who want the same do not wait for each other.
    """
    jobs = sorted(jobs, key=lambda job: job.key or "")
    attempts = [
        {"job": number, "ordinal": one.ordinal, "record": attempt_to_json(one)}
        for number, job in enumerate(jobs, 1)
        for one in job.history
    ]
    rows = tables(map(new_row, jobs), texts=12, numbers=6)
    return rows, extras_of(ticks, events, attempts)


def extras_of(
    ticks: Iterable[Tick], events: Iterable[EventRow], attempts: Sequence[object] = ()
) -> Extras | None:
    """Return what is written beside jobs; None if there is nothing."""
    counts = [{"at": at, "counts": counts_to_json(one)} for at, one in ticks]
    reports = [dict(zip(_EVENT, event, strict=True)) for event in events]
    if not (counts or reports or attempts):
        return None
    return {"ticks": counts, "events": reports, "attempts": attempts}


def look_up(tx: PostgresTx, jobs: Sequence[Job]) -> list[Job]:
    """Return the stored jobs that have the id or key of one of these."""
    stored = _stored(tx, "by_ids", [job.id for job in jobs])
    keys = [job.key for job in jobs if job.key is not None]
    return [*stored, *_stored(tx, "by_keys", keys)] if keys else stored


def sorted_out(
    jobs: Sequence[Job], there: Iterable[Job], place: Callable[[Job], int | None]
) -> tuple[list[Job], list[Job]]:
    """Return those that are to be stored, and the answer for each job; `there` are stored already."""
    by_id: dict[str, Job] = {}
    by_key: dict[str, Job] = {}

    def know(job: Job) -> Job:
        by_id[job.id] = job
        if job.key is not None:
            by_key[job.key] = job
        return job

    for stored in there:
        know(stored)
    fresh: list[Job] = []
    answers: list[Job] = []
    for job in jobs:
        answer = by_id.get(job.id) or (by_key.get(job.key) if job.key is not None else None)
        if answer is None:
            fresh.append(as_new(job, place(job)))
            answer = know(without_history(fresh[-1]))
        elif answer.id != job.id:
            check_same(answer, job)
            answer = replace(answer, is_new=False)
        answers.append(answer)
    return fresh, answers


def _stored(tx: PostgresTx, query: str, values: Sequence[str]) -> list[Job]:
    return [job_from_row(row) for row in tx.all(query, (list(values),))]


def as_new(job: Job, group: int | None) -> Job:
    """Return the job as it is stored: with the number of its group, and a lease number that is free."""
    lease = max([job.lease, *(attempt.ordinal for attempt in job.history)])
    if (group, lease) == (job.group, job.lease) and job.is_new:
        return job
    return replace(job, group=group, lease=lease, is_new=True)


def without_history(job: Job) -> Job:
    """Return the job as `add` answers it."""
    return replace(job, history=()) if job.history else job
