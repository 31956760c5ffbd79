"""Which attempts that must not be lost have begun: noted before they begin.

An attempt is counted when it is claimed. A job can spare one that its worker never began, unless it
was the last, or the job crashed before: then a crash of the worker would kill a job that never ran,
or bring it nearer to its third crash. So a worker keeps a note of such attempts that it begins, and
a sweep returns those that are not in it. That costs one write a noted attempt, and nothing for all
others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from redrive.jobs.job import Claim
from redrive.stores.contract import Store, note_named

if TYPE_CHECKING:
    from redrive.registry import Entry

_BEGAN = "began:"
"""What the names of these notes begin with; the holder follows."""
_LASTS = 7 * 86400.0
"""Seconds after which a note that nobody removed may go: then its jobs count as begun."""


def sweeper(holder: str) -> str:
    """Give the name under which a holder takes jobs over: it has no note of what it begins.

    So if it dies in the middle, nobody takes its silence for a sign that the job had not begun.
    """
    return f"{holder}~"


def is_last(claim: Claim, entry: Entry) -> bool:
    """Whether this may be the job's last attempt."""
    job = claim.job
    return job.attempts >= job.max_attempts or job.attempts >= entry.policy.max_attempts


def is_noted(claim: Claim, entry: Entry) -> bool:
    """Return True if this attempt is noted before it begins: the last one, or one of a suspect."""
    return claim.job.crashes > 0 or is_last(claim, entry)


def note(store: Store, holder: str, claims: Iterable[Claim]) -> None:
    """Store which of this holder's noted attempts have begun; none at first, before the first claim."""
    value = json.dumps([[claim.job.id, claim.job.lease] for claim in claims])
    store.note(_BEGAN + holder, value, expires_in=_LASTS)


def leave(store: Store, holder: str) -> None:
    """Take the note away, once all is settled."""
    store.note(_BEGAN + holder, None)


def never(store: Store, seized: Claim, entry: Entry) -> bool:
    """Return True if a job that was taken over had not begun its noted attempt, for certain."""
    if not is_noted(seized, entry):
        return False
    note = note_named(store, f"{_BEGAN}{seized.lost_by}")
    try:
        begun = {(job_id, lease) for job_id, lease in json.loads(note.value)} if note else None
    except (ValueError, TypeError):
        return False  # nobody can read it, so it may well have begun
    return begun is not None and (seized.job.id, seized.job.lease - 1) not in begun
