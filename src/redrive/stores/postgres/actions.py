"""How the jobs that an action changed are written, and how lost ones are taken over.

Rows are locked and read, the next record comes from `jobs.transitions`, and it is written under the fence;
a job that changed tables meanwhile makes the transaction begin anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter

from psycopg.errors import SerializationFailure

from redrive.jobs.job import Claim
from redrive.jobs.transitions import Changed, Verb, seized
from redrive.stores.postgres.rows import ROW, job_from_row, readable, state_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import more_of
from redrive.stores.sql.tx import Row


def write_changes(tx: PostgresTx, changes: Sequence[Changed], verb: Verb | None) -> None:
    """Write jobs that an action changed; the transaction begins anew if one was changed meanwhile."""
    name, row = ("enlist", _tag_row) if verb == "enlist" else ("change_jobs", _change_row)
    cursor = tx.batch(name, sorted(map(row, changes), key=itemgetter(0)))
    (took,) = (cursor.fetchone() if cursor else None) or (0,)
    if took != len(changes):
        msg = "a job was changed meanwhile"
        raise SerializationFailure(msg)


def _tag_row(change: Changed) -> Row:
    return change.job.__dict__[ROW], change.was.lease, change.job.run, more_of(change.job)


def _change_row(change: Changed) -> Row:
    job, was = change.job, change.was
    head, rest = state_row(job)[:5], state_row(job)[5:]
    fence = was.lease, was.holder, was.updated
    return (job.__dict__[ROW], *fence, *head, job.run, *rest)


def seize(
    tx: PostgresTx,
    *,
    by: str,
    lease_for: float,
    holder: str | None,
    handlers: Collection[str] | None,
    damaged: list[int],
    limit: int,
    place: str,
) -> list[Claim]:
    """Take over running jobs whose lease has ended, or all of one holder."""
    only = None if handlers is None else list(handlers)
    args = (holder, tx.now(), holder, only, only, damaged, max(limit, 0))
    numbers = [number for (number,) in tx.all("lock_lost", args)]
    lost = readable(tx.all("by_numbers", (numbers,)), place) if numbers else []
    end = tx.now() + lease_for
    claims = [Claim(seized(job, by=by, lease_end=end), lost_by=job.holder) for job in lost]
    jobs = [claim.job for claim in claims]
    tx.many("seize", [(job.__dict__[ROW], job.lease, job.holder, job.lease_end) for job in jobs])
    return claims


def claims_landed(tx: PostgresTx, claims: list[Claim]) -> bool:
    """Return True if these leases were given: all were, if one of them still stands."""
    fences = {(claim.job.id, claim.job.lease, claim.job.holder) for claim in claims}
    rows = tx.all("to_change", ([claim.job.id for claim in claims],))
    return any((job.id, job.lease, job.holder) in fences for job in map(job_from_row, rows))
