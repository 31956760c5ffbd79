"""Lists of jobs: one branch for each state, each along an index of its own, merged; then the whole jobs.

The text of every condition is a constant; what people wrote is bound, never put in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from redrive.jobs.job import Job, State
from redrive.stores.contract import Count, Page, Query
from redrive.stores.cursors import cursor_of, place_after
from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.record_codec import category_from
from redrive.stores.sql.lists import Where
from redrive.stores.sql.tx import LAST, Row

_FEW = 20_000
"""Up to so many jobs are sorted rather than looked for in the order of ids."""
_NUL = r"'\u0000', '\ufffd'"
"""What is replaced before PostgreSQL reads JSON: it refuses a NUL, and with it the whole query."""
_MORE = f"replace(s.more, {_NUL})::json"
_LATEST = """
SELECT latest.* FROM (
    WITH RECURSIVE {ended_kinds} SELECT lane, handler, category FROM kind WHERE state = 'completed'
) AS kind
CROSS JOIN LATERAL (
    SELECT s.n, s.at AS updated, s.id FROM {schema}.ended AS s
    WHERE s.state = 'completed' AND s.lane = kind.lane AND s.handler = kind.handler
        AND s.category = kind.category AND %s ORDER BY s.at DESC, s.id DESC LIMIT %%s
) AS latest ORDER BY updated DESC, id DESC LIMIT %%s
"""
"""The latest completed jobs: those of each kind, which an index has in order, and of them the latest."""
_PAGE = """
WITH page AS MATERIALIZED (SELECT * FROM (%s) AS page ORDER BY %s LIMIT %%s)
SELECT r.* FROM page
CROSS JOIN LATERAL (SELECT * FROM {schema}.job_rows AS r WHERE r.n = page.n LIMIT 1) AS r ORDER BY %s
"""


@dataclass(frozen=True, slots=True)
class Source:
    """Where the jobs of a state are: rows `s`, when each changed last, and what is true of them."""

    rows: str
    changed: str
    only: str


_SOURCES = {
    State.PENDING: Source("{schema}.open AS s", "s.updated", "s.holder IS NULL"),
    State.RUNNING: Source("{schema}.open AS s", "s.since", "s.holder IS NOT NULL"),
    State.COMPLETED: Source("{schema}.ended AS s", "s.at", "s.state = 'completed'"),
    # The second condition lets the planner see which indexes will do.
    State.DEAD: Source(
        "{schema}.ended AS s", "s.at", "s.state = 'dead' AND s.state <> 'completed'"
    ),
    State.RESOLVED: Source(
        "{schema}.ended AS s", "s.at", "s.state = 'resolved' AND s.state <> 'completed'"
    ),
}
_ALL = Source(
    "{schema}.jobs AS j CROSS JOIN LATERAL "
    "(SELECT * FROM {schema}.states AS one WHERE one.n = j.n LIMIT 1) AS s",
    "s.updated",
    "true",
)
"""All jobs along their ids."""


def conditions(tx: PostgresTx, query: Query, source: Source) -> Where:
    """Return the conditions of a query, all but its cursor."""
    where = Where([source.only])
    _add_names(where, query)
    _add_kind(tx, where, query)
    if query.failed:
        where.add(f"{_MORE} -> 'spent' IS NOT NULL")
    if query.older_than is not None:
        where.add(f"{source.changed} <= %s", tx.now() - query.older_than)
    if query.newer_than is not None:
        where.add(f"{source.changed} >= %s", tx.now() - query.newer_than)
    return where


def _add_names(where: Where, query: Query) -> bool:
    """Ask for the jobs that the query names; return True if it does, so that they are few."""
    before, numbers = len(where.parts), "s.n IN (SELECT n FROM {schema}.jobs WHERE "
    if query.ids:
        where.add(numbers + "id = ANY(%b::text[]))", list(query.ids))
    if query.prefix:
        where.add(numbers + "id >= %s AND id < %s)", query.prefix, query.prefix + LAST)
    if query.key:
        where.add(numbers + "key = %s)", query.key)
    if query.event:
        where.add(numbers + "event = %s)", query.event)
    if query.action is not None:
        where.add(numbers + "action = %s)", query.action)
    if query.run is not None:
        where.add("s.run IN (%s, %s)", query.run, -query.run)
    if query.group is not None:
        where.add("s.cause = %s", query.group)
    return len(where.parts) > before


def _add_kind(tx: PostgresTx, where: Where, query: Query) -> bool:
    """Ask for the handler, lane and category of the query; return True if it has any."""
    before = len(where.parts)
    if query.handler:
        exact = "*" not in query.handler
        pattern = query.handler if exact else tx.pattern(query.handler)
        where.add("s.handler = %s" if exact else "s.handler LIKE %s", pattern)
    if query.lane:
        where.add("s.lane = %s", query.lane)
    if query.category is not None:
        where.add("s.category = %s", query.category.value)
    return len(where.parts) > before


def find(tx: PostgresTx, query: Query) -> Page:
    """Return a page of jobs, newest first."""
    place_after(query)
    if query.limit < 1:
        return Page([])
    rows = _page(tx, query, query.limit + 1)
    jobs = [job_from_row(row) for row in rows[: query.limit]]
    return Page(jobs, _cursor(query, jobs[-1]) if len(rows) > query.limit else None)


def _page(tx: PostgresTx, query: Query, limit: int) -> list[Row]:
    """Return the rows of the first so many jobs of a query."""
    states = sorted(query.states or State)
    if len(states) == len(State) and not query.by_change and not _is_narrow(tx, query):
        branches = [_along_ids(tx, query, _ALL, limit)]
    else:
        branches = [_branch(tx, query, state, limit) for state in states]
    order = "page.updated DESC, page.id DESC" if query.by_change else "page.id DESC"
    merged = " UNION ALL ".join(f"({text})" for text, _ in branches)
    args = [arg for _, bound in branches for arg in bound]
    return tx.rows(_PAGE % (merged, order, order), [*args, limit])


def _is_narrow(tx: PostgresTx, query: Query) -> bool:
    """Return True if the query leaves few of all jobs, and an index finds those."""
    return _add_names(Where(), query) or _add_kind(tx, Where(), query)


def _branch(tx: PostgresTx, query: Query, state: State, limit: int) -> tuple[str, list[object]]:
    """Return one state's part of a page."""
    source = _SOURCES[state]
    named = _add_names(Where(), query)
    if query.by_change:
        where = _following(conditions(tx, query, source), query, source.changed, "s.id")
        if state is State.COMPLETED and not named:
            return _LATEST % where, [*where.args, limit, limit]
        # Few jobs are fetched and sorted: an expression keeps the planner off the index of the order.
        changed = f"{source.changed} + 0" if named else source.changed
        order = f"{changed} DESC, s.id DESC"
    elif state in {State.PENDING, State.COMPLETED} and not (named or _are_few(tx, query, source)):
        along = f"{{schema}}.jobs AS j JOIN {source.rows} USING (n)"
        return _along_ids(tx, query, replace(source, rows=along), limit)
    else:
        where = _following(conditions(tx, query, source), query, source.changed, "s.id")
        indexed = state in {State.DEAD, State.RESOLVED} and not named
        order = "s.id DESC" if indexed else "s.id || '' DESC"
    return _select(source, where, order), [*where.args, limit]


