"""Ending claims: one function of the schema for every kind of end, with what is to be written given to it.

A batch is written by one statement, all of it or nothing. Values are computed before the first try and sent
again unchanged, so a try whose answer was lost is recognised by what it wrote. Where one statement is
not enough (a claim was lost, a group is new, a history grew too long), a transaction first locks the
claims that stand, and ends those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import psycopg

from redrive.jobs.job import Claim, Failure, Job, Settlement
from redrive.jobs.records import evolve
from redrive.jobs.transitions import MOST_KEPT, Changed, Place, middle_of, settle_all
from redrive.stores._codec import attempt_to_json
from redrive.stores.counting import Backlog, Tick, counts_of
from redrive.stores.postgres.adding import extras_of
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.rows import PLACE, ROW, state_row, tables
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.groups import Places, Placing
from redrive.stores.sql.outbox import Reports
from redrive.stores.sql.tx import Row

_SOME_LOST = "RD001"


class _SomeLost(Exception):
    """Not all claims of a batch stand, so nothing was written."""


class _Asked(NamedTuple):
    """One settlement, its place in the batch and the number of its job."""

    number: int
    place: int
    result: Settlement
    fence: Row
    """The number, lease, holder and time of the claim."""


class End(NamedTuple):
    """One claim's end, computed."""

    asked: _Asked
    change: Changed
    job: Job
    """As it is stored: with what its history has folded."""
    folded: Sequence[int] = ()
    """Ordinals of attempts that its history loses."""


class Settler:
    """Ends claims of one store."""

    def __init__(self, database: Database, places: Places, backlog: Backlog) -> None:
        self._database = database
        self._places = places
        self._backlog = backlog

    def settle(self, results: Sequence[Settlement], reports: Reports) -> list[Job | None]:
        """End claims, each fence once; return the jobs, None for claims that were lost."""
        numbers = numbers_of(self._database, [result.claim for result in results])
        by_fence: dict[Row, _Asked] = {}
        for place, (number, result) in enumerate(zip(numbers, results, strict=True)):
            fence = (number, *_fence_of(result.claim))
            by_fence.setdefault(fence, _Asked(number, place, result, fence))
        batch = sorted(by_fence.values())
        answers: list[Job | None] = [None] * len(results)
        for end in self._ended(batch, reports) if batch else ():
            answers[end.asked.place] = end.job
        return answers

    def _ended(self, batch: Sequence[_Asked], reports: Reports) -> list[End]:
        now = self._database.now()
        try:
            ends = _ends(batch, now, self._places.place)
            if _are_long(ends):
                raise _SomeLost
            self._end_at_once(ends, now, reports)
        except (_SomeLost, KeyError):  # KeyError: a group that is not known here
            return self._end_those_that_stand(batch, now, reports)
        return ends

    def _end_at_once(self, ends: Sequence[End], now: float, reports: Reports) -> None:
        """End all these claims in one statement; _SomeLost if one of them was lost."""
        counts = counts_of((end.asked.result, end.change) for end in ends)
        share, committed = self._backlog.share(counts, now), False

        def work(tx: PostgresTx) -> bool:
            _write(tx, ends, share.write, reports)
            return True

        def recall(tx: PostgresTx) -> bool:
            """Do it now if it was not done, which nobody can do after us: all these claims stand."""
            if len(_standing(tx, [end.asked for end in ends])) == len(ends):
                return work(tx)
            if _landed(tx, ends):
                return True
            raise _SomeLost

        try:
            committed = self._database.once(work, recall)
        finally:
            self._backlog.close(share, committed=committed)

    def _end_those_that_stand(
        self, batch: Sequence[_Asked], now: float, reports: Reports
    ) -> list[End]:
        """End claims in a transaction; groups are made only for failures that are stored by it."""

        def work(tx: PostgresTx) -> tuple[list[End], Placing]:
            standing, placing = _standing(tx, batch), self._places.begin(tx)
            for failure, release in _failures(standing):
                placing.place(failure, release=release)
            ends = _shortened(tx, _ends(standing, now, placing.place))
            counts = counts_of((end.asked.result, end.change) for end in ends)
            _write(tx, ends, [Tick(now, counts)] if counts.lanes else [], reports)
            gone = [(end.asked.number, ordinal) for end in ends for ordinal in end.folded]
            tx.many("forget_attempts", gone)
            if placing.new:  # others rely on the numbers: a server that crashes must not lose them
                tx.run("sync_commit")
            return ends, placing

        ends, placing = self._database.write(
            work, synced=False, landed=lambda tx, done: not done[0] or _landed(tx, done[0])
        )
        self._places.keep(placing)
        return ends


def _fence_of(claim: Claim) -> Row:
    return claim.job.lease, claim.job.holder, claim.job.updated


