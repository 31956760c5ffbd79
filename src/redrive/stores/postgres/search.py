"""Lists of jobs: one branch for each state, each along an index of its own, merged; then the whole jobs.

The text of every condition is a constant of `lists.sql`; what people wrote is bound, never put in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from redrive.errors import UsageError
from redrive.jobs.job import Job, State
from redrive.stores._codec import encode
from redrive.stores.contract import Page, Query, Scope, cursor_of
from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.tx import Row

LAST = "\U0010ffff"
"""Sorts after everything a name can continue with."""
OPEN = frozenset({State.PENDING, State.RUNNING})
_FEW = 20_000
"""Up to so many jobs are sorted rather than looked for in the order of ids."""
_AT_ONCE = 2000
"""How many candidates are looked at before the time is."""


@dataclass(slots=True)
class Where:
    """Names of conditions that must all hold, and what is bound to them, in order."""

    names: list[str] = field(default_factory=list[str])
    args: list[object] = field(default_factory=list[object])

    def add(self, name: str, *args: object) -> None:
        """Ask for one more."""
        self.names.append(name)
        self.args.extend(args)

    def text(self, tx: PostgresTx) -> bytes:
        """Return them as the end of a WHERE."""
        return b"".join(b" AND " + tx.text(name) for name in self.names)


def conditions(tx: PostgresTx, query: Query, *, ended: bool) -> Where:
    """Return the conditions of a query on the rows of a state table, all but its states and cursor."""
    where = Where()
    _about_failure(query, where)
    _about_identity(query, where)
    _about_work(tx, query, where)
    table = "ended" if ended else "open"
    if query.older_than is not None:
        where.add(f"older_{table}", tx.now() - query.older_than)
    if query.newer_than is not None:
        where.add(f"newer_{table}", tx.now() - query.newer_than)
    if query.tag:
        where.add("tag", *[encode(query.tag)] * 2)
    if query.text:
        where.add("text", *[query.text.casefold()] * 4)
    return where


def _about_failure(query: Query, where: Where) -> None:
    if query.category is not None:
        where.add("category", query.category.value)
    if query.group is not None:
        where.add("group", query.group)
        if query.variant is not None:
            where.add("variant", query.variant)
    if query.failed:
        where.add("failed")


def _about_identity(query: Query, where: Where) -> None:
    if query.ids:
        where.add("ids", list(query.ids))
    if query.prefix:
        where.add("prefix", query.prefix, query.prefix + LAST)
    if query.key:
        where.add("key", query.key)
    if query.event:
        where.add("event", query.event)
    if query.action is not None:
        where.add("action", query.action)
    if query.run is not None:
        where.add("run", query.run, -query.run)


def _about_work(tx: PostgresTx, query: Query, where: Where) -> None:
    if query.handler:
        if "*" in query.handler:
            where.add("handler_like", tx.pattern(query.handler))
        else:
            where.add("handler", query.handler)
    if query.lane:
        where.add("lane", query.lane)


def find(tx: PostgresTx, query: Query) -> Page:
    """Return a page of jobs, newest first."""
    _check_cursor(query)
    if query.limit < 1:
        return Page([])
    if query.budget is not None and (query.tag or query.text):
        return _find_in_time(tx, query, query.budget)
    rows = _page(tx, query, query.limit + 1)
    jobs = [job_from_row(row) for row in rows[: query.limit]]
    return Page(jobs, _cursor(query, jobs[-1]) if len(rows) > query.limit else None)


def _find_in_time(tx: PostgresTx, query: Query, budget: float) -> Page:
    """Look at candidates, some at a time, until the page is full or the time is over."""
    end = time.monotonic() + budget
    asked = replace(query, tag="", text="", budget=None)
    found: list[Job] = []
    looked = 0
    while True:
        rows = _page(tx, asked, _AT_ONCE)
        for job, fits in _sifted(tx, query, rows):
            looked += 1
            if fits:
                found.append(job)
            asked = replace(asked, cursor=_cursor(query, job))
            if len(found) == query.limit:
                break
        over = len(rows) < _AT_ONCE and len(found) < query.limit
        if over or len(found) == query.limit or time.monotonic() >= end:
            (jobs,) = tx.one("count_jobs") or (0,)
            return Page(found, None if over else asked.cursor, Scope(looked, max(jobs, looked)))


def _sifted(tx: PostgresTx, query: Query, rows: list[Row]) -> list[tuple[Job, bool]]:
    jobs = [job_from_row(row) for row in rows]
    if not jobs:
        return []
    wanted = Query(states=query.states, tag=query.tag, text=query.text)
    named = replace(wanted, ids=tuple(job.id for job in jobs), limit=len(jobs))
    fitting = {row[1] for row in _page(tx, named, len(jobs))}
    return [(job, job.id in fitting) for job in jobs]


def _page(tx: PostgresTx, query: Query, limit: int) -> list[Row]:
    """Return the rows of the first so many jobs of a query."""
    parts: list[bytes] = []
    args: list[object] = []
    for state in sorted(query.states or State):
        text, bound = _branch(tx, query, state, limit)
        parts.append(b"(%s)" % text)
        args += bound
    order = tx.text("page_by_change" if query.by_change else "page_by_submit")
    text = b"WITH page AS MATERIALIZED (SELECT * FROM (%s) AS page %s LIMIT %d) %s %s" % (
        b" UNION ALL ".join(parts),
        order,
        limit,
        tx.text("page_rows"),
        order,
    )
    return [row[:-1] for row in tx.rows(text, args)]


def _branch(tx: PostgresTx, query: Query, state: State, limit: int) -> tuple[bytes, list[object]]:
    """Return one state's part of a page."""
    ended = state not in OPEN
    where = conditions(tx, query, ended=ended)
    if query.cursor is not None and query.by_change:
        at, job_id = _time_and_id(query.cursor)
        where.add("after_change_ended" if ended else "after_change_open", at, job_id)
    elif query.cursor is not None:
        where.add("after_submit", query.cursor[1:])
    named = _is_named(query)
    if state is State.COMPLETED and query.by_change and not named:
        parts = ("completed_by_change", "by_change_ended", "completed_by_change_end")
        begin, order, end = map(tx.text, parts)
        return b"%s%s %s %s" % (begin, where.text(tx), order, end), [
            state.value,
            *where.args,
            limit,
            limit,
        ]
    head, tail = _head_and_tail(tx, query, state, named=named)
    return tx.text(head) + where.text(tx) + b" " + tx.text(tail), [*where.args, limit]


