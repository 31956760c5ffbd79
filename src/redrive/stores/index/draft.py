"""What one operation is about to change; nothing is changed before the whole operation stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redrive.jobs.groups import MOST_VARIANTS, GroupRecord
from redrive.jobs.job import Action, Failure, Job
from redrive.jobs.reports import events_of
from redrive.stores.index.changes import Change, Put, Queued, Varied
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
        self._variants: dict[tuple[int, str], int] = {}
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

    def place(self, failure: Failure, release: str | None) -> tuple[int | None, int | None]:
        """Return the numbers of a failure's group and variant; they are made the first time."""
        if not failure.fingerprint:
            return None, None
        group = self._index.fingerprints.get(failure.fingerprint)
        group = group or self._groups.get(failure.fingerprint) or self._new_group(failure, release)
        return group, self._variant(group, failure.variant_text)

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

    def _variant(self, group: int, text: str) -> int | None:
        if not text:
            return None
        place = (group, text)
        number = self._index.texts.get(place) or self._variants.get(place)
        if number is None:
            known = sum(one > 0 for one in self._index.variants.get(group, ()))
            new = sum(one == group for one, _ in self._variants)
            if known + new >= MOST_VARIANTS:
                return 0
            number = self._variants[place] = known + new + 1
            self.changes.append(Varied(group, number, text))
        return number

    def action(self, action: Action) -> Action:
        """Record an action; the store sets its number and time."""
        last = self._index.actions[-1].number if self._index.actions else 0
        action = replace(action, number=last + 1, at=self.now)
        self.changes.append(action)
        return action
