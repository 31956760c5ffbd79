"""Retries by a person override cooldowns: a note for each such job, which covers one attempt.

Who retries a job wants its providers asked now, also while they are in cooldown. The note names the
attempt that it covers, so it survives the process and is good for no other one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from redrive.context import Current
from redrive.jobs.job import Job, State
from redrive.stores.contract import RELEASABLE, Store
from redrive.stores.note_verbs import PAUSE, note_named

PROVIDER = PAUSE + "provider:"
"""What the names of providers' pauses begin with; the provider's name follows."""
MOST = 100  # so many jobs of one retry override, at most; more than these should be a run
_NOTE = "override:"  # what the names of these notes begin with; the job's id follows
_LASTS = 7 * 86400.0


def mark(store: Store, ids: Sequence[str]) -> None:
    """Let the next attempt of these jobs ask providers that are in cooldown.

    Call it before the jobs become due: a worker may take them at once.
    """
    for one in ids[:MOST]:
        job = store.get(one)
        if job is not None and job.state in RELEASABLE:
            store.note(_NOTE + job.id, json.dumps(_next_attempt(job)), expires_in=_LASTS)


def _next_attempt(job: Job) -> list[int]:
    """Return the life and the number of a job's next attempt after a retry."""
    is_pending = job.state is State.PENDING
    return [job.redrives, job.attempts + 1] if is_pending else [job.redrives + 1, 1]


def is_marked(store: Store, current: Current) -> bool:
    """Return True if a person's retry covers this attempt; the note is used up."""
    note = note_named(store, _NOTE + current.job_id)
    if note is None or note.value != json.dumps([current.life, current.attempt]):
        return False
    return store.note(note.name, None, expected=note.version) is not None
