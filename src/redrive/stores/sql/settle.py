"""Ending claims: the attempt's record, the counters and the new state, in one go for a whole batch.

Every job that ever runs passes here, so what most of them need (an end without a failure) has a
statement of its own that writes little.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redrive.jobs.job import Attempt, Claim, Failure, Job, Settlement, State
from redrive.jobs.records import evolve
from redrive.jobs.transitions import KEEP_FIRST, KEEP_LAST, settled
from redrive.stores._codec import attempt_to_json
from redrive.stores.record_codec import category_of
from redrive.stores.sql.rows import as_stored, changes_to_row, job_from_row
from redrive.stores.sql.tx import Row, Tx

_KEPT = KEEP_FIRST + KEEP_LAST


def settle(tx: Tx, results: Sequence[Settlement]) -> list[Job | None]:
    """End those claims whose fence still stands."""
    held = held_by_id(tx, (result.claim for result in results))
    numbers = [_taken(held, result.claim.job) for result in results]
    pairs = list(zip(numbers, results, strict=True))
    groups = groups_of(tx, (one.attempt.failure for n, one in pairs if n and one.attempt))
    settling = _Settling(tx, groups)
    answers = [settling.take(number, result) if number else None for number, result in pairs]
    settling.write()
    return answers


def _taken(held: dict[str, tuple[int, int, str]], job: Job) -> int:
    """Give the number of a job whose fence stands, once; else 0."""
    number, lease, holder = held.get(job.id, (0, 0, ""))
    if number > 0 and lease == job.lease and holder == job.holder:
        del held[job.id]
        return number
    return 0


def settlements_landed(
    tx: Tx, results: Sequence[Settlement], answers: Sequence[Job | None]
) -> bool:
    """Whether these claims were ended so: all that took were, if one of them is found to be.

    An attempt's record is never rewritten; where there is none, the job must be as it was left.
    """
    took = {job.id: (result, job) for result, job in zip(results, answers, strict=True) if job}
    for row in tx.all("to_change", (tx.array(took),)):
        number, stored = job_from_row(row)
        result, job = took[stored.id]
        if result.attempt is None:
            if (stored.lease, stored.state, stored.updated) == (job.lease, job.state, job.updated):
                return True
        elif (attempt_to_json(result.attempt),) in tx.all("attempts", (number,)):
            return True
    return not took


def held_by_id(tx: Tx, claims: Iterable[Claim]) -> dict[str, tuple[int, int, str]]:
    """Give number, lease and holder of those jobs that are running."""
    rows = tx.all("held", (tx.array(claim.job.id for claim in claims),))
    return {job_id: (number, lease, holder) for job_id, number, lease, holder in rows}


def groups_of(tx: Tx, failures: Iterable[Failure | None]) -> dict[str, int]:
    """Give the numbers of the failures' groups by fingerprint; each is made the first time."""
    titles: dict[str, str] = {}
    for failure in failures:
        if failure is not None and failure.fingerprint:
            titles.setdefault(failure.fingerprint, failure.title)
    return {one: _group(tx, one, titles[one]) for one in tx.in_order(titles)}


def _group(tx: Tx, fingerprint: str, title: str) -> int:
    found = tx.one("cause", (fingerprint,))
    return int(found[0]) if found else tx.insert("insert_cause", (fingerprint, title))


class _Settling:
    """The rows that the ends of some claims come to, so that each kind is written in one go."""

    def __init__(self, tx: Tx, groups: dict[str, int]) -> None:
        self._tx = tx
        self._now = tx.now()
        self._groups = groups
        self._completed: dict[Row, list[int]] = {}
        self._others: list[Row] = []
        self._attempts: list[Row] = []

    def take(self, number: int, result: Settlement) -> Job:
        """End one claim whose fence stands."""
        attempt = result.attempt
        failure = attempt.failure if attempt else None
        job = settled(
            result.claim.job,
            result.verdict,
            failure,
            now=self._now,
            group=self._groups.get(failure.fingerprint) if failure else None,
            max_attempts=result.max_attempts,
        )
        if attempt is not None:
            job = self._keep(number, job, attempt)
        if job.state is State.COMPLETED and failure is None:
            self._completed.setdefault(_completion(job), []).append(number)
        else:
            self._others.append(changes_to_row(job, number))
        return as_stored(job)

    def _keep(self, number: int, job: Job, attempt: Attempt) -> Job:
        """Note an attempt down; a history that grew too long loses its middle, which is counted."""
        row = (number, attempt.ordinal, attempt_to_json(attempt))
        if job.lease <= _KEPT:
            self._attempts.append(row)
            return job
        self._tx.many("insert_attempt", [row])
        (kept,) = self._tx.one("count_attempts", (number,)) or (0,)
        if kept <= _KEPT:
            return job
        middle = self._tx.all("middle", (number, kept - _KEPT, KEEP_FIRST))
        self._tx.many("forget_attempt", [(number, ordinal) for (ordinal,) in middle])
        return evolve(job, folded=job.folded + len(middle))

    def write(self) -> None:
        """Write all of it."""
        for how, numbers in self._completed.items():
            self._tx.run("complete", (*how, self._tx.array(numbers)))
        self._tx.many("rewrite", self._others)
        self._tx.many("insert_attempt", self._attempts)


def _completion(job: Job) -> Row:
    """Give what an end without a failure writes; most jobs of a batch have it in common."""
    return (
        category_of(job),
        job.finished,
        job.reason and job.reason._value_,
        job.detail,
        job.max_attempts,
        job.finished,
        job.updated,
        job.folded,
    )
