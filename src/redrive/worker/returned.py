"""Which jobs were returned unspent because the event loop they ran on failed.

A job beside the one that broke the loop loses nothing, once: it is returned and noted here, in the
store, so that every worker knows. Whoever claims it next runs it alone, and then its end is its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from redrive.errors import StoreError
from redrive.stores.contract import Store

if TYPE_CHECKING:
    from redrive.attempts.leases import Task

_RETURNED = "returned:"
"""What the names of these notes begin with; the job's id follows."""
_LASTS = 3600.0
"""Seconds for which a job that was returned runs alone."""


def note(store: Store, job_id: str) -> None:
    """Note that a job was returned."""
    with contextlib.suppress(StoreError):  # then it may be returned once more
        store.note(_RETURNED + job_id, "", expires_in=_LASTS)


def mark(store: Store, tasks: Iterable[Task]) -> None:
    """Mark the async tasks that are to run alone: they crashed, or were returned before.

    The store is asked only about jobs that were claimed more often than tried.
    """
    again: list[Task] = []
    for task in tasks:
        job = task.claim.job
        task.alone = job.crashes > 0
        if job.lease > job.attempts:
            again.append(task)
    if again:
        with contextlib.suppress(StoreError):  # then one may be returned once more
            names = {note.name for note in store.notes(_RETURNED)}
            for task in again:
                task.alone |= _RETURNED + task.claim.job.id in names
