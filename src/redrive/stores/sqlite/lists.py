"""Reading jobs: one, counts of them, groups, and the members of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from redrive.errors import StoreDamaged
from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Category, Group, Job, State
from redrive.jobs.records import evolve
from redrive.stores.contract import RELEASABLE, Count, Members
from redrive.stores.record_codec import category_from
from redrive.stores.sql.rows import attempt_from_json
from redrive.stores.sqlite.rows import job_from_row
from redrive.stores.sqlite.tx import SqliteTx

_NO_GROUP = "the record of this group is gone; see `redrive verify`"

_IN_ORDER = [(state, 0) for state in State if state is not State.RUNNING] + [(State.PENDING, 1)]
"""The states whose jobs lie in the index of kinds; what crashed before lies apart."""


def get(tx: SqliteTx, job_id: str) -> Job | None:
    """Return one job with its history."""
    row = tx.one("by_id", (job_id,))
    if row is None:
        return None
    job = job_from_row(row)
    records = tx.all("attempts", (row[0],))
    try:
        return evolve(job, history=tuple(attempt_from_json(text) for (text,) in records))
    except StoreDamaged as error:
        msg = f"job {job_id}: {error}"
        raise StoreDamaged(msg) from error


def counts(tx: SqliteTx) -> list[Count]:
    """Count all jobs by state, lane and category."""
    found: dict[tuple[State, str, Category | None], tuple[int, float]] = {}

    def take(state: State, lane: str, category: str, jobs: int, at: float) -> None:
        name = (state, lane, category_from(category))
        before, first = found.get(name, (0, at))
        found[name] = (before + jobs, min(first, at))

    for state, suspect in _IN_ORDER:
        for lane, handler, category, at in tx.all("kinds", (state._value_, suspect)):
            args = (state._value_, suspect, lane, handler, category)
            (jobs,) = tx.one("count_kind", args) or (0,)
            take(state, lane, category, jobs, at)
    for lane, category, jobs in tx.all("count_running"):
        take(State.RUNNING, lane, category, jobs, 0.0)
    return [
        Count(*name, jobs=jobs, oldest=None if name[0] is State.RUNNING else oldest)
        for name, (jobs, oldest) in found.items()
    ]


@dataclass(slots=True)
class Tally:
    """What the jobs of one group come to."""

    jobs: int = 0
    handlers: set[str] = field(default_factory=set[str])
    category: str = ""
    first: float | None = None
    last: float | None = None

    def take(self, row: tuple[int, str, str, int, float, float]) -> None:
        """Add the jobs of one handler and category; the latest says the category."""
        _, handler, category, jobs, first, last = row
        self.jobs += jobs
        self.handlers.add(handler)
        self.first = first if self.first is None else min(self.first, first)
        if self.last is None or last >= self.last:
            self.last, self.category = last, category


def most_jobs(
    rows: list[tuple[int, str, str, int, float, float]], limit: int
) -> list[tuple[int, Tally]]:
    """Return the groups with most jobs."""
    tallies: dict[int, Tally] = {}
    for row in rows:
        tallies.setdefault(row[0], Tally()).take(row)
    most = sorted(tallies.items(), key=lambda item: (-item[1].jobs, item[0]))
    return most[: max(limit, 0)]


def group(number: int, tally: Tally, record: GroupRecord | None) -> Group:
    """Return a group with its jobs counted."""
    record = record or GroupRecord(number=number, fingerprint=None, title=_NO_GROUP)
    return Group(
        number=number,
        fingerprint=record.fingerprint or record.fingerprint_v1 or "",
        title=record.title,
        jobs=tally.jobs,
        handlers=tuple(sorted(tally.handlers)),
        category=category_from(tally.category),
        first_seen=tally.first,
        last_seen=tally.last,
        record=record,
    )


def members(tx: SqliteTx, run: int, limit: int) -> Members:
    """Count the jobs that are tagged so."""
    let_go = run > 0  # of what only waits nobody asks how it fares
    (failing,) = (tx.one("run_failing", (run,)) if let_go else None) or (0,)
    oldest = [
        one
        for state in RELEASABLE
        for (one,) in (tx.all("run_oldest", (run, state._value_, limit)) if limit else ())
    ]
    return Members(
        states={State(state): jobs for state, jobs in tx.all("run_states", (run,))},
        failing=failing,
        causes=dict(tx.all("run_causes", (run,))) if let_go else {},
        oldest=sorted(oldest)[:limit],
    )
