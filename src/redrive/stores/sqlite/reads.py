"""The reading verbs of a SQLite store, and those about groups and counts over time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from redrive.jobs.groups import GroupRecord, LaneCount, Span, Variant
from redrive.jobs.job import Act, Group, Job
from redrive.stores.contract import Count, Members, Page, Query, Store
from redrive.stores.counting import Backlog, Tick
from redrive.stores.sqlite import grouping, lists, searching
from redrive.stores.sqlite.file import SqliteFile
from redrive.stores.sqlite.tx import SqliteTx

R = TypeVar("R")


class SqliteReads(Store):
    """A store that answers questions from the last commit."""

    _file: SqliteFile
    _backlog: Backlog

    def get(self, job_id: str) -> Job | None:
        """Return one job with its history."""
        return self._file.read(lambda tx: lists.get(tx, job_id))

    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first; see the contract."""
        return self._file.read(lambda tx: searching.find(tx, query))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._file.read(lists.counts)

    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group; see the contract."""

        def work(tx: SqliteTx, waiting: list[Tick]) -> list[Group]:
            most = lists.most_jobs(searching.tally(tx, query), query.limit)
            records = grouping.records(tx, waiting, [number for number, _ in most])
            return [lists.group(number, tally, records.get(number)) for number, tally in most]

        return self._read_counts(work)

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count when jobs died; see the contract."""
        return self._file.read(lambda tx: lists.deaths(tx, width, number, groups))

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""
        return self._file.read(lambda tx: lists.members(tx, run, max(limit, 0)))

    def group_records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return records of groups; see the contract."""
        return self._read_counts(lambda tx, waiting: grouping.records(tx, waiting, numbers))

    def variants(self, group: int) -> list[Variant]:
        """Return the variants of a group; see the contract."""
        return self._read_counts(lambda tx, waiting: grouping.variants(tx, waiting, group))

    def lane_curve(self, span: Span, number: int) -> dict[str, list[LaneCount]]:
        """Return what happened in each lane; see the contract."""
        return self._read_counts(lambda tx, waiting: grouping.lane_curve(tx, waiting, span, number))

    def group_curve(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of some groups; see the contract."""
        return self._read_counts(
            lambda tx, waiting: grouping.group_curve(tx, waiting, span, number, groups)
        )

    def change_group(
        self, number: int, changes: Mapping[str, object], action: Act, *, expected: int
    ) -> GroupRecord | None:
        """Change what people say of a group; see the contract."""

        def work(tx: SqliteTx) -> GroupRecord | None:
            if not grouping.change_group(tx, number, changes, action, expected):
                return None
            return grouping.records(tx, self._backlog.waiting(), [number])[number]

        return self._file.write(work, durable=True)

    def fold(self) -> bool:
        """Add counts to the buckets; see the contract."""

        def work(tx: SqliteTx, ticks: list[Tick]) -> None:
            grouping.write_ticks(tx, ticks)
            grouping.fold(tx)

        self._write_rest(work)
        return True

    def _write_rest(self, work: Callable[[SqliteTx, list[Tick]], None]) -> None:
        """Run work that writes all counts that wait in this process."""
        share = self._backlog.rest()
        committed = False
        try:
            self._file.write(lambda tx: work(tx, share.write), durable=False)
            committed = True
        finally:
            self._backlog.close(share, committed=committed)

    def _read_counts(self, work: Callable[[SqliteTx, list[Tick]], R]) -> R:
        """Read with the counts that wait in this process."""
        return self._file.read(lambda tx: work(tx, self._backlog.waiting()))
