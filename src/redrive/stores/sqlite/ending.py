"""Ending, lengthening and taking over claims."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from redrive.jobs.job import Claim, Job, Settlement
from redrive.jobs.records import evolve
from redrive.jobs.transitions import (
    MOST_KEPT,
    Changes,
    changed,
    middle_of,
    seizure_changes,
    settle_all,
)
from redrive.stores._codec import attempt_to_json
from redrive.stores.counting import Counts, counts_of
from redrive.stores.record_codec import more_of
from redrive.stores.sql.groups import Placing
from redrive.stores.sql.outbox import Reports, write_events
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.changing import FenceFell, is_held_here, mark, standing, write_changes
from redrive.stores.sqlite.rows import ROW, readable
from redrive.stores.sqlite.tx import SqliteTx

_AT_ONCE = 25  # how many rows `insert_attempts` takes


def settle(
    tx: SqliteTx,
    results: Sequence[Settlement],
    placing: Placing,
    reports: Reports,
    *,
    file: str,
    careful: bool,
) -> tuple[list[Job | None], Counts]:
    """End those claims whose fence stands; returns the jobs, and what there is to count.

    Unless `careful`, FenceFell is raised if one does not: to look first takes longer.
    """
    jobs = [result.claim.job for result in results]
    if not careful:
        if False in [is_held_here(job, file) for job in jobs]:
            raise FenceFell
        ended, counts = _end(tx, jobs, results, placing, reports)
        return list(ended), counts
    first: dict[int, tuple[int, Job]] = {}
    for place, job in enumerate(standing(tx, jobs, file)):
        if job is not None:  # of two ends of one claim the first counts
            first.setdefault(job.__dict__[ROW], (place, job))
    places = [place for place, _ in first.values()]
    held = [job for _, job in first.values()]
    ended, counts = _end(tx, held, [results[place] for place in places], placing, reports)
    answers: list[Job | None] = [None] * len(results)
    for place, job in zip(places, ended, strict=True):
        answers[place] = job
    return answers, counts


def _end(
    tx: SqliteTx,
    jobs: Sequence[Job],
    results: Sequence[Settlement],
    placing: Placing,
    reports: Reports,
) -> tuple[list[Job], Counts]:
    """End claims; FenceFell if one of them is no longer held."""
    _place(placing, results)
    changes = settle_all(zip(jobs, results, strict=True), now=tx.now(), place=placing.place)
    write_changes(tx, changes, fenced=True)
    write_events(tx, reports, ((was, job) for was, _, job in changes))
    ended = _keep_attempts(tx, results, [job for _, _, job in changes])
    return ended, counts_of(zip(results, changes, strict=True))


def _place(placing: Placing, results: Sequence[Settlement]) -> None:
    """Make the groups of failures; a new one begins with the release that the attempt ran."""
    for result in results:
        attempt = result.attempt
        if attempt is not None and attempt.failure is not None:
            release = attempt.release or result.claim.job.release
            placing.place(attempt.failure, release=release)


def _keep_attempts(tx: SqliteTx, ended: Sequence[Settlement], jobs: list[Job]) -> list[Job]:
    """Write the records of attempts; returns the jobs, with what was folded of long histories."""
    rows = [
        (job.__dict__[ROW], result.attempt.ordinal, attempt_to_json(result.attempt))
        for result, job in zip(ended, jobs, strict=True)
        if result.attempt is not None
    ]
    whole = len(rows) // _AT_ONCE * _AT_ONCE
    for begin in range(0, whole, _AT_ONCE):
        tx.run("insert_attempts", [*chain.from_iterable(rows[begin : begin + _AT_ONCE])])
    tx.many("insert_attempt", rows[whole:])
    return [_folded(tx, job) if job.lease > MOST_KEPT else job for job in jobs]


def _folded(tx: SqliteTx, job: Job) -> Job:
    """Remove the middle of a history that grew too long, and count it on the job."""
    number = job.__dict__[ROW]
    middle = middle_of(tx.all("ordinals", (number,)))
    if not middle:
        return job
    tx.many("forget_attempt", [(number, ordinal) for (ordinal,) in middle])
    job = evolve(job, folded=job.folded + len(middle))
    tx.run("rewrite_more", (more_of(job), number))
    return job


def renew(tx: SqliteTx, claims: Sequence[Claim], lease_for: float, file: str) -> list[bool]:
    """Lengthen leases from now, where the fence stands."""
    held = standing(tx, [claim.job for claim in claims], file)
    changes: Changes = {"lease_end": tx.now() + lease_for}
    once = {job.__dict__[ROW]: job for job in held if job is not None}
    write_changes(tx, [changed(job, changes) for job in once.values()], fenced=True)
    return [job is not None for job in held]


def seize(
    tx: SqliteTx, rows: Sequence[Row], *, by: str, lease_for: float, file: str
) -> list[Claim]:
    """Take over running jobs whose rows these are."""
    end = tx.now() + lease_for
    changes = [changed(job, seizure_changes(job, by=by, lease_end=end)) for job in readable(rows)]
    write_changes(tx, changes)
    return [Claim(mark(job, file), lost_by=was.holder) for was, _, job in changes]


def lost(
    tx: SqliteTx, holder: str | None, handlers: Collection[str] | None, limit: int
) -> list[Row]:
    """Return the running jobs to be taken over."""
    wanted = None if handlers is None else tx.array(handlers)
    if holder is not None:
        return tx.all("held_by", (holder, wanted, wanted, limit))
    return tx.all("ended", (tx.now(), wanted, wanted, limit))
