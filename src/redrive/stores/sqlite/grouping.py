"""Groups, variants, and counts over time: how a failure finds its group, and how ticks are folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from redrive.errors import JobNotFound
from redrive.jobs.groups import MOST_VARIANTS, GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act, Failure
from redrive.stores._files import log
from redrive.stores.counting import (
    FOLD_EVERY,
    KEPT,
    SPANS,
    Tick,
    counts_from_json,
    counts_to_json,
    folded,
    start_of,
)
from redrive.stores.group_codec import COLUMNS, check_changes, group_from, said_of, seen_of
from redrive.stores.sql.notes import record_act
from redrive.stores.sql.rows import UNREADABLE
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.tx import SqliteTx

_LAST = len(COLUMNS)


class Places:
    """The numbers of groups and variants that this process knows: they never change.

    In a transaction `begin` gives an own copy to add to; `keep` takes it over once that has committed.
    """

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._variants: dict[tuple[int, str], int] = {}

    def begin(self, tx: SqliteTx) -> Placing:
        """Return what places the failures of one transaction."""
        return Placing(tx, self._groups, self._variants)

    def keep(self, placing: Placing) -> None:
        """Take over what a transaction that has committed found out."""
        self._groups.update(placing.groups)
        self._variants.update(placing.variants)


class Placing:
    """Finds the group and variant of failures, and makes those that are new."""

    def __init__(
        self, tx: SqliteTx, groups: Mapping[str, int], variants: Mapping[tuple[int, str], int]
    ) -> None:
        self._tx = tx
        self._known = groups, variants
        self.groups: dict[str, int] = {}
        self.variants: dict[tuple[int, str], int] = {}

    def knows(self, failure: Failure) -> bool:
        """Return True if placing this failure writes nothing."""
        group = self._known[0].get(failure.fingerprint, self.groups.get(failure.fingerprint))
        variant = (group, failure.variant_text)
        known = variant in self._known[1] or variant in self.variants
        return not failure.fingerprint or (group is not None and (known or not variant[1]))

    def place(
        self, failure: Failure, *, release: str | None = None
    ) -> tuple[int | None, int | None]:
        """Return the numbers of a failure's group and variant; none without a fingerprint."""
        if not failure.fingerprint:
            return None, None
        group = self._known[0].get(failure.fingerprint) or self.groups.get(failure.fingerprint)
        if group is None:
            group = self.groups[failure.fingerprint] = self._group(failure, release)
        if not failure.variant_text:
            return group, None
        name = group, failure.variant_text
        variant = self._known[1].get(name, self.variants.get(name))
        if variant is None:
            variant = self.variants[name] = self._variant(*name)
        return group, variant

    def _group(self, failure: Failure, release: str | None) -> int:
        found = self._tx.one("group_of", (failure.fingerprint,))
        if not found and failure.fingerprint_v1:
            found = self._tx.one("take_group", (failure.fingerprint, failure.fingerprint_v1))
        elif not found:  # a failure without one has its fingerprint by the older rules
            found = self._tx.one("group_of_v1", (failure.fingerprint,))
        if found:
            return int(found[0])
        record = GroupRecord(
            number=0,
            fingerprint=failure.fingerprint,
            fingerprint_v1=failure.fingerprint_v1 or None,
            title=failure.title,
            first_seen=self._tx.now(),
            first_release=release,
        )
        args = (record.fingerprint, record.fingerprint_v1, record.title, record.first_seen)
        return self._tx.insert("insert_group", (*args, seen_of(record)))

    def _variant(self, group: int, text: str) -> int:
        found = self._tx.one("variant_of", (group, text))
        if found:
            return int(found[0])
        (last,) = self._tx.one("last_variant", (group,)) or (0,)
        if last >= MOST_VARIANTS:
            return 0
        self._tx.run("insert_variant", (group, last + 1, text))
        return int(last) + 1


def write_ticks(tx: SqliteTx, ticks: Collection[Tick]) -> None:
    """Append counts, and fold all there are if the oldest has waited for long enough."""
    if not ticks:
        return
    tx.many("insert_tick", [(at, counts_to_json(counts)) for at, counts in ticks])
    (oldest,) = tx.one("oldest_tick") or (tx.now(),)
    if abs(tx.now() - oldest) >= FOLD_EVERY:
        fold(tx)


class _Read(NamedTuple):
    ticks: list[Tick]
    numbers: list[int]
    """The numbers of their rows."""


def _ticks(tx: SqliteTx) -> _Read:
    """Read the ticks that are stored; those that cannot be read are left alone."""
    ticks: list[Tick] = []
    numbers: list[int] = []
    for number, at, counts in tx.all("ticks"):
        try:
            ticks.append(Tick(at, counts_from_json(counts)))
            numbers.append(number)
        except UNREADABLE:
            log.error("the counts of tick %s cannot be read; see `redrive verify`", number)
    return _Read(ticks, numbers)


