"""The verbs that read jobs: one job, pages, counts, groups, and the members of a run."""

from __future__ import annotations

from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from redrive.errors import StoreDamaged
from redrive.jobs.job import Attempt, Group, Job, State
from redrive.jobs.records import evolve
from redrive.stores.contract import RELEASABLE, Count, Members, Page, Query, added_up
from redrive.stores.record_codec import category_from
from redrive.stores.sql.groups import SqlGroups
from redrive.stores.sql.rows import attempt_from_json
from redrive.stores.sql.tx import Row, Tx
from redrive.stores.tallies import Tally, largest


@dataclass(slots=True)
class Where:
    """Conditions that must all hold, and what is bound to them, in order."""

    parts: list[str] = field(default_factory=list[str])
    args: list[object] = field(default_factory=list[object])

    def add(self, part: str, *args: object) -> None:
        """Add a condition."""
        self.parts.append(part)
        self.args.extend(args)

    def plus(self, part: str, *args: object) -> Where:
        """Return a copy with one more condition, which comes first."""
        return Where([part, *self.parts], [*args, *self.args])

    def __str__(self) -> str:
        return " AND ".join(self.parts) or "true"


class SqlLists(SqlGroups):
    """A store that answers questions from the last commit."""

    @abstractmethod
    def _find(self, tx: Tx, query: Query) -> Page:
        """Return a page of jobs."""

    @abstractmethod
    def _counts(self, tx: Tx) -> Iterable[Count]:
        """Count all jobs, some by some."""

    @abstractmethod
    def _tally(self, tx: Tx, query: Query) -> Iterable[Row]:
        """Return group, handler, category, number, first failure and last change of the query's jobs."""

    def get(self, job_id: str) -> Job | None:
        """Return one job with its history."""

        def work(tx: Tx) -> Job | None:
            row = tx.one("by_id", (job_id,))
            return None if row is None else _with_history(tx, [self._job_of(row)])[0]

        return self._read(work)

    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first; see the contract."""

        def work(tx: Tx) -> Page:
            page = self._find(tx, query)
            return page._replace(jobs=_with_history(tx, page.jobs)) if query.history else page

        return self._read(work)

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._read(lambda tx: added_up(self._counts(tx)))

    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group; see the contract."""

        def work(tx: Tx) -> list[Group]:
            tallies: dict[int, Tally] = defaultdict(Tally)
            for number, handler, category, jobs, last in self._tally(tx, query):
                tallies[number].add(handler, category_from(category), jobs, last)
            most = largest(tallies.items(), query.limit)
            records = self._records(tx, [number for number, _ in most])
            return [tally.group(number, records.get(number)) for number, tally in most]

        return self._read(work)

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""

        def work(tx: Tx) -> Members:
            started = run > 0  # no caller asks how jobs fare that only wait for their run
            (failing,) = (tx.one("run_failing", (run,)) if started else None) or (0,)
            oldest = tx.all("run_oldest", (run, limit) * len(RELEASABLE)) if limit > 0 else []
            return Members(
                states={State(state): jobs for state, jobs in tx.all("run_states", (run,))},
                failing=failing,
                causes=dict(tx.all("run_causes", (run,))) if started else {},
                oldest=sorted(job_id for (job_id,) in oldest)[: max(limit, 0)],
            )

        return self._read(work)


def _with_history(tx: Tx, jobs: list[Job]) -> list[Job]:
    """Return these jobs with their attempts; StoreDamaged names the job whose attempt cannot be read."""
    histories: dict[str, list[Attempt]] = {job.id: [] for job in jobs}
    for job_id, record in tx.all("histories", (tx.array(histories),)):
        try:
            histories[job_id].append(attempt_from_json(record))
        except StoreDamaged as error:
            msg = f"job {job_id}: {error}"
            raise StoreDamaged(msg) from error
    return [evolve(job, history=tuple(histories[job.id])) for job in jobs]
