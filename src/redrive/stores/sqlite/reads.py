"""The reading verbs of a SQLite store."""

from __future__ import annotations

from redrive.jobs.job import Group, Job
from redrive.stores.contract import Count, Members, Page, Query
from redrive.stores.sql.groups import SqlGroups
from redrive.stores.sqlite import lists, searching
from redrive.stores.sqlite.file import SqliteFile
from redrive.stores.sqlite.tx import SqliteTx


class SqliteReads(SqlGroups):
    """A store that answers questions from the last commit."""

    _file: SqliteFile

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

        def work(tx: SqliteTx) -> list[Group]:
            most = lists.most_jobs(searching.tally(tx, query), query.limit)
            records = self._records(tx, [number for number, _ in most])
            return [lists.group(number, tally, records.get(number)) for number, tally in most]

        return self._file.read(work)

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""
        return self._file.read(lambda tx: lists.members(tx, run, max(limit, 0)))
