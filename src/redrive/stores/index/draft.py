"""What one operation is about to change; nothing is changed before the whole operation stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from redrive.errors import JobNotFound
from redrive.jobs.job import Act, Failure, Job
from redrive.stores.index.entries import Change, Entry, Grouped, Index, Put


class Draft:
    """The changes of one operation, and the view of the store with them."""

    def __init__(self, index: Index, load: Callable[[Entry], Job]) -> None:
        self._index = index
        self._load = load
        self._jobs: dict[str, Job] = {}
        self._keys: dict[str, str] = {}
        self._groups: dict[str, int] = {}
        self.changes: list[Change] = []

    def job(self, job_id: str) -> Job | None:
        """Give a job with its history, as this operation has made it so far."""
        found = self._jobs.get(job_id)
        if found is not None:
            return found
        entry = self._index.entries.get(job_id)
        return None if entry is None else self._load(entry)

    def need(self, job_id: str) -> Job:
        """Return a job as it will be; JobNotFound if there is none."""
        job = self.job(job_id)
        if job is None:
            msg = f"no job {job_id}; it may have been purged"
            raise JobNotFound(msg)
        return job

    def keyed(self, key: str) -> Job | None:
        """Give the job an idempotency key belongs to."""
        job_id = self._keys.get(key) or self._index.keys.get(key)
        return None if job_id is None else self.job(job_id)

    def put(self, job: Job) -> None:
        """Keep a job as it is from now on."""
        self._jobs[job.id] = job
        if job.key is not None:
            self._keys.setdefault(job.key, job.id)
        self.changes.append(Put(job))

    def group(self, failure: Failure | None) -> int | None:
        """Give the number of a failure's group; it is made the first time."""
        if failure is None or not failure.fingerprint:
            return None
        fingerprint = failure.fingerprint
        number = self._index.fingerprints.get(fingerprint) or self._groups.get(fingerprint)
        if number is None:
            number = self._index.last_group + len(self._groups) + 1
            self._groups[fingerprint] = number
            self.changes.append(Grouped(number, fingerprint, failure.title))
        return number

    def act(self, act: Act, now: float) -> Act:
        """Keep an act; the store numbers them and says when."""
        last = self._index.acts[-1].number if self._index.acts else 0
        act = replace(act, number=last + 1, at=now)
        self.changes.append(act)
        return act
