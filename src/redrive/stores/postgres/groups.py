"""Groups and counts over time: where failures belong, what waits to be folded, and what was."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from redrive.errors import JobNotFound
from redrive.jobs.groups import MOST_VARIANTS, GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act, Failure
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
from redrive.stores.group_codec import COLUMNS, check_changes, group_from, said_of, seen_of
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.notes import act_landed, record_act
from redrive.stores.sql.rows import UNREADABLE
from redrive.stores.sql.tx import Row, SqlBase

Spot = tuple[int | None, int | None]
"""The numbers of a failure's group and variant."""
Seen = tuple[Failure, str | None]
"""A failure and the release it was seen in."""


class Places:
    """The numbers of groups and variants, which never change, as far as this process knows them."""

    def __init__(self) -> None:
        self._groups: dict[str, int] = {}
        self._variants: dict[tuple[int, str], int] = {}

    def place(self, failure: Failure) -> Spot:
        """Return where a failure belongs; KeyError if that was not learnt."""
        if not failure.fingerprint:
            return None, None
        group = self._groups[failure.fingerprint]
        text = failure.variant_text
        return group, self._variants[group, text] if text else None

    def learn(self, database: Database, failures: Iterable[Seen]) -> None:
        """Look up where failures belong; groups and variants never seen before are made."""
        unknown = [one for one in failures if not self._knows(one[0])]
        if unknown:
            groups, variants = database.write(lambda tx: _made(tx, unknown), synced=False)
            self._groups |= groups
            self._variants |= variants

    def _knows(self, failure: Failure) -> bool:
        try:
            self.place(failure)
        except KeyError:
            return False
        return True


def _made(
    tx: PostgresTx, failures: Iterable[Seen]
) -> tuple[dict[str, int], dict[tuple[int, str], int]]:
    tx.alone("groups")
    groups: dict[str, int] = {}
    variants: dict[tuple[int, str], int] = {}
    for failure, release in failures:
        name, text = failure.fingerprint, failure.variant_text
        if name not in groups:
            groups[name] = _group(tx, failure, release)
        if text and (groups[name], text) not in variants:
            variants[groups[name], text] = _variant(tx, groups[name], text)
    return groups, variants


def _group(tx: PostgresTx, failure: Failure, release: str | None) -> int:
    found = tx.one("group_of", (failure.fingerprint,))
    older = failure.fingerprint_v1
    if found is None and older:
        found = tx.one("adopt_group", (failure.fingerprint, older))
    elif found is None:  # a fingerprint of the older rules itself
        found = tx.one("group_of_older", (failure.fingerprint,))
    if found is None:
        blank = GroupRecord(number=0, fingerprint=None, first_release=release)
        args = (older or None, failure.fingerprint, failure.title, tx.now(), seen_of(blank))
        found = tx.one("new_group", args)
    return int(found[0]) if found else 0


def _variant(tx: PostgresTx, group: int, text: str) -> int:
    known: dict[str, int] = {
        one: number for number, one, *_ in tx.all("variants", (group,)) if number
    }
    number = known.get(text, max(known.values(), default=0) + 1)
    if number > MOST_VARIANTS:
        return 0
    if text not in known:
        tx.run("new_variant", (group, number, text))
    return number


