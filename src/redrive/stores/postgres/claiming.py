"""Claiming jobs, in one statement that is its own transaction.

If the connection breaks before the answer is there, nobody knows whether the statement took effect. A
claim has a name for that, by which it is asked after.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Collection

from redrive.errors import StoreError
from redrive.jobs.job import Claim, Job
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.rows import ROW, readable
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.tx import Row

_MOST = 2**31 - 1
"""Jobs that one statement can claim."""
_LEFT_ALONE = 30.0
"""Seconds for which a job that could not be read is not asked for again."""


class Damaged:
    """The numbers of jobs that this process could not read lately."""

    def __init__(self) -> None:
        self._found: dict[int, float] = {}

    def add(self, numbers: Collection[int]) -> None:
        """Leave these alone for a while."""
        self._found |= dict.fromkeys(numbers, time.monotonic() + _LEFT_ALONE)

    def numbers(self) -> list[int]:
        """Return those that are to be left alone."""
        if self._found:
            now = time.monotonic()
            self._found = {n: end for n, end in self._found.items() if end > now}
        return list(self._found)


def claim(database: Database, damaged: Damaged, limit: int, which: Row, lease: Row) -> list[Claim]:
    """Lease up to so many jobs; what cannot be read waits on, and stops no other."""
    sound: list[Job] = []
    while room := limit - len(sound):
        name, rows = _claimed(database, damaged, room, which, lease)
        jobs = readable(rows, database.address.url)
        sound += jobs
        if len(jobs) == len(rows):
            break
        odd = {row[0] for row in rows} - {job.__dict__[ROW] for job in jobs}
        damaged.add(odd)
        with contextlib.suppress(StoreError):  # then they wait until their lease is over
            database.write(lambda tx: tx.run("unclaim", (sorted(odd), name)), synced=True)  # noqa: B023
    if sound:
        database.saw_time(sound[-1].updated)
    return [Claim(job) for job in sound]


def _claimed(
    database: Database, damaged: Damaged, room: int, which: Row, lease: Row
) -> tuple[str, list[Row]]:
    name = ""

    def claim(tx: PostgresTx) -> list[Row]:
        nonlocal name
        name = secrets.token_hex(8)  # of this try alone: an older one may yet reach the server
        few = min(room, _MOST)
        but = damaged.numbers()
        return tx.all(
            "lease_jobs", (tx.version, *which, but, few, *lease, name, database.stands_in())
        )

    def recall(tx: PostgresTx) -> list[Row] | None:
        tx.run("alone_claim", (name,))
        return tx.all("claimed_by", (name,)) or None

    rows = database.once(claim, recall)
    return name, rows


def which(
    handlers: Collection[str],
    lanes: Collection[str] | None,
    only: Collection[str] | None,
    *,
    suspects: bool,
    ignore_waits: bool,
    past_pauses: bool,
) -> Row:
    """Return the statement's words for what may be claimed."""
    return (
        int(suspects),
        list(handlers),
        None if lanes is None else list(lanes),
        None if only is None else list(only),
        ignore_waits,
        past_pauses,
    )
