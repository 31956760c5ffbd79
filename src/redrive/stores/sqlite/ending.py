"""Ending, lengthening and taking over claims."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from redrive.jobs.job import Attempt, Claim, Job, Settlement, State
from redrive.jobs.records import evolve
from redrive.jobs.transitions import (
    KEEP_FIRST,
    KEEP_LAST,
    Changed,
    Changes,
    changed,
    seizure_changes,
    settle_all,
)
from redrive.stores._codec import attempt_to_json
from redrive.stores.counting import Counts, counts_of
from redrive.stores.record_codec import more_of
from redrive.stores.sql.groups import Placing
from redrive.stores.sql.outbox import Reports, write_events
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.changing import mark, numbers_of, write_changes
from redrive.stores.sqlite.rows import readable
from redrive.stores.sqlite.tx import SqliteTx

_KEPT = KEEP_FIRST + KEEP_LAST
_AT_ONCE = 75
"""How many values `insert_attempts` takes: three a row."""


class _Ended(NamedTuple):
    place: int
    """Where its settlement stands among those that were given."""
    number: int
    result: Settlement
    change: Changed


def settle(
    tx: SqliteTx,
    results: Sequence[Settlement],
    placing: Placing,
    reports: Reports,
    *,
    file: str,
    careful: bool,
) -> tuple[list[Job | None], Counts]:
    """End those claims whose fence stands; returns the jobs, and what there is to count."""
    numbers = numbers_of(tx, (result.claim.job for result in results), file)
    places = _each_once(results, numbers)
    if not all(_is_placed(placing, results[place]) for place in places):
        places = _standing(tx, results, places, numbers)
        _place(placing, [results[place] for place in places])
    tried = [results[place] for place in places]
    changes = settle_all(
        ((result.claim.job, result) for result in tried), now=tx.now(), place=placing.place
    )
    ends = [
        _Ended(place, numbers[change.was.id], result, change)
        for place, result, change in zip(places, tried, changes, strict=True)
    ]
    taken = write_changes(tx, [(end.number, end.change) for end in ends], careful=careful)
    ends = [end for end, took in zip(ends, taken, strict=True) if took]
    answers: list[Job | None] = [None] * len(results)
    for place, job in _keep_attempts(tx, ends):
        answers[place] = job
    write_events(tx, reports, ((end.change.was, end.change.job) for end in ends))
    return answers, counts_of((end.result, end.change) for end in ends)


def _each_once(results: Sequence[Settlement], numbers: dict[str, int]) -> list[int]:
    """Return the places of settlements of stored jobs; of two with one fence, that of the first."""
    found: dict[tuple[object, ...], int] = {}
    for place, result in enumerate(results):
        job = result.claim.job
        if job.id in numbers and job.state is State.RUNNING:
            found.setdefault((job.id, job.lease, job.holder, job.updated), place)
    return list(found.values())


def _is_placed(placing: Placing, result: Settlement) -> bool:
    failure = result.attempt.failure if result.attempt else None
    return failure is None or placing.knows(failure)


def _place(placing: Placing, results: Sequence[Settlement]) -> None:
    """Make the groups of failures; a new one begins with the release that the attempt ran."""
    for result in results:
        attempt = result.attempt
        if attempt is not None and attempt.failure is not None:
            release = attempt.release or result.claim.job.release
            placing.place(attempt.failure, release=release)


def _standing(
    tx: SqliteTx, results: Sequence[Settlement], places: list[int], numbers: dict[str, int]
) -> list[int]:
    """Return those whose fence stands: a group is made only for a failure that is stored."""
    fences = {row[0]: row[1:] for row in tx.all("fences", (tx.array(numbers.values()),))}
    return [
        place
        for place in places
        for job in (results[place].claim.job,)
        if fences.get(numbers[job.id]) == (job.lease, job.holder, job.updated)
    ]


def _keep_attempts(tx: SqliteTx, ends: Sequence[_Ended]) -> Iterator[tuple[int, Job]]:
    """Write the records of attempts; returns the jobs, each with the place of its settlement."""
    values: list[int | str] = []
    for place, number, result, (_, _, job) in ends:
        attempt = result.attempt
        if attempt is not None and job.lease > _KEPT:
            yield place, _keep_and_fold(tx, number, job, attempt)
            continue
        yield place, job
        if attempt is not None:
            values += number, attempt.ordinal, attempt_to_json(attempt)
    whole = len(values) // _AT_ONCE * _AT_ONCE
    for begin in range(0, whole, _AT_ONCE):
        tx.run("insert_attempts", values[begin : begin + _AT_ONCE])
    tx.many("insert_attempt", [values[one : one + 3] for one in range(whole, len(values), 3)])


def _keep_and_fold(tx: SqliteTx, number: int, job: Job, attempt: Attempt) -> Job:
    """Write an attempt; a history that grew too long loses its middle, which is counted."""
    tx.run("insert_attempt", (number, attempt.ordinal, attempt_to_json(attempt)))
    (kept,) = tx.one("count_attempts", (number,)) or (0,)
    if kept <= _KEPT:
        return job
    middle = tx.all("middle", (number, kept - _KEPT, KEEP_FIRST))
    tx.many("forget_attempt", [(number, ordinal) for (ordinal,) in middle])
    job = evolve(job, folded=job.folded + len(middle))
    tx.run("rewrite_more", (more_of(job), number))
    return job


def renew(tx: SqliteTx, claims: Sequence[Claim], lease_for: float, file: str) -> list[bool]:
    """Lengthen leases from now, where the fence stands."""
    numbers = numbers_of(tx, (claim.job for claim in claims), file)
    boot, seconds = tx.lease_clock()
    changes: Changes = {"lease_end": seconds + lease_for, "boot": boot}
    numbered = [
        (numbers[claim.job.id], changed(claim.job, changes))
        for claim in claims
        if claim.job.id in numbers
    ]
    taken = iter(write_changes(tx, numbered, careful=True))
    return [claim.job.id in numbers and next(taken) for claim in claims]


def seize(
    tx: SqliteTx, rows: Sequence[Row], *, by: str, lease_for: float, file: str
) -> list[Claim]:
    """Take over running jobs whose rows these are."""
    boot, seconds = tx.lease_clock()
    numbered = [
        (
            number,
            changed(job, seizure_changes(job, by=by, lease_end=seconds + lease_for, boot=boot)),
        )
        for number, job in readable(rows)
    ]
    taken = write_changes(tx, numbered)
    return [
        Claim(mark(one.job, number, file), lost_by=one.was.holder)
        for (number, one), took in zip(numbered, taken, strict=True)
        if took
    ]


def lost(
    tx: SqliteTx, holder: str | None, handlers: Collection[str] | None, limit: int
) -> list[Row]:
    """Return the running jobs to be taken over."""
    wanted = None if handlers is None else tx.array(handlers)
    if holder is not None:
        return tx.all("held_by", (holder, wanted, wanted, limit))
    return tx.all("ended", (*tx.lease_clock(), wanted, wanted, limit))
