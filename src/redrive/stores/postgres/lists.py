"""Reading jobs: one, a page of them, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from redrive.errors import StoreDamaged
from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import Group, Job, State
from redrive.stores.contract import Count, Members, Query
from redrive.stores.postgres import search
from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import category_from
from redrive.stores.sql.rows import attempt_from_json
from redrive.stores.sql.tx import Row

_NO_CAUSE = "the record of this cause is gone; see `redrive verify`"
_DEAD = frozenset({State.DEAD})


def get(tx: PostgresTx, job_id: str) -> Job | None:
    """Return one job with its history."""
    row = tx.one("by_id", (job_id,))
    if row is None:
        return None
    job, records = job_from_row(row), tx.all("attempts", (row[0],))
    try:
        return replace(job, history=tuple(attempt_from_json(text) for (text,) in records))
    except StoreDamaged as error:
        msg = f"job {job_id}: {error}"
        raise StoreDamaged(msg) from error


def counts(tx: PostgresTx) -> list[Count]:
    """Count all jobs by state, lane and category."""
    return [
        Count(State(state), lane, category_from(category), jobs, None if state == "running" else at)
        for state, lane, category, jobs, at in tx.all("counts")
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


def tallies(tx: PostgresTx, query: Query) -> list[tuple[int, _Tally]]:
    """Count the query's jobs by group, most jobs first."""
    found: dict[int, _Tally] = {}
    for state in query.states or _DEAD:
        for row in search.tally(tx, query, state):
            found.setdefault(row[0], _Tally()).take(row)
    most = sorted(found.items(), key=lambda item: (-item[1].jobs, item[0]))
    return most[: max(query.limit, 0)]


def group_of(number: int, tally: _Tally, record: GroupRecord | None) -> Group:
    """Return a group with what its jobs say, and what is stored of it."""
    record = record or GroupRecord(number=number, fingerprint=None, title=_NO_CAUSE)
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


def members(tx: PostgresTx, run: int, limit: int) -> Members:
    """Count the jobs that are tagged so."""
    let_go = run > 0  # of what only waits nobody asks how it fares
    (failing,) = (tx.one("run_failing", (run,)) if let_go else None) or (0,)
    oldest = tx.all("run_oldest", (run, limit, run, limit, limit)) if limit else []
    return Members(
        states={State(state): jobs for state, jobs in tx.all("run_states", (run, run))},
        failing=failing,
        causes=dict(tx.all("run_causes", (run,))) if let_go else {},
        oldest=[one for (one,) in oldest],
    )