def _along_ids(
    tx: PostgresTx, query: Query, source: Source, limit: int
) -> tuple[str, list[object]]:
    where = _following(conditions(tx, query, source), query, source.changed, "j.id")
    return _select(source, where, "j.id DESC"), [*where.args, limit]


def _select(source: Source, where: Where, order: str) -> str:
    columns = f"s.n, {source.changed} AS updated, s.id"
    return f"SELECT {columns} FROM {source.rows} WHERE {where} ORDER BY {order} LIMIT %s"  # noqa: S608


def _following(where: Where, query: Query, changed: str, job_id: str) -> Where:
    """Ask for what comes after the page before."""
    after = place_after(query)
    if after is not None and query.by_change:
        where.add(f"({changed}, {job_id}) < (%s::float8, %s::text)", *after)
    elif after is not None:
        where.add(f"{job_id} < %s", after[1])
    return where


def _are_few(tx: PostgresTx, query: Query, source: Source) -> bool:
    """Count the jobs of a state and kind, as far as the index of kinds says."""
    where = Where([source.only])
    _add_kind(tx, where, query)
    counted = f"SELECT FROM {source.rows} WHERE {where} LIMIT %s"
    ((jobs,),) = tx.rows(f"SELECT count(*) FROM ({counted}) AS counted", [*where.args, _FEW])  # noqa: S608
    return int(jobs) < _FEW


def tally(tx: PostgresTx, query: Query) -> Iterator[Row]:
    """Count jobs by state, group, handler and category, with their last change."""
    for state in query.states or (State.DEAD,):
        source = _SOURCES[state]
        where, changed = conditions(tx, query, source), source.changed
        text = (
            f"SELECT s.cause, s.handler, s.category, count(*), max({changed}) FROM {source.rows} "  # noqa: S608
            f"WHERE s.cause IS NOT NULL AND {where} GROUP BY s.cause, s.handler, s.category"
        )
        yield from tx.rows(text, where.args)


def counts(tx: PostgresTx) -> Iterator[Count]:
    """Count all jobs, one kind after the other; `added_up` sums them."""
    for state, lane, category, jobs, at in tx.all("counts"):
        yield Count(State(state), lane, category_from(category), jobs, at)


def _cursor(query: Query, job: Job) -> str:
    return cursor_of(job.updated, job.id, by_change=query.by_change)
