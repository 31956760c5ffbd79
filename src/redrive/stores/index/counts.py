"""Counts over time, evaluated on the index: the curves, and how ticks reach buckets and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from redrive.jobs.groups import GroupRecord, LaneCount, Span
from redrive.stores import counting
from redrive.stores.counting import KEPT, SPANS, Tick, start_of
from redrive.stores.index.changes import Bucket, Change, Folded
from redrive.stores.index.entries import Index


@dataclass(frozen=True, slots=True)
class View:
    """What the index knows of groups and counts, with ticks that are not folded yet."""

    index: Index
    added: counting.Folded
    touched: Mapping[tuple[int, int], Bucket]
    """The buckets that those ticks belong to, with them."""
    now: float

    def record(self, number: int) -> GroupRecord | None:
        """Return the record of a group."""
        return self.added.records.get(number) or self.index.groups.get(number)

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return the counts of each lane, oldest first."""
        found: dict[str, list[LaneCount]] = {}
        for at, start in enumerate(self._starts(span, number)):
            for lane, count in self._bucket(span, start).lanes.items():
                found.setdefault(lane, [LaneCount()] * number)[at] = count
        return found

    def group_curve(self, span: Span, number: int, groups: Iterable[int]) -> dict[int, list[int]]:
        """Return the deaths of each group, oldest first."""
        buckets = [self._bucket(span, start).groups for start in self._starts(span, number)]
        return {group: [one.get(group, 0) for one in buckets] for group in groups}

    def _starts(self, span: int, number: int) -> list[int]:
        last = start_of(self.now, span)
        return [last - span * back for back in range(number - 1, -1, -1)]

    def _bucket(self, span: int, start: int) -> Bucket:
        known = self.index.buckets.get((span, start), Bucket(span, start, {}, {}))
        return self.touched.get((span, start), known)

    def fold(self) -> list[Change]:
        """Return what makes all this part of the index, and removes what is too old."""
        changes: list[Change] = [*self.added.records.values()]
        buckets = {**self.index.buckets, **self.touched}
        for (span, start), bucket in buckets.items():
            if start + span <= self.now - KEPT[span]:
                changes.append(Bucket(span, start, {}, {}))
            elif (span, start) in self.touched:
                changes.append(bucket)
        return [*changes, Folded(self.now)] if changes or self.index.ticks else []


def view(index: Index, waiting: Sequence[Tick], now: float) -> View:
    """Add the ticks of the index, and those that wait in the process, to what is folded."""
    ticks = [*index.ticks, *waiting]
    places = {(span, start_of(min(at, now), span)) for at, _ in ticks for span in SPANS}
    known: dict[tuple[int, int], Bucket] = {
        place: index.buckets[place] for place in places if place in index.buckets
    }
    added = counting.folded(
        index.groups,
        ticks,
        now,
        lanes={place: one.lanes for place, one in known.items()},
        groups={place: one.groups for place, one in known.items()},
    )
    return View(index, added, _touched(known, added), now)


def _touched(
    known: Mapping[tuple[int, int], Bucket], added: counting.Folded
) -> dict[tuple[int, int], Bucket]:
    """Return the buckets that ticks are added to, as they are with them."""
    lanes = {place: dict(one.lanes) for place, one in known.items()}
    groups = {place: dict(one.groups) for place, one in known.items()}
    for (span, start, lane), count in added.lanes.items():
        counts = lanes.setdefault((span, start), {})
        counts[lane] = counts.get(lane, LaneCount()).plus(count)
    for (span, start, group), deaths in added.groups.items():
        dead = groups.setdefault((span, start), {})
        dead[group] = dead.get(group, 0) + deaths
    places = lanes.keys() | groups.keys()
    return {place: Bucket(*place, lanes.get(place, {}), groups.get(place, {})) for place in places}
