"""Adding jobs: they are written as if all were new; which are not is only looked up if one is not.

It is looked up first if a group would be made: one is made only for a failure that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redrive.jobs.job import Job
from redrive.jobs.records import evolve
from redrive.stores._codec import attempt_to_json
from redrive.stores._keys import check_same
from redrive.stores.counting import last_release
from redrive.stores.sql.groups import Placing
from redrive.stores.sqlite.rows import insert_of, job_from_row
from redrive.stores.sqlite.tx import SqliteTx


def add(tx: SqliteTx, jobs: Sequence[Job], placing: Placing) -> tuple[list[Job], list[Job]]:
    """Store jobs; returns the answer for each, and those that were written, with their history."""
    if all(placing.knows(job.failure) for job in jobs if job.failure):
        fresh = [_as_new(placing, job) for job in jobs]
        if _insert(tx, fresh):
            return [_without_history(job) for job in fresh], fresh
    answers, fresh = _sorted_out(tx, jobs, placing)
    if fresh:
        _insert(tx, fresh)
    return answers, fresh


def _insert(tx: SqliteTx, jobs: Sequence[Job]) -> bool:
    """Write jobs with payload and history; False, and nothing is written, if an id or key is taken."""
    text, rows = insert_of(jobs)
    first = tx.insert_first(text, rows[0])
    if first is None:
        return False
    numbered = list(enumerate(jobs, first))
    if len(jobs) > 1:
        rest = [(number, *row[1:]) for number, row in enumerate(rows[1:], first + 1)]
        if tx.execute_all(text, rest) < len(rest):
            tx.run("take_back", (first,))
            return False
    tx.many("insert_payload", [(n, job.payload) for n, job in numbered])
    originals = [(job.payload, job.original, n) for n, job in numbered if job.original is not None]
    if originals:
        tx.many("repay", originals)
    attempts = [
        (n, attempt.ordinal, attempt_to_json(attempt))
        for n, job in numbered
        for attempt in job.history
    ]
    if attempts:
        tx.many("insert_attempt", attempts)
    return True


def _sorted_out(tx: SqliteTx, jobs: Sequence[Job], placing: Placing) -> tuple[list[Job], list[Job]]:
    """Return the answer for each job, and those that are to be written."""
    by_id = {job.id: job for job in _stored(tx, "by_ids", (job.id for job in jobs))}
    keys = (job.key for job in jobs if job.key is not None)
    by_key = {job.key: job for job in _stored(tx, "by_keys", keys)}
    fresh: list[Job] = []
    answers: list[Job] = []
    for job in jobs:
        stored = by_id.get(job.id) or _keyed(by_key, job)
        if stored is None:
            fresh.append(_as_new(placing, job))
            stored = by_id[job.id] = _without_history(fresh[-1])
            if job.key is not None:
                by_key[job.key] = stored
        answers.append(stored)
    return answers, fresh


def _stored(tx: SqliteTx, query: str, values: Iterable[str]) -> list[Job]:
    return [job_from_row(row) for row in tx.all(query, (tx.array(values),))]


def _keyed(by_key: dict[str | None, Job], job: Job) -> Job | None:
    """Return the job that this one's key stands for; KeyConflict if for other work."""
    stored = by_key.get(job.key) if job.key is not None else None
    if stored is None:
        return None
    check_same(stored, job)
    return evolve(stored, is_new=False)


def _as_new(placing: Placing, job: Job) -> Job:
    """Return the job as it is stored: with our number of its group, and a lease number that is free."""
    failure = job.failure
    if failure is None and not job.history:
        return job if job.group is None and job.is_new else evolve(job, group=None, is_new=True)
    group = placing.place(failure, release=last_release(job)) if failure else None
    lease = max([job.lease, *(attempt.ordinal for attempt in job.history)])
    return evolve(job, group=group, lease=lease, is_new=True)


def _without_history(job: Job) -> Job:
    return evolve(job, history=()) if job.history else job
