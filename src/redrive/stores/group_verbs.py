"""The part of the store contract about groups and counts over time.

**Counts.** `settle` counts what took: attempts, successes, first failures and deaths per lane, deaths per
group; `add` counts jobs that have just died. Deaths are stored with the jobs, in the same
transaction. The other counts may wait in the process for up to a second, and until `close` or `fold`: a
kill -9 may lose them. All readers see what has been written, folded or not; readers of the process that
counted also see what waits there. The rules are in `stores.counting`.

**Groups.** A failure belongs to the group of its fingerprint; else to a new group, whose `first_seen` and
`first_release` are those of this failure. Numbers never change and are never used again, so they may be
cached. A group's record stays when its last job is purged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

from redrive.jobs.groups import GroupRecord, LaneCount, Span
from redrive.jobs.job import Action


class GroupVerbs(ABC):
    """What a store can do with groups and counts."""

    @abstractmethod
    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return the records of these groups by number, or of all; unknown numbers are left out.

        Deaths that are not folded yet are part of it.
        """

    @abstractmethod
    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane in the last `number` buckets, oldest first.

        The last bucket is the one that `now` is in. Lanes without any count in that time are left
        out; the name "" stands for lanes beyond the bound.
        """

    @abstractmethod
    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of each of these groups in the last `number` buckets, oldest first.

        Jobs that were retried or purged since count too. Every group asked for is there; 0 stands
        for groups beyond the bound.
        """

    @abstractmethod
    def change_group(
        self, number: int, changes: Mapping[str, object], action: Action, *, expected: int
    ) -> GroupRecord | None:
        """Change fields of a group that people set (SET_BY_PEOPLE) and record the action, durably.

        Returns the record as it is then, its version one higher; None, and nothing is recorded, if
        its version is no longer `expected`. JobNotFound if there is no such group; UsageError for
        any other field.
        """

    @abstractmethod
    def fold(self) -> bool:
        """Add counts that were written to the buckets and groups, and remove old buckets.

        Returns False if another process is at it. What counts wait in this process are written
        first. Each count is added once, however often this is interrupted and repeated. Workers call
        it every FOLD_EVERY seconds; a writer of counts does, if no worker has for that long.
        """