def _is_named(query: Query) -> bool:
    """Return True if the query itself leaves few jobs: they are fetched and sorted."""
    asked = (query.ids, query.key, query.prefix, query.event)
    numbers = (query.run, query.group, query.action)
    return any(asked) or any(number is not None for number in numbers)


def _head_and_tail(tx: PostgresTx, query: Query, state: State, *, named: bool) -> tuple[str, str]:
    head = f"from_{state.value}"
    if query.by_change:
        if state in OPEN:
            return head, "by_change_open"
        return head, "by_change_sorted" if named else "by_change_ended"
    if named or state is State.RUNNING:
        return head, "by_id_sorted"
    if state in {State.DEAD, State.RESOLVED}:
        return head, "by_id_indexed"
    return (
        (head, "by_id_sorted")
        if _are_few(tx, query, state)
        else (f"along_{state.value}", "by_id_along")
    )


def _are_few(tx: PostgresTx, query: Query, state: State) -> bool:
    """Count the jobs of a state and kind, as far as the index of kinds says."""
    where = Where()
    _about_work(tx, query, where)
    if query.category is not None:
        where.add("category", query.category.value)
    text = tx.text(f"few_{state.value}") + where.text(tx) + b" " + tx.text("few_end")
    ((jobs,),) = tx.rows(text, [*where.args, _FEW])
    return int(jobs) < _FEW


def _cursor(query: Query, job: Job) -> str:
    return cursor_of(job.updated, job.id, by_change=query.by_change)


def _check_cursor(query: Query) -> None:
    if query.cursor is None:
        return
    if query.cursor[:1] != ("c" if query.by_change else "i"):
        raise _bad_cursor(query.cursor)
    if query.by_change:
        _time_and_id(query.cursor)


def _time_and_id(cursor: str) -> tuple[float, str]:
    updated, _, job_id = cursor[1:].partition(":")
    try:
        return float(updated), job_id
    except ValueError:
        raise _bad_cursor(cursor) from None


def _bad_cursor(cursor: str) -> UsageError:
    return UsageError(f"{cursor!r} is no cursor of this order; pass on what the last page gave")
