"""Ending a job that waits in the store, where a line that is imported later says how it ended."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Final

from redrive.jobs.job import Attempt, Claim, Completed, Dead, Job, Reason, Settlement, State
from redrive.jobs.reports import IMPORTED
from redrive.stores.contract import Store

_LEASE: Final = 60.0
_HOLDER: Final = f"{IMPORTED}-"
"""What the holder of a job begins with that an import is just ending."""
_LATER: Final = "as a line that was imported later says"


def waits(job: Job) -> bool:
    """Return True for a job that waits as it was taken in: no person did anything about it."""
    is_held = job.state is State.RUNNING and (job.holder or "").startswith(_HOLDER)
    return (job.state is State.PENDING or is_held) and not (job.redrives or job.edits)


def end(store: Store, ids: list[str], job: Job) -> int:
    """End stored jobs as `job` ended, which is the same event told later; count those that did.

    Where several wait for it, the first becomes what it became and the others are left to it.
    """
    waiting = [stored for stored in map(store.get, ids) if stored is not None]
    mine = f"{_HOLDER}{secrets.token_hex(6)}"
    claims = store.claim(
        {stored.handler for stored in waiting},
        limit=len(ids),
        holder=mine,
        lease_for=_LEASE,
        only=ids,
        ignore_waits=True,
    )
    killed = {stored.holder for stored in waiting if stored.holder and waits(stored)}
    for holder in killed:  # imports that did not come to their end
        claims += store.seize(by=mine, lease_for=_LEASE, holder=holder)
    results = [_settlement(claim, job) for claim in claims[:1]]
    for claim in claims[1:]:
        outcome = Completed(Reason.SKIPPED, f"job {claims[0].job.id} records how it ended")
        results.append(Settlement(claim, outcome))
    return sum(stored is not None for stored in store.settle(results)) if results else 0


def _settlement(claim: Claim, job: Job) -> Settlement:
    last = job.history[-1] if job.history else None
    attempt = Attempt(
        ordinal=claim.job.lease,
        number=claim.job.attempts,
        life=claim.job.redrives,
        started=last.started if last else job.updated,
        duration=last.duration if last else 0.0,
        worker=IMPORTED,
        outcome="done",
    )
    if job.state is not State.DEAD:
        return Settlement(claim, Completed(Reason.DONE, _LATER), attempt)
    attempt = replace(attempt, outcome="failed", failure=last.failure if last else job.failure)
    return Settlement(claim, Dead(job.reason or Reason.EXHAUSTED, job.detail or _LATER), attempt)
