"""Groups and counts over time: how a failure finds its group, how ticks are folded and read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from redrive.jobs.groups import GroupRecord, LaneCount, Span
from redrive.jobs.job import Action, Failure
from redrive.stores._files import log
from redrive.stores.counting import (
    KEPT,
    Backlog,
    Folded,
    Tick,
    counts_from_json,
    counts_to_json,
    folded,
    start_of,
)
from redrive.stores.group_codec import COLUMNS, check_changes, deaths_json, group_from, people_json
from redrive.stores.refusals import no_group
from redrive.stores.sql.notes import action_landed, alone_with_actions, record_action
from redrive.stores.sql.rows import UNREADABLE
from redrive.stores.sql.tx import Row, SqlBase, Tx

Seen = tuple[Failure, str | None]
"""A failure and the release it was seen in."""
_Numbers = dict[str, int]  # groups by fingerprint


class Places:
    """The groups of failures, as far as this process knows them.

    They never change, but a server that comes back from a backup or a standby may not have them all.
    """

    def __init__(self) -> None:
        self._known: _Numbers = {}

    def place(self, failure: Failure) -> int | None:
        """Return the group of a failure; KeyError if that is not known here."""
        return self._known[failure.fingerprint] if failure.fingerprint else None

    def begin(self, tx: Tx) -> Placing:
        """Return what places failures in a transaction; `keep` it once that has committed."""
        return Placing(tx, self._known)

    def forget(self) -> None:
        """Know nothing any more: the store may not be the one it was."""
        self._known.clear()

    def keep(self, placing: Placing) -> None:
        """Take over what a transaction that has committed found out."""
        self._known.update(placing.new)

    def learn(
        self, write: Callable[[Callable[[Tx], Placing]], Placing], seen: Iterable[Seen]
    ) -> None:
        """Look up where failures belong, in a transaction of their own if that is not known here."""
        unknown = [
            (failure, release)
            for failure, release in seen
            if failure.fingerprint and failure.fingerprint not in self._known
        ]

        def work(tx: Tx) -> Placing:
            placing = self.begin(tx)
            for failure, release in unknown:
                placing.place(failure, release=release)
            return placing

        if unknown:
            self.keep(write(work))


class Placing:
    """Finds the groups of failures, and makes those that are new."""

    def __init__(self, tx: Tx, known: _Numbers) -> None:
        self._tx = tx
        self._known = known
        self.new: _Numbers = {}

    def knows(self, failure: Failure) -> bool:
        """Return True if placing this failure asks nothing of the store."""
        name = failure.fingerprint
        return not name or name in self._known or name in self.new

    def place(self, failure: Failure, *, release: str | None = None) -> int | None:
        """Return the number of a failure's group; None without a fingerprint."""
        name = failure.fingerprint
        if not name:
            return None
        number = self._known.get(name) or self.new.get(name)
        if number is None:
            self._tx.alone("groups")
            number = self.new[name] = _group(self._tx, failure, release)
        return number


def _group(tx: Tx, failure: Failure, release: str | None) -> int:
    found = tx.one("group_of", (failure.fingerprint,))
    if found is None:
        seen = deaths_json(GroupRecord(number=0, fingerprint="", first_release=release))
        found = tx.one("add_group", (failure.fingerprint, failure.title, tx.now(), seen))
    return int(found[0]) if found else 0


