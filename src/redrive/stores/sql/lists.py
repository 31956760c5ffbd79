"""Reading jobs: one, a page of them, and how many there are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from redrive.errors import StoreDamaged
from redrive.jobs.job import Category, Group, Job, State
from redrive.stores._pending import no_new_filters
from redrive.stores.contract import RELEASABLE, Count, Members, Page, Query, cursor_of
from redrive.stores.record_codec import category_from
from redrive.stores.sql import filters
from redrive.stores.sql.rows import attempt_from_json, job_from_row
from redrive.stores.sql.tx import Row, SqlBase, Tx

_NO_CAUSE = "the record of this cause is gone; see `redrive verify`"


_IN_ORDER = [(state, 0) for state in State if state is not State.RUNNING] + [(State.PENDING, 1)]
"""The states whose jobs lie in the index of kinds; what crashed before lies apart."""


class SqlLists(SqlBase):
    """The reading verbs about jobs."""

    def get(self, job_id: str) -> Job | None:
        """Give one job with its history."""
        return self._read(lambda tx: _get(tx, job_id))

    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first; see the contract."""
        no_new_filters(query)
        return self._read(lambda tx: _find(tx, query))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._read(_counts)

    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group; see the contract."""
        return self._read(lambda tx: _groups(tx, query))

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count when jobs died; see the contract."""
        return self._read(lambda tx: _deaths(tx, width, number, groups))

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""
        return self._read(lambda tx: _members(tx, run, max(limit, 0)))


def _get(tx: Tx, job_id: str) -> Job | None:
    row = tx.one("by_id", (job_id,))
    if row is None:
        return None
    number, job = job_from_row(row)
    records = tx.all("attempts", (number,))
    try:
        return replace(job, history=tuple(attempt_from_json(text) for (text,) in records))
    except StoreDamaged as error:
        msg = f"job {job_id}: {error}"
        raise StoreDamaged(msg) from error


def _find(tx: Tx, query: Query) -> Page:
    where = filters.conditions(tx, query)
    if query.cursor is not None:
        filters.continue_after(query.cursor, query, where)
    if query.limit < 1:
        return Page([])
    head = filters.begin_list(tx, query, where)
    tail = "by_change" if query.by_change else "by_submit"
    rows = tx.select(head, where.names, tail, (*where.args, query.limit + 1))
    jobs = [job_from_row(row)[1] for row in rows[: query.limit]]
    more = len(rows) > query.limit
    return Page(
        jobs, cursor_of(jobs[-1].updated, jobs[-1].id, by_change=query.by_change) if more else None
    )


def _counts(tx: Tx) -> list[Count]:
    found: dict[tuple[State, str, Category | None], tuple[int, float]] = {}

    def take(state: State, lane: str, category: str, jobs: int, at: float) -> None:
        name = (state, lane, category_from(category))
        before, first = found.get(name, (0, at))
        found[name] = (before + jobs, min(first, at))

    for state, suspect in _IN_ORDER:
        for lane, handler, category, at in tx.all("kinds", (state.value, suspect)):
            args = (state.value, suspect, lane, handler, category)
            (jobs,) = tx.one("count_kind", args) or (0,)
            take(state, lane, category, jobs, at)
    for lane, category, jobs in tx.all("count_running"):
        take(State.RUNNING, lane, category, jobs, 0.0)
    return [
        Count(*name, jobs=jobs, oldest=None if name[0] is State.RUNNING else oldest)
        for name, (jobs, oldest) in found.items()
    ]


@dataclass(slots=True)
class _Tally:
    jobs: int = 0
    handlers: set[str] = field(default_factory=set[str])
    category: str = ""
    first: float | None = None
    last: float | None = None

    def take(self, row: Row) -> None:
        """Add the jobs of one handler and category; the latest says the category."""
        _, handler, category, jobs, first, last = row
        self.jobs += jobs
        self.handlers.add(handler)
        self.first = first if self.first is None else min(self.first, first)
        if self.last is None or last >= self.last:
            self.last, self.category = last, category


def _groups(tx: Tx, query: Query) -> list[Group]:
    where = filters.conditions(tx, query)
    head = filters.begin_tally(tx, query, where)
    tallies: dict[int, _Tally] = {}
    for row in tx.select(head, where.names, "by_cause", where.args):
        tallies.setdefault(row[0], _Tally()).take(row)
    most = sorted(tallies.items(), key=lambda item: (-item[1].jobs, item[0]))
    most = most[: max(query.limit, 0)]
    causes = {row[0]: row for row in tx.all("causes", (tx.array(number for number, _ in most),))}
    return [_group(causes.get(number, (number, "", _NO_CAUSE)), tally) for number, tally in most]


def _deaths(
    tx: Tx, width: float, number: int, groups: Collection[int] | None
) -> dict[int, list[int]]:
    begins = tx.array(tx.now() - width * (number - span) for span in range(number))
    if groups is None:
        rows = [(0, *row) for row in tx.all("deaths", (width, begins))]
    else:
        rows = tx.all("deaths_of", (tx.array(groups), width, begins))
    found = {group: [0] * number for group in ([0] if groups is None else groups)}
    for group, span, jobs in rows:
        found[group][span] += jobs
    return found


def _members(tx: Tx, run: int, limit: int) -> Members:
    let_go = run > 0  # of what only waits nobody asks how it fares
    (failing,) = (tx.one("run_failing", (run,)) if let_go else None) or (0,)
    oldest = [
        one
        for state in RELEASABLE
        for (one,) in (tx.all("run_oldest", (run, state.value, limit)) if limit else ())
    ]
    return Members(
        states={State(state): jobs for state, jobs in tx.all("run_states", (run,))},
        failing=failing,
        causes=dict(tx.all("run_causes", (run,))) if let_go else {},
        oldest=sorted(oldest)[:limit],
    )


def _group(cause: Row, tally: _Tally) -> Group:
    number, fingerprint, title = cause
    return Group(
        number=number,
        fingerprint=fingerprint,
        title=title,
        jobs=tally.jobs,
        handlers=tuple(sorted(tally.handlers)),
        category=category_from(tally.category),
        first_seen=tally.first,
        last_seen=tally.last,
    )
