"""Claiming jobs, in one statement that is its own transaction.

Workers do this all day, so it is one function of the schema and one round trip. If the connection
breaks before the answer is there, nobody knows whether the statement took effect. A claim has a name
for that, by which it is asked after.

A claimed job carries the number of its row, so that its end (see `ending`) need not look for it.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Collection, Iterator, Sequence

from redrive.errors import StoreError
from redrive.jobs.job import Claim, Job
from redrive.jobs.records import BLANK, job_of
from redrive.jobs.transitions import claimed
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.rows import readable
from redrive.stores.sql.tx import Row

ROW, PLACE = "_row", "_file"
"""What a job carries beside its fields: its number, and in whose tables."""
_MOST = 2**31 - 1
"""Jobs that one statement can claim."""
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
        odd += {row[0] for row in rows} - {job.__dict__[ROW] for job in jobs}
    if odd:
        with contextlib.suppress(StoreError):  # then they wait until their lease is over
            database.write(lambda tx: tx.run("unclaim", (odd,)), synced=True)
    return sound


def _claimed(database: Database, room: int, which: Row, lease: Row) -> list[Row]:
    name = ""

    def claim(tx: PostgresTx) -> list[Row]:
        nonlocal name
        name = secrets.token_hex(8)  # of this try alone: an older one may yet reach the server
        few = min(room, _MOST)
        args = (database.queries.version, *which, few, *lease, name, database.stands_in())
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
            job.__dict__.update({ROW: number, PLACE: place})
            yield job


def _alike(row: Row, place: str) -> dict[str, object]:
    """Give what first attempts of one claim have in common."""
    lease = {"holder": row[25], "now": row[14], "lease_end": row[26], "boot": row[27]}
    return {**claimed(BLANK, **lease).__dict__, ROW: 0, PLACE: place}


def _first(row: Row, fields: dict[str, object]) -> Job:
    fields[ROW], fields["id"] = row[:2]
    fields["lane"], fields["handler"] = row[4:6]
    fields["key"] = row[8]
    fields["detail"], fields["created"], fields["due"], fields["since"] = row[10:14]
    fields["own_max_attempts"], fields["max_attempts"] = row[21:23]
    fields["lease"] = row[24]
    fields["release"] = row[29]
    fields["payload"] = row[36]
    return job_of(fields)
