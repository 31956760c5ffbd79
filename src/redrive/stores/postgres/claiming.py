"""Claiming jobs, in one statement that is its own transaction.

Workers do this all day, so it is one function of the schema and one round trip. If the connection
breaks before the answer is there, nobody knows whether the statement took effect. A claim has a name
for that, by which it is asked after.

A claimed job carries the number of its row, so that its end (see `ending`) need not look for it.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Collection, Iterator, Sequence

from redrive._evolve import BLANK, job_of
from redrive._transitions import claimed
from redrive.errors import StoreError
from redrive.job import Claim, Job
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.rows import readable
from redrive.stores.sql.tx import Row

ROW, PLACE = "_row", "_file"
"""What a job carries beside its fields: its number, and in whose tables."""
_MOST = 2**31 - 1
"""Jobs that one statement can claim."""

Numbered = tuple[int, Job | None]
"""The number of a row, and its job if that can be read."""


def claim(database: Database, limit: int, which: Row, lease: tuple[str, float]) -> list[Claim]:
    """Lease up to so many jobs; what cannot be read waits on, and stops no other."""
    sound: list[Claim] = []
    odd: list[int] = []
    while room := limit - len(sound):
        found = _claimed(database, room, which, lease)
        jobs = [job for _, job in found if job is not None]
        sound += map(Claim, jobs)
        if len(jobs) == len(found):
            break
        odd += [number for number, job in found if job is None]
    if odd:
        with contextlib.suppress(StoreError):  # then they wait until their lease is over
            database.write(lambda tx: tx.run("unclaim", (odd,)), synced=True)
    return sound


def _claimed(database: Database, room: int, which: Row, lease: tuple[str, float]) -> list[Numbered]:
    name, place = "", database.address.url

    def claim(tx: PostgresTx) -> list[Numbered]:
        nonlocal name
        name = secrets.token_hex(8)  # of this try alone: an older one may yet reach the server
        few = min(room, _MOST)
        args = (database.queries.version, *which, few, *lease, name, database.stands_in())
        return list(_jobs(tx.all("claim", args), *lease, place))

    def recall(tx: PostgresTx) -> list[Numbered] | None:
        tx.run("alone_claim", (name,))
        return [_whole(row, place) for row in tx.all("claimed_by", (name,))] or None

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


def _jobs(rows: Sequence[Row], holder: str, lease_for: float, place: str) -> Iterator[Numbered]:
    """Give the jobs that were claimed."""
    if not rows:
        return
    now: float = rows[0][11]
    blank = claimed(BLANK, holder=holder, now=now, lease_end=now + lease_for, boot=None)
    alike: dict[str, object] = {**blank.__dict__, ROW: 0, PLACE: place}
    for row in rows:
        if row[13] is None:
            yield row[0], _new(row, alike.copy())
        else:
            *before, _, original = json.loads(row[13])
            yield _whole((*before, row[12], original), place)


def _new(row: Row, fields: dict[str, object]) -> Job:
    """Give a job that nothing happened to before; it has no tags either."""
    fields[ROW], fields["id"], fields["lane"], fields["handler"], fields["key"] = row[:5]
    fields["created"], fields["due"], fields["since"] = row[5:8]
    fields["max_attempts"], fields["limit"], fields["release"], _, fields["payload"], _ = row[8:]
    return job_of(fields)


def _whole(row: Row, place: str) -> Numbered:
    """Give a job of a row of `whole`."""
    for _, job in readable([row]):
        job.__dict__.update({ROW: row[0], PLACE: place})
        return row[0], job
    return row[0], None
