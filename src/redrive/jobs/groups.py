"""What is known of a group beside its jobs: its record, and counts over time.

Everything here is frozen data. A group's record outlives its jobs: it counts every death, also of jobs
that were retried or purged since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

Span = Literal[60, 3600]
"""The width of a time bucket in seconds: minutes are kept for a day, hours for 30 days."""

GroupStatus = Literal["open", "resolved", "regressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """All that is stored of a group. Two parts, which never overwrite each other.

    Deaths write `last_seen`, `deaths`, `last_release`, `since` and `regressed`; people write the
    fields below `version`.
    """

    number: int
    fingerprint: str
    title: str = ""
    first_seen: float | None = None
    """When its first failure was stored."""
    last_seen: float | None = None
    """When the last job of it died; None if none did."""
    deaths: int = 0
    first_release: str | None = None
    last_release: str | None = None
    """The release that the last death was seen in; releases that are not known leave it."""
    since: float | None = None
    """When the present incident began: the first death in a day, or since it was resolved."""
    regressed: float | None = None
    """The first death after it was last resolved and died again; see `status`."""
    version: int = 0
    """Grows with every change by people."""
    resolved: float | None = None
    """When it was marked as resolved; None while it is open."""
    resolved_by: str = ""
    """A person, or a run such as R12."""
    reason: str = ""
    """Why it was marked so."""
    owner: str = ""
    note: str = ""
    noted: float | None = None
    noted_by: str = ""

    @property
    def status(self) -> GroupStatus:
        """Return where it stands: a resolved group that killed again has regressed."""
        if self.resolved is None:
            return "open"
        is_back = self.last_seen is not None and self.last_seen > self.resolved
        return "regressed" if is_back else "resolved"


SET_BY_PEOPLE = frozenset(
    {"resolved", "resolved_by", "reason", "owner", "note", "noted", "noted_by"}
)
"""The fields of a group's record that people change, by `Store.change_group`."""


class LaneCount(NamedTuple):
    """What happened in one lane during one time bucket."""

    attempts: int = 0
    """Attempts that ended; given-back claims do not count."""
    successes: int = 0
    """Attempts that completed their job."""
    first_failures: int = 0
    """Failed attempts of jobs that had not failed before in this life."""
    deaths: int = 0

    def plus(self, other: LaneCount) -> LaneCount:
        """Add two counts."""
        return LaneCount(*(one + two for one, two in zip(self, other, strict=True)))