class PostgresGroups(SqlBase):
    """The verbs about groups and counts."""

    _database: Database
    _backlog: Backlog
    _check_writable: Callable[[], None]

    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return the records of these groups by number, or of all; see the contract."""
        waiting = self._backlog.waiting()
        return self._database.read(lambda tx: records(tx, numbers, waiting))

    def variants(self, group: int) -> list[Variant]:
        """Return the variants of a group, most deaths first; see the contract."""
        waiting = self._backlog.waiting()

        def work(tx: PostgresTx) -> list[Variant]:
            found = {row[0]: Variant(*row) for row in tx.all("variants", (group,))}
            new = folded({}, [*_unfolded(tx), *waiting], tx.now()).variants
            for (of, number), (deaths, last) in new.items():
                if of == group:
                    one = found.get(number, Variant(number, "", 0, None))
                    latest = max(last, one.last_seen or last)
                    found[number] = one._replace(deaths=one.deaths + deaths, last_seen=latest)
            some = [one for one in found.values() if one.number or one.deaths]
            return sorted(some, key=lambda one: (one.number == 0, -one.deaths, one.number))

        return self._database.read(work)

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane in the last buckets; see the contract."""
        waiting = self._backlog.waiting()

        def work(tx: PostgresTx) -> dict[str, list[LaneCount]]:
            first = start_of(tx.now(), span) - span * (number - 1)
            curves: dict[str, list[LaneCount]] = {}

            def take(start: int, lane: str, counts: LaneCount) -> None:
                place = (start - first) // span
                if 0 <= place < number:
                    curve = curves.setdefault(lane, [LaneCount()] * number)
                    curve[place] = curve[place].plus(counts)

            for start, lane, *numbers in tx.all("lane_curve", (span, first)):
                take(start, lane, LaneCount(*numbers))
            new = _folded_now(tx, [*_unfolded(tx), *waiting], {})
            for (width, start, lane), counts in new.lanes.items():
                if width == span:
                    take(start, lane, counts)
            return curves

        return self._database.read(work)

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of each of these groups in the last buckets; see the contract."""
        waiting = self._backlog.waiting()

        def work(tx: PostgresTx) -> dict[int, list[int]]:
            first = start_of(tx.now(), span) - span * (number - 1)
            curves = {group: [0] * number for group in groups}
            new = _folded_now(tx, [*_unfolded(tx), *waiting], {})
            rows = tx.all("group_curve", (span, first, list(groups)))
            rows += [(at, group, n) for (w, at, group), n in new.groups.items() if w == span]
            for start, group, deaths in rows:
                place = (start - first) // span
                if group in curves and 0 <= place < number:
                    curves[group][place] += deaths
            return curves

        return self._database.read(work)

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Act, *, expected: int
    ) -> GroupRecord | None:
        """Change fields of a group that people set, and record the action; see the contract."""
        check_changes(changes)
        self._check_writable()
        changed = self._database.write(
            lambda tx: _change_group(tx, number, changes, action, expected),
            synced=True,
            landed=lambda tx, done: done is None or _change_landed(tx, done[1]),
        )
        return None if changed is None else self.group_records([number])[number]

    def fold(self) -> bool:
        """Add counts that were written to the buckets, groups and variants; see the contract."""
        self._check_writable()
        share, committed = self._backlog.rest(), False
        try:
            done = self._database.write(lambda tx: _fold(tx, share.write), synced=False)
            committed = True
        finally:
            self._backlog.close(share, committed=committed)
        return done

    def _write_waiting(self) -> None:
        """Write the counts that wait in this process."""
        share, committed = self._backlog.rest(), False
        try:
            if share.write:
                self._database.write(lambda tx: add_ticks(tx, share.write), synced=False)
            committed = True
        finally:
            self._backlog.close(share, committed=committed)


def add_ticks(tx: PostgresTx, ticks: Iterable[Tick]) -> None:
    """Write counts."""
    tx.many("add_tick", [(at, counts_to_json(counts)) for at, counts in ticks])


def records(
    tx: PostgresTx, numbers: Collection[int] | None, waiting: Iterable[Tick]
) -> dict[int, GroupRecord]:
    """Return groups with the deaths that are not folded yet."""
    rows = tx.all("all_groups") if numbers is None else tx.all("groups", (list(numbers),))
    found = {row[0]: _record(row) for row in rows}
    return {**found, **folded(found, [*_unfolded(tx), *waiting], tx.now()).records}


def _record(row: Row) -> GroupRecord:
    *columns, seen, said = row
    return group_from(dict(zip(COLUMNS, columns, strict=True)), seen, said)


def _unfolded(tx: PostgresTx) -> list[Tick]:
    return _ticks(tx.all("ticks"))


def _ticks(rows: Iterable[Row]) -> list[Tick]:
    """Read ticks; what cannot be read is told and left out, or nothing would ever be folded again."""
    found: list[Tick] = []
    for at, text in rows:
        try:
            found.append(Tick(at, counts_from_json(text)))
        except UNREADABLE:
            log.error("counts of %s cannot be read: %.80s; they are left out", at, text)
    return found


def _change_group(
    tx: PostgresTx, number: int, changes: Mapping[str, object], action: Act, expected: int
) -> tuple[GroupRecord, Act] | None:
    row = tx.one("group_to_change", (number,))
    if row is None:
        msg = f"no group G{number}"
        raise JobNotFound(msg)
    record = _record(row)
    if record.version != expected:
        return None
    record = replace(record, **changes, version=expected + 1)  # type: ignore[arg-type]
    tx.run("change_group", (said_of(record), record.version, number))
    tx.alone("acts")
    return record, record_act(tx, action)


def _change_landed(tx: PostgresTx, action: Act) -> bool:
    tx.alone("acts")
    return act_landed(tx, action)


def _fold(tx: PostgresTx, waiting: Iterable[Tick]) -> bool:
    add_ticks(tx, waiting)
    (alone,) = tx.one("try_fold") or (False,)
    if not alone:
        return False
    ticks = _ticks(tx.all("take_ticks"))
    numbers = {number for tick in ticks for number in tick.counts.groups}
    found = {row[0]: _record(row) for row in tx.all("groups", (sorted(numbers),))}
    sums = _folded_now(tx, ticks, found)
    tx.many("fold_lanes", sorted((*key, *counts) for key, counts in sums.lanes.items()))
    tx.many("fold_deaths", sorted((*key, deaths) for key, deaths in sums.groups.items()))
    tx.many("fold_variants", sorted((*key, *counts) for key, counts in sums.variants.items()))
    changed = (
        (one.number, one.last_seen, one.deaths, seen_of(one)) for one in sums.records.values()
    )
    tx.many("fold_groups", sorted(changed))
    for span, kept in KEPT.items():
        tx.run("drop_lane_counts", (span, start_of(tx.now() - kept, span)))
        tx.run("drop_group_counts", (span, start_of(tx.now() - kept, span)))
    return True


def _folded_now(tx: PostgresTx, ticks: list[Tick], found: Mapping[int, GroupRecord]) -> Folded:
    """Add up ticks, knowing what their buckets tell apart already."""
    now = tx.now()
    places = sorted({(span, start_of(min(at, now), span)) for at, _ in ticks for span in KEPT})
    if not places:
        return Folded({}, {}, {}, {})
    lists = tx.packed("lanes_in", zip(*places, strict=True))
    lanes: dict[tuple[int, int], set[str]] = {}
    for span, start, lane in tx.all("lanes_in", lists):
        lanes.setdefault((span, start), set()).add(lane)
    groups: dict[tuple[int, int], set[int]] = {}
    for span, start, group in tx.all("groups_in", lists):
        groups.setdefault((span, start), set()).add(group)
    return folded(found, ticks, now, lanes=lanes, groups=groups)
