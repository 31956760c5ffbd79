"""Ending claims in one statement that is its own transaction: the usual ends, good or bad.

Each kind of end is one function of the schema, and those of a batch are asked for together, in one
round trip. If the connection breaks before the answer is there, the records of the attempts say
whether it took effect. With the time of the claim the fence stays one even where a restored backup
gives a job's number to another.

What is unusual (a claim that is given back, a history that is full) goes the way of all stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redrive.jobs.job import Completed, Dead, Failure, Job, Retry, Settlement
from redrive.jobs.transitions import KEEP_FIRST, KEEP_LAST, settled
from redrive.stores._codec import attempt_to_json
from redrive.stores.postgres.claiming import PLACE, ROW
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import category_of
from redrive.stores.sql.rows import as_stored, failure_json, json_of
from redrive.stores.sql.tx import Row

_KEPT = KEEP_FIRST + KEEP_LAST
_AT_ONCE = 50
"""How many kinds of ends one statement takes."""

Kind = tuple[str, Row]
"""A statement, and what it writes or compares for all ends of the kind: first of all the fence."""
Ends = dict[Kind, list[Settlement]]


def sorted_out(results: Iterable[Settlement], place: str) -> tuple[Ends, list[Settlement]]:
    """Give the usual ends of jobs that were claimed here, by their kind, and the others."""
    ends: Ends = {}
    others: list[Settlement] = []
    for result in results:
        kind = _kind(result, place)
        if kind is None:
            others.append(result)
        else:
            ends.setdefault(kind, []).append(result)
    return ends, others


def are_few(ends: Ends) -> bool:
    """Whether one statement can end them all."""
    return len(ends) <= _AT_ONCE


def _kind(result: Settlement, place: str) -> Kind | None:
    attempt, job, verdict = result.attempt, result.claim.job, result.verdict
    if attempt is None or job.__dict__.get(PLACE) != place:
        return None
    if not attempt.ordinal == job.lease <= _KEPT:
        return None
    fence = job.lease, job.holder, job.updated
    if isinstance(verdict, Completed):
        return None if attempt.failure else ("finish", (*fence, *_success(result, verdict)))
    return ("fail", fence) if attempt.failure and isinstance(verdict, Retry | Dead) else None


def _success(result: Settlement, verdict: Completed) -> Row:
    """Give what a good end writes; most of a batch have it in common."""
    job = result.claim.job
    category = job.failure.category._value_ if job.failure else ""
    return category, verdict.reason._value_, verdict.detail, result.max_attempts or job.max_attempts


def end(database: Database, ends: Ends) -> dict[str, Job]:
    """End claims, of few kinds; gives those whose fence stood, by id."""

    def again(tx: PostgresTx) -> dict[str, Job]:
        """Do it once more, then look: what is refused, but has left its record, was done before."""
        took = end_within(tx, database, ends)
        return {**_recorded(tx, ends), **took}

    return database.once(lambda tx: end_within(tx, database, ends), again)


def end_within(tx: PostgresTx, database: Database, ends: Ends) -> dict[str, Job]:
    """Do the same, for any number of kinds, as a part of a transaction."""
    version, stands_in = database.queries.version, database.stands_in()
    calls = [
        (name, (which, version, *how, stands_in, *tx.packed(name, _columns(name, results))))
        for which, ((name, how), results) in enumerate(ends.items())
    ]
    answers: dict[tuple[int, int], tuple[float, int | None]] = {}
    for first in range(0, len(calls), _AT_ONCE):
        for which, number, moment, cause in tx.each(calls[first : first + _AT_ONCE]):
            answers[which, number] = moment, cause
    return _taken(ends, answers)


def _taken(ends: Ends, answers: dict[tuple[int, int], tuple[float, int | None]]) -> dict[str, Job]:
    """Give the jobs that there is an answer for, as they are then, by id."""
    took: dict[str, Job] = {}
    for which, results in enumerate(ends.values()):
        for result in results:
            job = result.claim.job
            if (answer := answers.get((which, job.__dict__[ROW]))) is not None:
                took[job.id] = _after(result, *answer)
    return took


def _columns(name: str, results: Sequence[Settlement]) -> list[Sequence[object]]:
    """Give the lists that a statement takes: jobs and records, and what differs from job to job."""
    numbers = [result.claim.job.__dict__[ROW] for result in results]
    records = [attempt_to_json(one.attempt) for one in results if one.attempt]
    more = zip(*map(_failing, results), strict=True) if name == "fail" else ()
    return [numbers, records, *more]


def _failing(result: Settlement) -> Row:
    """Give what a bad end writes, but for the times, which the server gives."""
    failure, verdict = _failure_of(result), result.verdict
    job = _after(result, 0.0, None)
    return (
        verdict.delay if isinstance(verdict, Retry) else None,
        job.reason and job.reason._value_,
        job.detail,
        category_of(job),
        json_of(job.spent),
        job.crashes,
        job.max_attempts,
        failure_json(job.failure),
        failure.fingerprint if failure else "",
        failure.title if failure else "",
    )


def _after(result: Settlement, now: float, cause: int | None) -> Job:
    """Give a job as it is after its end."""
    job, verdict, failure = result.claim.job, result.verdict, _failure_of(result)
    return as_stored(
        settled(job, verdict, failure, now=now, group=cause, max_attempts=result.max_attempts)
    )


def _failure_of(result: Settlement) -> Failure | None:
    return result.attempt.failure if result.attempt else None


def _recorded(tx: PostgresTx, ends: Ends) -> dict[str, Job]:
    """Give those jobs whose attempts have left exactly these records, with the times of their ends."""
    answers: dict[tuple[int, int], tuple[float, int | None]] = {}
    for which, ((_, (lease, *_rest)), results) in enumerate(ends.items()):
        numbers, records = _columns("finish", results)
        lists = tx.packed("recorded", (numbers, records, [lease] * len(results)))
        for number, moment, cause in tx.all("recorded", lists):
            answers[which, number] = tx.now() if moment is None else moment, cause
    return _taken(ends, answers)