def numbers_of(database: Database, claims: Iterable[Claim]) -> list[int]:
    """Return the numbers of jobs: those that were claimed here carry them, others are looked up."""
    jobs = [claim.job for claim in claims]
    place = database.address.url
    unknown = [job.id for job in jobs if job.__dict__.get(PLACE) != place]
    found: dict[str, int] = {}
    if unknown:
        found = dict(database.direct(lambda tx: tx.all("numbers", (unknown,))))
    return [
        job.__dict__[ROW] if job.__dict__.get(PLACE) == place else found.get(job.id, 0)
        for job in jobs
    ]


def renew(database: Database, claims: Sequence[Claim], lease_for: float) -> list[bool]:
    """Lengthen the leases of claims that stand; return which of them do."""
    numbers = numbers_of(database, claims)
    fences = [(n, *_fence_of(claim)) for n, claim in zip(numbers, claims, strict=True)]
    each: list[Row] = sorted(set(fences))
    columns = list(zip(*each, strict=True))
    end = database.now() + lease_for
    rows = database.direct(
        lambda tx: tx.all("renew", (tx.version, *tx.packed("renew", columns), end))
    )
    standing: set[Row] = {each[place - 1] for (place,) in rows}
    return [fence in standing for fence in fences]


def _failures(batch: Iterable[_Asked]) -> Iterable[tuple[Failure, str | None]]:
    for _, _, result, _ in batch:
        attempt = result.attempt
        if attempt is not None and attempt.failure is not None:
            yield attempt.failure, attempt.release or result.claim.job.release


def _ends(batch: Sequence[_Asked], now: float, place: Place) -> list[End]:
    jobs = ((asked.result.claim.job, asked.result) for asked in batch)
    changes = settle_all(jobs, now=now, place=place)
    return [End(asked, change, change.job) for asked, change in zip(batch, changes, strict=True)]


def _standing(tx: PostgresTx, batch: Sequence[_Asked]) -> list[_Asked]:
    """Lock the claims that stand, and return them; another transaction that ends one is waited for."""
    columns = list(zip(*(asked.fence for asked in batch), strict=True))
    return [batch[place - 1] for (place,) in tx.all("standing", tx.packed("standing", columns))]


def _are_long(ends: Iterable[End]) -> bool:
    """Return True if a history may have grown too long."""
    longest = max([end.job.lease for end in ends if end.asked.result.attempt], default=0)
    return longest > MOST_KEPT


def _shortened(tx: PostgresTx, ends: Sequence[End]) -> list[End]:
    """Return the ends with histories that grew too long folded: they lose the middle, and count it."""
    if not _are_long(ends):
        return [*ends]
    kept: dict[int, list[int]] = dict(tx.all("ordinals", ([end.asked.number for end in ends],)))
    return [_folded(end, kept.get(end.asked.number, [])) for end in ends]


def _folded(end: End, kept: list[int]) -> End:
    attempt = end.asked.result.attempt
    if not attempt or not (middle := middle_of([*kept, attempt.ordinal])):
        return end
    return end._replace(job=evolve(end.job, folded=end.job.folded + len(middle)), folded=[*middle])


def _landed(tx: PostgresTx, ends: Sequence[End]) -> bool:
    """Return True if these ends were written: all of them were, or none."""
    if _standing(tx, [end.asked for end in ends]):
        return False
    rows = [
        (
            end.asked.number,
            end.asked.result.attempt.ordinal if end.asked.result.attempt else end.job.lease,
            _record(end),
            end.job.lease,
            end.job.updated,
        )
        for end in ends
    ]
    columns = list(zip(*rows, strict=True))
    return tx.one("landed", tx.packed("landed", columns)) is not None


def _write(tx: PostgresTx, ends: Sequence[End], ticks: Sequence[Tick], reports: Reports) -> None:
    """Write ends, counts and events; _SomeLost if a claim does not stand."""
    if not ends:
        return
    rows = tables(map(_row, ends), texts=6, numbers=7)
    events = reports.rows(((end.change.was, end.job) for end in ends), ends[0].job.updated)
    try:
        tx.call("settle_jobs", rows, extras_of(ticks, events))
    except psycopg.Error as error:
        if error.sqlstate == _SOME_LOST:
            raise _SomeLost from error
        raise


def _record(end: End) -> str | None:
    attempt = end.asked.result.attempt
    return attempt_to_json(attempt) if attempt else None


def _row(end: End) -> Row:
    number, lease, holder, since = end.asked.fence
    attempt = end.asked.result.attempt
    state, due, updated, failed_since, *numbers, category, more = state_row(end.job)
    return (
        *(holder, state, category, more, end.job.lane, _record(end)),
        *(number, lease, *numbers, attempt.ordinal if attempt else None),
        *(since, due, updated, failed_since),
    )
