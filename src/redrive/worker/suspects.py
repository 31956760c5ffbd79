"""Jobs that an earlier attempt makes special: suspects, returned jobs, and attempts noted before they begin.

A suspect crashed before: it runs one at a time, in a child or while nothing else runs here (ADR 8). A
job beside one that broke the event loop is returned unspent, once: a note in the store makes the worker that
claims it next run it alone, and then its end is its own.

An attempt is counted when it is claimed. A job can spare one that its worker never began, unless it
was the last, or the job is a suspect. So a worker notes such attempts before they begin, and a sweep
returns those that were not noted. That costs one write for each, and nothing for all others.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from redrive.attempts.leases import ALONE, Task
from redrive.errors import StoreError
from redrive.jobs.job import Claim
from redrive.stores.contract import Store
from redrive.stores.note_verbs import note_named

if TYPE_CHECKING:
    from redrive.registry import Entry
    from redrive.worker.dispatch import Dispatcher

EVERY = 1.0  # seconds between two claims of suspects, while there are none
_BEGAN = "began:"  # the prefix of notes of attempts that began; the holder follows
_BEGAN_LASTS = 7 * 86400.0
"""Seconds after which such a note may expire: then its holder's attempts count as begun."""
_RETURNED = "returned:"  # the prefix of notes of returned jobs; the job's id follows
_RETURNED_LASTS = 3600.0  # seconds for which a job that was returned runs alone


class Suspects:
    """The suspect that a worker holds; `claim` claims some, `busy` counts the tasks of the worker."""

    def __init__(
        self, dispatcher: Dispatcher, claim: Callable[[int], list[Task]], busy: Callable[[], int]
    ) -> None:
        self._dispatcher = dispatcher
        self._claim = claim
        self._busy = busy
        self._task: Task | None = None
        self._runs = False
        self._since = 0.0
        self._not_before = 0.0
        self._may_be_more = False

    @property
    def is_pressing(self) -> bool:
        """True if `take` is due at once: a suspect waits to be alone, or another may be due."""
        return self._may_be_more or (self._task is not None and not self._runs)

    @property
    def must_be_alone(self) -> bool:
        """True if a suspect runs, or is to run, in this process.

        Not for ever: one that never ends must not stop all the others.
        """
        return (
            self._task is not None
            and not self._dispatcher.is_apart(self._task)
            and time.monotonic() - self._since < ALONE
        )

    def take(self) -> None:
        """Claim one; run it in a child, or here when nothing else runs."""
        now = time.monotonic()
        self._pass_over(now)
        if self._task is None and now >= self._not_before:
            self._task = next(iter(self._claim(1)), None)
            self._since = now
            self._may_be_more = False
        if self._task is None or self._runs:
            return
        if self._dispatcher.is_apart(self._task) or self._busy() == 1:
            self._runs = True
            self._dispatcher.put([self._task])
        elif now - self._since > ALONE:  # it waited long enough; now the other jobs run
            self._not_before = now + 2 * ALONE
            self._return(ALONE)

    def _pass_over(self, now: float) -> None:
        """Let the next one run beside one that takes long in a child."""
        is_apart = self._task is not None and self._dispatcher.is_apart(self._task)
        if is_apart and self._runs and now - self._since > ALONE:
            self._task, self._runs = None, False

    def settled(self, tasks: Collection[Task]) -> None:
        """Forget the suspect if it is one of these settled tasks."""
        if self._task in tasks:
            self._task, self._runs = None, False
            self._may_be_more = True

    def drain(self) -> None:
        """Return one that did not begin."""
        if self._task is not None and not self._runs:
            self._return(None)

    def _return(self, delay: float | None) -> None:
        assert self._task is not None  # noqa: S101 - asked before
        self._runs = True
        self._dispatcher.return_unspent(self._task, delay=delay)


def is_noted(claim: Claim, entry: Entry) -> bool:
    """Return True if this attempt is noted before it begins: the last one, or one of a suspect."""
    job = claim.job
    return job.crashes > 0 or job.attempts >= min(job.max_attempts, entry.policy.max_attempts)


def note_begun(store: Store, holder: str, claims: Iterable[Claim]) -> None:
    """Store which noted attempts of this holder have begun; none at first, before the first claim."""
    value = json.dumps([[claim.job.id, claim.job.lease] for claim in claims])
    store.note(_BEGAN + holder, value, expires_in=_BEGAN_LASTS)


def remove_begun(store: Store, holder: str) -> None:
    """Remove the note of a holder that has settled everything."""
    store.note(_BEGAN + holder, None)


def never_began(store: Store, seized: Claim, entry: Entry) -> bool:
    """Return True if a job that was taken over had certainly not begun its noted attempt."""
    if not is_noted(seized, entry):
        return False
    note = note_named(store, f"{_BEGAN}{seized.lost_by}")
    try:
        begun = {(job_id, lease) for job_id, lease in json.loads(note.value)} if note else None
    except (ValueError, TypeError):
        return False  # unreadable, so it may have begun
    return begun is not None and (seized.job.id, seized.job.lease - 1) not in begun


def note_returned(store: Store, job_id: str) -> None:
    """Store that a job was returned because the event loop it ran on failed."""
    with contextlib.suppress(StoreError):  # then it may be returned once more
        store.note(_RETURNED + job_id, "", expires_in=_RETURNED_LASTS)


def mark_alone(store: Store, tasks: Iterable[Task]) -> None:
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