class SqlGroups(SqlBase):
    """The verbs about groups and counts."""

    _backlog: Backlog

    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return the records of these groups by number, or of all; see the contract."""
        return self._read(lambda tx: self._records(tx, numbers))

    def _records(self, tx: Tx, numbers: Collection[int] | None) -> dict[int, GroupRecord]:
        """Return records with the deaths that are not folded yet."""
        found = _stored_records(tx, numbers)
        return {**found, **folded(found, self._unfolded(tx), tx.now()).records}

    def _unfolded(self, tx: Tx) -> list[Tick]:
        return [*_ticks(tx.all("ticks")), *self._backlog.waiting()]

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane in the last buckets; see the contract."""

        def work(tx: Tx) -> dict[str, list[LaneCount]]:
            first = start_of(tx.now(), span) - span * (number - 1)
            rows: list[tuple[int, str, LaneCount]] = [
                (start, lane, LaneCount(*numbers))
                for start, lane, *numbers in tx.all("lane_counts", (span, first))
            ]
            new = _folded_now(tx, self._unfolded(tx), {}).lanes
            rows += [(start, lane, count) for (w, start, lane), count in new.items() if w == span]
            curves: dict[str, list[LaneCount]] = {}
            for start, lane, count in rows:
                place = (start - first) // span
                if 0 <= place < number:
                    curve = curves.setdefault(lane, [LaneCount()] * number)
                    curve[place] = curve[place].plus(count)
            return curves

        return self._read(work)

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of each of these groups in the last buckets; see the contract."""

        def work(tx: Tx) -> dict[int, list[int]]:
            first = start_of(tx.now(), span) - span * (number - 1)
            rows = tx.all("group_counts", (span, first, tx.array(groups)))
            new = _folded_now(tx, self._unfolded(tx), {}).groups
            rows += [(start, group, n) for (w, start, group), n in new.items() if w == span]
            curves = {group: [0] * number for group in groups}
            for start, group, deaths in rows:
                place = (start - first) // span
                if group in curves and 0 <= place < number:
                    curves[group][place] += deaths
            return curves

        return self._read(work)

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Action, *, expected: int
    ) -> GroupRecord | None:
        """Change fields of a group that people set, and record the action; see the contract."""
        check_changes(changes)

        def work(tx: Tx) -> tuple[GroupRecord, Action] | None:
            recorded = _change_group(tx, number, changes, action, expected)
            if recorded is None:
                return None
            return self._records(tx, [number])[number], recorded

        changed = self._write(
            work,
            durable=True,
            landed=lambda tx, done: done is None or action_landed(alone_with_actions(tx), done[1]),
        )
        return changed and changed[0]

    def fold(self) -> bool:
        """Add counts that were written to the buckets and groups; see the contract."""
        self._write_waiting()
        return self._write(fold, durable=False)

    def _write_waiting(self) -> None:
        """Write the counts that wait in this process; not twice where a commit went unanswered."""
        share, committed = self._backlog.rest(), False
        rows = _rows_of(share.write)

        def work(tx: Tx) -> None:
            tx.alone("ticks")
            tx.many("add_tick", rows)

        def landed(tx: Tx, _: None) -> bool:
            tx.alone("ticks")
            return {*rows} <= {*tx.all("ticks")}

        try:
            if rows:
                self._write(work, durable=False, landed=landed)
            committed = True
        finally:
            self._backlog.close(share, committed=committed)


def add_ticks(tx: Tx, ticks: Iterable[Tick]) -> None:
    """Write counts."""
    tx.many("add_tick", _rows_of(ticks))


def _rows_of(ticks: Iterable[Tick]) -> list[tuple[float, str]]:
    return [(at, counts_to_json(counts)) for at, counts in ticks]


def _ticks(rows: Iterable[Row]) -> list[Tick]:
    """Read ticks; one that cannot be read is logged and left out, or nothing would ever be folded."""
    found: list[Tick] = []
    for at, text in rows:
        try:
            found.append(Tick(at, counts_from_json(text)))
        except UNREADABLE:
            log.error("the counts of %s cannot be read: %.80s; they are left out", at, text)
    return found


def fold(tx: Tx) -> bool:
    """Add ticks to the buckets and groups; remove them, and old buckets."""
    if not tx.try_alone("fold"):
        return False
    ticks = _ticks(tx.all("take_ticks"))
    numbers = {number for tick in ticks for number in tick.counts.groups}
    sums = _folded_now(tx, ticks, _stored_records(tx, numbers))
    tx.many("fold_lanes", sorted((*key, *counts) for key, counts in sums.lanes.items()))
    tx.many("fold_deaths", sorted((*key, deaths) for key, deaths in sums.groups.items()))
    changed = (
        (one.number, one.last_seen, one.deaths, deaths_json(one)) for one in sums.records.values()
    )
    tx.many("fold_groups", sorted(changed))
    for span, kept in KEPT.items():
        oldest = start_of(tx.now() - kept, span)
        tx.run("drop_lane_counts", (span, oldest))
        tx.run("drop_group_counts", (span, oldest))
    return True


def _folded_now(tx: Tx, ticks: Collection[Tick], records: Mapping[int, GroupRecord]) -> Folded:
    """Add up ticks, knowing which lanes and groups their buckets count already."""
    if not ticks:
        return Folded({}, {}, {})
    now = tx.now()
    lanes: dict[tuple[int, int], set[str]] = {}
    groups: dict[tuple[int, int], set[int]] = {}
    for span in KEPT:
        since = span, start_of(min(now, *(at for at, _ in ticks)), span)
        for start, lane, *_ in tx.all("lane_counts", since):
            lanes.setdefault((span, start), set()).add(lane)
        for start, group in tx.all("bucket_groups", since):
            groups.setdefault((span, start), set()).add(group)
    return folded(records, ticks, now, lanes=lanes, groups=groups)


def _stored_records(tx: Tx, numbers: Collection[int] | None) -> dict[int, GroupRecord]:
    rows = tx.all("all_groups") if numbers is None else tx.all("groups", (tx.array(numbers),))
    return {row[0]: _record(row) for row in rows}


def _record(row: Row) -> GroupRecord:
    *columns, seen, people = row
    fields: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    try:
        return group_from(fields, seen, people)
    except UNREADABLE:
        log.error("the record of group G%s cannot be read; see `redrive verify`", row[0])
        return group_from(fields, None, None)


def _change_group(
    tx: Tx, number: int, changes: Mapping[str, object], action: Action, expected: int
) -> Action | None:
    stored = _stored_records(tx, [number]).get(number)
    if stored is None:
        raise no_group(number)
    new: Any = changes
    people = people_json(replace(stored, **new))
    if stored.version != expected or not tx.one("change_group", (people, number, expected)):
        return None
    return record_action(alone_with_actions(tx), action)
