"""Claiming jobs, and ending those that went well: each in one statement that is its own transaction.

These two are what a worker does all day, so each is one function of the schema and one round trip. If
the connection breaks before the answer is there, nobody knows whether the statement took effect. A
claim has a name for that, by which it is asked after; and an end leaves the record of its attempt.

A claimed job carries the number of its row, so that its end need not look for it. With the time of
the claim the fence stays one even where a restored backup gives the number to another job.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain

from redrive._evolve import BLANK, job_of
from redrive._transitions import KEEP_FIRST, KEEP_LAST, claimed, ended
from redrive.errors import StoreError
from redrive.job import Claim, Completed, Job, Settlement
from redrive.stores._codec import attempt_to_json
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.rows import readable
from redrive.stores.sql.tx import Row

_ROW, _PLACE = "_row", "_file"
"""What a job carries beside its fields: its number, and in whose tables."""
_KEPT = KEEP_FIRST + KEEP_LAST
_AT_ONCE = 50
"""How many kinds of ends one statement takes."""
_FIRST = (None, None, 1, None, 0, 0), (None, None, None, 0, 0, None, None)
"""From `finished` to `redrives`, and from `cause` to `origin` and to `original`: a first attempt's."""


def claim(database: Database, limit: int, which: Row, lease: Row) -> list[Claim]:
    """Lease up to so many jobs; what cannot be read waits on, and stops no other."""
    sound: list[Claim] = []
    odd: list[int] = []
    while room := limit - len(sound):
        rows = _claimed(database, room, which, lease)
        jobs = list(_jobs(rows, database.address.url))
        sound += map(Claim, jobs)
        if len(jobs) == len(rows):
            break
        odd += {row[0] for row in rows} - {job.__dict__[_ROW] for job in jobs}
    if odd:
        with contextlib.suppress(StoreError):  # then they wait until their lease is over
            database.write(lambda tx: tx.run("unclaim", (odd,)), synced=True)
    return sound


def _claimed(database: Database, room: int, which: Row, lease: Row) -> list[Row]:
    name = ""

    def claim(tx: PostgresTx) -> list[Row]:
        nonlocal name
        name = secrets.token_hex(8)  # of this try alone: an older one may yet reach the server
        args = (database.queries.version, *which, room, *lease, name, database.stands_in())
        return tx.all("claim", args)

    def recall(tx: PostgresTx) -> list[Row] | None:
        tx.run("alone_claim", (name,))
        return tx.all("claimed_by", (name,)) or None

    return database.once(claim, recall)


def which(
    handlers: Collection[str],
    lanes: Collection[str] | None,
    only: Collection[str] | None,
    *,
    suspects: bool,
    ignore_waits: bool,
    past_pauses: bool,
) -> Row:
    """Give the statement's words for what may be claimed."""
    return (
        int(suspects),
        list(handlers),
        None if lanes is None else list(lanes),
        None if only is None else list(only),
        ignore_waits,
        past_pauses,
    )


def _jobs(rows: Sequence[Row], place: str) -> Iterator[Job]:
    """Give those jobs that can be read; first attempts, which most are, by a shorter way."""
    if not rows:
        return
    alike = _alike(rows[0], place)
    for row in rows:
        if (row[15:21], row[30:36] + row[37:]) == _FIRST and row[23] is row[28] is row[9] is None:
            yield _first(row, alike.copy())
            continue
        for number, job in readable([row]):
            job.__dict__.update({_ROW: number, _PLACE: place})
            yield job


def _alike(row: Row, place: str) -> dict[str, object]:
    """Give what first attempts of one claim have in common."""
    lease = {"holder": row[25], "now": row[14], "lease_end": row[26], "boot": row[27]}
    return {**claimed(BLANK, **lease).__dict__, _ROW: 0, _PLACE: place}


def _first(row: Row, fields: dict[str, object]) -> Job:
    fields[_ROW], fields["id"] = row[:2]
    fields["lane"], fields["handler"] = row[4:6]
    fields["key"] = row[8]
    fields["detail"], fields["created"], fields["due"], fields["since"] = row[10:14]
    fields["max_attempts"], fields["limit"] = row[21:23]
    fields["lease"] = row[24]
    fields["release"] = row[29]
    fields["payload"] = row[36]
    return job_of(fields)


def is_plain(result: Settlement, place: str) -> bool:
    """Whether it is a good end of a job that was claimed here, with room for its record."""
    attempt, job = result.attempt, result.claim.job
    return (
        attempt is not None
        and attempt.failure is None
        and type(result.verdict) is Completed
        and attempt.ordinal == job.lease <= _KEPT
        and job.__dict__.get(_PLACE) == place
    )


Alike = dict[Row, list[Settlement]]
"""Good ends by what they write and their fence, which most of a batch have in common."""


def alike(results: Iterable[Settlement]) -> Alike:
    """Sort good ends by what they have in common."""
    found: Alike = {}
    for result in results:
        found.setdefault(_how(result), []).append(result)
    return found


def are_few(ends: Alike) -> bool:
    """Whether one statement can end them all."""
    return len(ends) <= _AT_ONCE


def _how(result: Settlement) -> Row:
    job, verdict = result.claim.job, result.verdict
    assert isinstance(verdict, Completed)  # noqa: S101 - see `is_plain`
    return (
        job.lease,
        job.holder,
        job.updated,
        job.failure.category._value_ if job.failure else "",
        verdict.reason._value_,
        verdict.detail,
        result.limit or job.limit,
    )


def finish(database: Database, ends: Alike) -> dict[str, Job]:
    """End claims that went well, of few kinds; gives those whose fence stood, by id."""

    def again(tx: PostgresTx) -> dict[str, Job]:
        """Do it once more, then look: what is refused, but has left its record, was done before."""
        took = finish_within(tx, database, ends)
        for how, results in ends.items():
            numbers, records = _columns(results)
            lists = tx.packed("recorded", (numbers, records, [how[0]] * len(results)))
            done = tx.all("recorded", lists)
            took = _ended(results, dict.fromkeys((n for (n,) in done), tx.now())) | took
        return took

    return database.once(lambda tx: finish_within(tx, database, ends), again)


def finish_within(tx: PostgresTx, database: Database, ends: Alike) -> dict[str, Job]:
    """Do the same as a part of a transaction."""
    version, stands_in = database.queries.version, database.stands_in()
    calls = [
        (version, *tx.packed("finish", _columns(results)), *how, stands_in)
        for how, results in ends.items()
    ]
    when: dict[int, float] = {}
    for first in range(0, len(calls), _AT_ONCE):
        when.update(tx.each("finish", calls[first : first + _AT_ONCE]))
    return _ended(chain.from_iterable(ends.values()), when)


def _columns(results: list[Settlement]) -> tuple[list[int], list[str]]:
    """Give the numbers of jobs, and the records of their attempts."""
    numbers = [result.claim.job.__dict__[_ROW] for result in results]
    return numbers, [attempt_to_json(one.attempt) for one in results if one.attempt]


def _ended(results: Iterable[Settlement], when: dict[int, float]) -> dict[str, Job]:
    """Give the jobs that ended, as they are then."""
    took: dict[str, Job] = {}
    for result in results:
        job = result.claim.job
        moment = when.get(job.__dict__[_ROW])
        if moment is not None:
            changes = ended(job, result.verdict, now=moment, limit=result.limit)
            took[job.id] = job_of(job.__dict__ | changes)
    return took
