"""Finding jobs: one branch a state, each along the index that serves it, then the rows of one page.

The text of every condition is a constant; what people wrote is bound, never put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from operator import itemgetter

from redrive.jobs.job import Job, State
from redrive.stores.contract import Count, Page, Query
from redrive.stores.cursors import cursor_of, place_after
from redrive.stores.record_codec import category_from
from redrive.stores.sql.lists import Where
from redrive.stores.sql.tx import LAST
from redrive.stores.sqlite.rows import job_from_row
from redrive.stores.sqlite.tx import SqliteTx

FEW = 20_000  # up to so many jobs of a state are sorted rather than looked for in the order of ids
OF_KIND = (
    "state = +? AND state <> 'running' AND suspect = ? AND lane = ? AND handler = ? "
    "AND category = ?"
)
_IN_ORDER = [(state, 0) for state in State if state is not State.RUNNING] + [(State.PENDING, 1)]
"""The states whose jobs lie in the index of kinds; what crashed before lies apart."""

Found = tuple[float, str, int]
"""The last change, id and number of a job."""
Kind = tuple[int, str, str, str]
"""Suspect or not, lane, handler and category."""


def find(tx: SqliteTx, query: Query) -> Page:
    """Return a page of jobs, newest first."""
    after = place_after(query)
    if query.limit < 1:
        return Page([])
    found = _candidates(tx, query, after, query.limit + 1)
    page = found[: query.limit]
    return Page(_jobs(tx, page), _cursor(query, page[-1]) if len(found) > query.limit else None)


def _jobs(tx: SqliteTx, found: Iterable[Found]) -> list[Job]:
    rows = tx.all("by_numbers", (tx.array(number for _, _, number in found),))
    return [job_from_row(row) for row in rows]


def _cursor(query: Query, one: Found) -> str:
    return cursor_of(one[0], one[1], by_change=query.by_change)


def _candidates(
    tx: SqliteTx, query: Query, after: tuple[float, str] | None, most: int
) -> list[Found]:
    """Return the first jobs of a query after a place, newest first."""
    states = query.states or frozenset(State)
    named = _names(tx, query)
    if named:
        where = _conditions(tx, query, after, "updated")
        where.add("+state IN (SELECT value FROM json_each(?))", tx.array(sorted(states)))
        return _select(tx, named[0][0], where, query, most)
    is_narrow = query.handler or query.lane or query.category
    if not query.by_change and len(states) == len(State) and not is_narrow:
        return _select(tx, "jobs_by_id", _conditions(tx, query, after, "updated"), query, most)
    found: list[Found] = []
    for state in states:
        found += _of_state(tx, state, query, after, most)
    found.sort(key=None if query.by_change else itemgetter(1), reverse=True)
    return found[:most]


def _names(tx: SqliteTx, query: Query) -> list[tuple[str, str, tuple[object, ...]]]:
    """Return the conditions that say by name which jobs are meant, and the index for each.

    The first is the one to begin with; SQLite finds its index by itself where none is named.
    """
    any_id, run = "id IN (SELECT value FROM json_each(?))", query.run or 0
    options: list[tuple[bool, str, str, tuple[object, ...]]] = [
        (bool(query.ids), "", any_id, (tx.array(query.ids),)),
        (bool(query.key), "", "key = ?", (query.key,)),
        (bool(query.event), "jobs_by_event", "event = ?", (query.event,)),
        (query.action is not None, "jobs_by_action", "action = ?", (query.action,)),
        (query.run is not None, "jobs_by_run", "run IN (?, ?)", (run, -run)),
        (query.group is not None, "jobs_by_cause", "cause = ?", (query.group,)),
        (bool(query.prefix), "", "id >= ? AND id < ?", (query.prefix, query.prefix + LAST)),
    ]
    return [(index, part, args) for asked, index, part, args in options if asked]


def _select(
    tx: SqliteTx, index: str, where: Where, query: Query, most: int, *, time: str = "updated"
) -> list[Found]:
    """Return the first jobs along an index, or along the one that SQLite thinks is best."""
    along = f"INDEXED BY {index}" if index else ""
    order = f"{time} DESC, id DESC" if query.by_change else "id DESC"
    text = f"SELECT updated, id, n FROM jobs j {along} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608
    return tx.execute(text, (*where.args, most))


def _of_state(
    tx: SqliteTx, state: State, query: Query, after: tuple[float, str] | None, most: int
) -> list[Found]:
    """Return the first jobs of one state."""
    is_open = state in {State.PENDING, State.RUNNING}
    time = "updated" if is_open else "at"
    where = _conditions(tx, query, after, time)
    if state is State.DEAD:
        index = "dead_by_change" if query.by_change else "dead_by_id"
        return _select(tx, index, where.plus("state = 'dead'"), query, most, time=time)
    if state is State.RUNNING:
        return _select(tx, "running_jobs", where.plus("state = 'running'"), query, most)
    kinds = list(_kinds(tx, state, query))
    if not query.by_change and _are_many(tx, state, kinds):
        return _select(tx, "jobs_by_id", where.plus("+state = ?", state._value_), query, most)
    found: list[Found] = []
    for kind in kinds:
        own = where.plus(OF_KIND, state._value_, *kind)
        found += _select(tx, "jobs_by_kind", own, query, most, time=time)
    return found


def _kinds(tx: SqliteTx, state: State, query: Query) -> Iterator[Kind]:
    """Return the kinds of a state that may have jobs of a query."""
    handlers = tx.pattern(query.handler) if query.handler else "*"
    for suspect in (0, 1) if state is State.PENDING else (0,):
        for lane, handler, category, _ in tx.all("kinds", (state._value_, suspect)):
            if (
                query.lane in {"", lane}
                and fnmatchcase(handler, handlers)
                and (query.category is None or category == query.category._value_)
            ):
                yield suspect, lane, handler, category


def _are_many(tx: SqliteTx, state: State, kinds: Iterable[Kind]) -> bool:
    jobs = 0
    for kind in kinds:
        (some,) = tx.one("count_few", (state._value_, *kind, FEW)) or (0,)
        jobs += some
        if jobs >= FEW:
            return True
    return False


def _conditions(tx: SqliteTx, query: Query, after: tuple[float, str] | None, time: str) -> Where:
    """Return the conditions of a query, all but its states; `time` is the column of the last change."""
    where = Where()
    for _, part, args in _names(tx, query):
        where.add(part, *args)
    _add_kind(tx, where, query)
    if query.older_than is not None:
        where.add(f"{time} <= ?", tx.now() - query.older_than)
    if query.newer_than is not None:
        where.add(f"{time} >= ?", tx.now() - query.newer_than)
    if after is not None and query.by_change:
        where.add(f"({time}, id) < (?, ?)", *after)
    elif after is not None:
        where.add("id < ?", after[1])
    return where


def _add_kind(tx: SqliteTx, where: Where, query: Query) -> None:
    if "*" in query.handler:
        where.add("handler GLOB ?", tx.pattern(query.handler))
    elif query.handler:
        where.add("handler = ?", query.handler)
    if query.lane:
        where.add("lane = ?", query.lane)
    if query.category is not None:
        where.add("category = ?", query.category._value_)
    if query.failed:
        where.add("json_extract(more, '$.spent') IS NOT NULL")


def tally(tx: SqliteTx, query: Query) -> list[tuple[int, str, str, int, float]]:
    """Count jobs by group, handler and category, with their last change."""
    states = query.states or frozenset({State.DEAD})
    if query == Query(states=query.states, limit=query.limit) and states <= {State.DEAD}:
        return list(_dead_groups(tx, query.limit))
    dead = states == frozenset({State.DEAD})
    time = "at" if dead else "updated"
    where = _conditions(tx, query, None, time).plus("cause IS NOT NULL")
    if dead:
        where.add("state = 'dead'")
    else:
        where.add("+state IN (SELECT value FROM json_each(?))", tx.array(sorted(states)))
    index = "INDEXED BY jobs_by_cause" if query.run is None else ""
    text = (
        f"SELECT cause, handler, category, count(*), max({time}) FROM jobs j {index} "  # noqa: S608
        f"WHERE {where} GROUP BY cause, handler, category"
    )
    return tx.execute(text, where.args)


def _dead_groups(tx: SqliteTx, limit: int) -> Iterator[tuple[int, str, str, int, float]]:
    """Yield the same of all dead jobs for the largest groups; the first row of each has its jobs."""
    for number, jobs in tx.all("group_sizes", (max(limit, 0),)):
        for place, kind in enumerate(tx.all("group_kinds", (number,))):
            handler, category, last = kind
            yield number, handler, category, 0 if place else jobs, last


def counts(tx: SqliteTx) -> Iterator[Count]:
    """Count all jobs, one kind after the other; `added_up` sums them."""
    for state, suspect in _IN_ORDER:
        for lane, handler, category, at in tx.all("kinds", (state._value_, suspect)):
            args = (state._value_, suspect, lane, handler, category)
            (jobs,) = tx.one("count_kind", args) or (0,)
            changed = tx.one("oldest_death", args[2:]) if state is State.DEAD else None
            yield Count(state, lane, category_from(category), jobs, min(at, *(changed or (at,))))
    for lane, category, jobs in tx.all("count_running"):
        yield Count(State.RUNNING, lane, category_from(category), jobs, None)
