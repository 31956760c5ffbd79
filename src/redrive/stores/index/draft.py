"""What one operation is about to change; nothing is changed before the whole operation stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Action, Failure, Job
from redrive.jobs.reports import events_of
from redrive.stores.index.changes import Change, Put, Queued
from redrive.stores.index.entries import Entry, Index
from redrive.stores.record_codec import event_body
from redrive.stores.refusals import no_job


class Draft:
    """The changes of one operation, and the view of the store with them."""

    def __init__(self, index: Index, load: Callable[[Entry], Job], now: float) -> None:
        self._index = index
        self._load = load
        self._jobs: dict[str, Job] = {}
        self._keys: dict[str, str] = {}
        self._groups: dict[str, int] = {}
        self._events = 0
        self.now = now
        self.changes: list[Change] = []

    def job(self, job_id: str) -> Job | None:
        """Return a job with its history, as this operation has made it so far."""
        found = self._jobs.get(job_id)
        if found is not None:
            return found
        entry = self._index.entries.get(job_id)
        return None if entry is None else self._load(entry)

    def need(self, job_id: str) -> Job:
        """Return a job as it will be; JobNotFound if there is none."""
        job = self.job(job_id)
        if job is None:
            raise no_job(job_id)
        return job

    def keyed(self, key: str) -> Job | None:
        """Return the job an idempotency key belongs to."""
        job_id = self._keys.get(key) or self._index.keys.get(key)
        return None if job_id is None else self.job(job_id)

    def put(self, job: Job) -> None:
        """Keep a job as it is from now on."""
        self._jobs[job.id] = job
        if job.key is not None:
            self._keys.setdefault(job.key, job.id)
        self.changes.append(Put(job))

    def report(self, was: Job | None, job: Job | None) -> None:
        """Put what happened to a job in the outbox, for those who subscribed to it."""
        if not self._index.subscriptions:
            return
        for kind in events_of(was, job, now=self.now):
            for name, kinds in self._index.subscriptions.items():
                one = job or was
                if kind in kinds and one is not None:
                    self._events += 1
                    number = self._index.last_event + self._events
                    queued = Queued(number, name, one.id, kind, self.now, event_body(one))
                    self.changes.append(queued)

    def place(self, failure: Failure, release: str | None) -> int | None:
        """Return the number of a failure's group; it is made the first time."""
        if not failure.fingerprint:
            return None
        group = self._index.fingerprints.get(failure.fingerprint)
        return group or self._groups.get(failure.fingerprint) or self._new_group(failure, release)

    def _new_group(self, failure: Failure, release: str | None) -> int:
        record = GroupRecord(
            number=self._index.last_group + len(self._groups) + 1,
            fingerprint=failure.fingerprint,
            title=failure.title,
            first_seen=self.now,
            first_release=release,
        )
        self._groups[failure.fingerprint] = record.number
        self.changes.append(record)
        return record.number

    def action(self, action: Action) -> Action:
        """Record an action; the store sets its number and time."""
        last = self._index.actions[-1].number if self._index.actions else 0
        action = replace(action, number=last + 1, at=self.now)
        self.changes.append(action)
        return action
