"""Ending claims: one function of the schema for every kind of end, with what is to be written given to it.

All values are computed before the first try, and sent again unchanged: so an attempt whose answer was lost
is recognised by what it wrote, also where there is no record of an attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import psycopg

from redrive.jobs.job import Claim, Job, Settlement
from redrive.jobs.records import evolve
from redrive.jobs.transitions import KEEP_FIRST, KEEP_LAST, Changed
from redrive.stores._codec import attempt_to_json
from redrive.stores.counting import Tick, counts_to_json
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.rows import PLACE, ROW, state_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.tx import Row

_KEPT = KEEP_FIRST + KEEP_LAST
_SOME_LOST = "RD001"


class SomeLost(Exception):
    """Not all claims of a batch took, so nothing was written: its counts were for all of them."""


class End(NamedTuple):
    """One claim's end, computed."""

    number: int
    result: Settlement
    change: Changed
    job: Job
    """As it is stored: with what its history has folded."""
    events: Sequence[tuple[str, str, str]] = ()
    """Subscription, kind and body."""
    folded: Sequence[int] = ()
    """Ordinals of attempts that its history loses."""


Ticks = Callable[[Sequence[End]], list[Tick]]
"""Returns what to write for those ends that took."""


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


def are_long(ends: Iterable[End]) -> bool:
    """Return True if a history may have grown too long: that is looked at in a transaction."""
    return any(end.result.attempt is not None and end.job.lease > _KEPT for end in ends)


def shortened(tx: PostgresTx, ends: Sequence[End]) -> list[End]:
    """Return the ends with histories that grew too long folded: they lose the middle, and count it."""
    long = [end.number for end in ends if end.result.attempt and end.job.lease > _KEPT]
    kept: dict[int, list[int]] = dict(tx.all("ordinals", (long,)))
    return [_folded(end, kept.get(end.number, [])) for end in ends]


def _folded(end: End, kept: list[int]) -> End:
    extra = len(kept) + 1 - _KEPT
    if extra <= 0:
        return end
    job = evolve(end.job, folded=end.job.folded + extra)
    return end._replace(job=job, folded=kept[KEEP_FIRST : KEEP_FIRST + extra])


def settle_at_once(tx: PostgresTx, ends: Sequence[End], ticks: Sequence[Tick]) -> set[int]:
    """End claims in one statement, with counts for all of them; SomeLost if there are some, and not all took."""
    try:
        return _settle(tx, ends, ticks, together=bool(ticks))
    except psycopg.Error as error:
        if error.sqlstate == _SOME_LOST:
            raise SomeLost from error
        raise


def settle_within(tx: PostgresTx, ends: Sequence[End], ticks: Ticks, *, again: bool) -> set[int]:
    """End claims as a part of a transaction, and count those that took.

    If it is done again after a try without an answer, those that it ended are found by what they
    wrote; they were counted then.
    """
    took = _settle(tx, ends, (), together=False)
    done = [ends[place] for place in took]
    tx.many("add_tick", [(at, counts_to_json(counts)) for at, counts in ticks(done)])
    gone = [(end.number, ordinal) for end in done for ordinal in end.folded]
    tx.many("forget_attempts", gone)
    return took | landed(tx, ends) if again else took


def landed(tx: PostgresTx, ends: Sequence[End]) -> set[int]:
    """Return the places of those ends that are found to have been written."""
    tx.all("to_change", ([end.job.id for end in ends],))  # waits for whoever is at it
    rows = [
        (
            end.number,
            end.result.attempt.ordinal if end.result.attempt else end.job.lease,
            _record(end),
            end.job.lease,
            end.job.updated,
        )
        for end in ends
    ]
    columns = list(zip(*rows, strict=True))
    return {place - 1 for (place,) in tx.all("landed", tx.packed("landed", columns))}


def _settle(
    tx: PostgresTx, ends: Sequence[End], ticks: Sequence[Tick], *, together: bool
) -> set[int]:
    columns = list(zip(*map(_row, ends), strict=True))
    counts = list(zip(*((at, counts_to_json(one)) for at, one in ticks), strict=True)) or [()] * 2
    events = [(place + 1, *event) for place, end in enumerate(ends) for event in end.events]
    outbox = list(zip(*events, strict=True)) or [()] * 4
    lists = tx.packed("settle_jobs", chain(columns, counts, outbox))
    return {place - 1 for (place,) in tx.all("settle_jobs", (tx.version, together, *lists))}


def _record(end: End) -> str | None:
    return attempt_to_json(end.result.attempt) if end.result.attempt else None


def _row(end: End) -> Row:
    was, attempt = end.change.was, end.result.attempt
    fence = end.number, was.lease, was.holder, was.updated
    return (*fence, *state_row(end.job), attempt.ordinal if attempt else None, _record(end))
