"""The groups of a query with their jobs counted, as every store returns them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Category, Group

_NO_RECORD = "the record of this group is gone; see `redrive verify`"


@dataclass(slots=True)
class Tally:
    """The counted jobs of one group."""

    jobs: int = 0
    handlers: set[str] = field(default_factory=set[str])
    category: Category | None = None
    last: float | None = None
    last_id: str = ""

    def add(
        self,
        handler: str,
        category: Category | None,
        jobs: int,
        last: float,
        *,
        job_id: str = "",
    ) -> None:
        """Count jobs of one handler and category; the job that changed last sets the category."""
        self.jobs += jobs
        self.handlers.add(handler)
        if self.last is None or last > self.last or (last == self.last and job_id < self.last_id):
            self.last, self.category, self.last_id = last, category, job_id

    def group(self, number: int, record: GroupRecord | None) -> Group:
        """Return the group of this number with these jobs."""
        record = record or GroupRecord(number=number, fingerprint="", title=_NO_RECORD)
        return Group(
            number=number,
            fingerprint=record.fingerprint,
            title=record.title,
            jobs=self.jobs,
            handlers=tuple(sorted(self.handlers)),
            category=self.category,
            record=record,
        )


def largest(tallies: Iterable[tuple[int, Tally]], limit: int) -> list[tuple[int, Tally]]:
    """Return the groups with most jobs; of equals the oldest first."""
    ordered = sorted(tallies, key=lambda item: (-item[1].jobs, item[0]))
    return ordered[: max(limit, 0)]