def fold(tx: SqliteTx) -> None:
    """Add ticks to the buckets, groups and variants, and remove both them and old buckets."""
    ticks, numbers = _ticks(tx)
    now = tx.now()
    records = _stored_records(tx, {number for tick in ticks for number in tick.counts.groups})
    lanes: dict[tuple[int, int], set[str]] = {}
    groups: dict[tuple[int, int], set[int]] = {}
    for span, start in {(s, start_of(min(t.at, now), s)) for t in ticks for s in SPANS}:
        lanes[span, start] = {name for (name,) in tx.all("bucket_lanes", (span, start))}
        groups[span, start] = {name for (name,) in tx.all("bucket_groups", (span, start))}
    sums = folded(records, ticks, now, lanes=lanes, groups=groups)
    tx.many("add_lane_count", [(*key, *count) for key, count in sums.lanes.items()])
    tx.many("add_group_count", [(*key, deaths) for key, deaths in sums.groups.items()])
    tx.many("add_variant", [(*key, *count) for key, count in sums.variants.items()])
    tx.many(
        "fold_group",
        [(one.last_seen, one.deaths, seen_of(one), one.number) for one in sums.records.values()],
    )
    for span in SPANS:
        oldest = start_of(now - KEPT[span], span)
        tx.run("old_lane_counts", (span, oldest))
        tx.run("old_group_counts", (span, oldest))
    tx.run("remove_ticks", (tx.array(numbers),))


def _stored_records(tx: SqliteTx, numbers: Collection[int] | None) -> dict[int, GroupRecord]:
    rows = tx.all("every_group") if numbers is None else tx.all("groups", (tx.array(numbers),))
    return {row[0]: _record(row) for row in rows}


def _record(row: Row) -> GroupRecord:
    columns: dict[str, Any] = dict(zip(COLUMNS, row, strict=False))
    try:
        return group_from(columns, row[_LAST], row[_LAST + 1])
    except UNREADABLE:
        log.error("the record of group G%s cannot be read; see `redrive verify`", row[0])
        return group_from(columns, None, None)


def records(
    tx: SqliteTx, waiting: Iterable[Tick], numbers: Collection[int] | None
) -> dict[int, GroupRecord]:
    """Return records of groups with all deaths so far, folded or not."""
    found = _stored_records(tx, numbers)
    unfolded = folded(found, [*_ticks(tx).ticks, *waiting], tx.now())
    return {**found, **unfolded.records}


def variants(tx: SqliteTx, waiting: Iterable[Tick], group: int) -> list[Variant]:
    """Return the variants of a group, most deaths first; all others come last."""
    found = {row[0]: Variant(*row) for row in tx.all("variants", (group,))}
    unfolded = folded({}, [*_ticks(tx).ticks, *waiting], tx.now())
    for (cause, number), (deaths, last) in unfolded.variants.items():
        if cause == group:
            one = found.get(number, Variant(number, "", 0, None))
            seen = last if one.last_seen is None else max(last, one.last_seen)
            found[number] = one._replace(deaths=one.deaths + deaths, last_seen=seen)
    shown = [one for one in found.values() if one.number or one.deaths]
    return sorted(shown, key=lambda one: (one.number == 0, -one.deaths, one.number))


def lane_curve(
    tx: SqliteTx, waiting: Iterable[Tick], span: Span, number: int
) -> dict[str, list[LaneCount]]:
    """Return what happened in each lane, bucket by bucket."""
    first = start_of(tx.now(), span) - (number - 1) * span
    found: dict[str, list[LaneCount]] = {}

    def take(start: int, lane: str, count: LaneCount) -> None:
        place = (start - first) // span
        if 0 <= place < number:
            row = found.setdefault(lane, [LaneCount()] * number)
            row[place] = row[place].plus(count)

    for start, lane, *numbers in tx.all("lane_counts", (span, first)):
        take(start, lane, LaneCount(*numbers))
    unfolded = folded({}, [*_ticks(tx).ticks, *waiting], tx.now())
    for (width, start, lane), count in unfolded.lanes.items():
        if width == span:
            take(start, lane, count)
    return found


def group_curve(
    tx: SqliteTx, waiting: Iterable[Tick], span: Span, number: int, groups: Collection[int]
) -> dict[int, list[int]]:
    """Return the deaths of each of these groups, bucket by bucket."""
    first = start_of(tx.now(), span) - (number - 1) * span
    found = {group: [0] * number for group in groups}
    unfolded = folded({}, [*_ticks(tx).ticks, *waiting], tx.now())
    rows = [
        (group, start, deaths)
        for (width, start, group), deaths in unfolded.groups.items()
        if width == span
    ]
    for group, start, deaths in [*tx.all("group_counts", (span, tx.array(groups), first)), *rows]:
        place = (start - first) // span
        if group in found and 0 <= place < number:
            found[group][place] += deaths
    return found


def change_group(
    tx: SqliteTx, number: int, changes: Mapping[str, object], action: Act, expected: int
) -> bool:
    """Change what people say of a group and record the action; False if its version moved on."""
    check_changes(changes)
    stored = _stored_records(tx, [number]).get(number)
    if stored is None:
        msg = f"no group G{number}"
        raise JobNotFound(msg)
    new: Any = changes
    args = (said_of(replace(stored, **new)), number, expected)
    if tx.one("change_group", args) is None:
        return False
    record_act(tx, action)
    return True
