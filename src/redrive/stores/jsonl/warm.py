"""The jobs that were claimed here, kept in memory so that settling them reads nothing."""

from __future__ import annotations

from redrive.jobs.job import Job, State
from redrive.stores.jsonl import recovery

_MOST_BYTES = 16 << 20


class WarmJobs:
    """Running jobs by the place of their line, up to so many bytes of lines."""

    def __init__(self) -> None:
        self._jobs: dict[int, Job] = {}
        self._places: dict[str, int] = {}
        self._bytes = 0

    def get(self, place: int) -> Job | None:
        """Return the job whose line is at this place, if it is kept."""
        return self._jobs.get(place)

    def keep(self, job: Job, place: int, length: int) -> None:
        """Keep a job while it runs, instead of what was kept of it before."""
        old = self._places.pop(job.id, None)
        if old is not None:
            del self._jobs[old]
            self._bytes -= recovery.unpacked(old)[1]
        if job.state is not State.RUNNING or length > _MOST_BYTES:
            return
        if self._bytes + length > _MOST_BYTES:
            # Jobs that another process ended stay here; what still runs is read again when needed.
            self._jobs, self._places, self._bytes = {}, {}, 0
        self._jobs[place], self._places[job.id] = job, place
        self._bytes += length
