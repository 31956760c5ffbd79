"""Find the jobs of a selection: what the store answers by index, and what is checked job by job."""

from __future__ import annotations

import heapq
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import NamedTuple, TypeVar

from redrive.desk import selectors
from redrive.desk.selection import Selection, job_id, no_run, query_of
from redrive.errors import JobNotFound, UsageError
from redrive.jobs.job import Group, Job, State
from redrive.payloads.masked_jobs import secrets_of
from redrive.stores.contract import Page, Query, Scope, Store, every
from redrive.stores.cursors import cursor_of, read_cursor
from redrive.stores.refusals import no_group
from redrive.stores.tallies import Tally, largest

SEARCHED = 100_000
"""How many jobs are checked one by one, at most, where the store cannot answer; the newest first."""
BUDGET = 0.2
"""Seconds in which a store may search for a tag or a text, for a page that people wait for."""
_READ_FOR_REASON = 100  # how many jobs of an action are read for secrets that its reason may repeat


MUST_END: ContextVar[Callable[[], bool]] = ContextVar("redrive_must_end", default=bool)
"""Called before each job is read: True ends a search (bool() is False). A server sets it per request."""


class _Stop(NamedTuple):
    """Where the search of a query ended because its time was over."""

    updated: float
    id: str
    cursor: str
    looked: int


F = TypeVar("F", bound=Job | _Stop)


def meant(store: Store, selection: Selection, usual: Iterable[State]) -> Iterator[Job | str]:
    """Yield each job an action is meant for, once; an id that nobody has comes as it was written.

    Groups and filters mean the usual states unless a state is named. However many jobs there are,
    all are searched: an action has no bound that people do not see. The jobs come as they are stored,
    also where `selection` is asked of jobs as views show them.
    """
    if selection.is_empty:
        raise UsageError("name the jobs: ids, a group such as G7, or filters (state=, handler=, …)")
    selection = selection.usual(usual)
    seen: set[str] = set()
    for job in _by_ids(store, selection.ids) if selection.ids else each(store, selection):
        name = job if isinstance(job, str) else job.id
        if name not in seen:
            seen.add(name)
            yield job


def known(jobs: Iterable[Job | str]) -> list[Job]:
    """Return the jobs of a selection; JobNotFound if one of its ids is unknown."""
    named = list(jobs)
    if missing := [text for text in named if isinstance(text, str)]:
        raise JobNotFound(f"no job {missing[0]!r}; nothing was changed")
    return [job for job in named if isinstance(job, Job)]


def secrets_in(store: Store, which: Sequence[str] | Query) -> list[str]:
    """Return the secrets of the first of these jobs, for a reason that may repeat one."""
    if not isinstance(which, Query):
        which = Query(ids=tuple(which[:_READ_FOR_REASON]))
        if not which.ids:
            return []
    jobs = store.find(replace(which, limit=_READ_FOR_REASON)).jobs
    return [secret for job in jobs for secret in secrets_of(job)]


def each(store: Store, selection: Selection) -> Iterator[Job]:
    """Return all jobs of a selection, newest first, page by page as they are asked for.

    They come as stored, never masked. JobNotFound if it names an id, a group or a run that is
    unknown; TimeoutError if it must end.
    """
    if selection.ids:
        ids = dict.fromkeys(job_id(store, text) for text in selection.ids)
        return (job for name in ids for job in store.find(Query(ids=(name,), limit=1)).jobs)
    _check_names(store, selection)
    jobs = _in_time(_merged([every(store, query) for query in _queries(selection)]))
    return filter(selection.question(), filter(selection.confirmation(), jobs))


def _check_names(store: Store, selection: Selection) -> None:
    """Raise JobNotFound if a group or a run is named that is unknown, as an unknown id is."""
    groups = {query.group for query in _queries(selection) if query.group is not None}
    if groups and (missing := groups - store.group_records(groups).keys()):
        raise no_group(min(missing))
    asked = [term for term in selection.terms if term.name == "run" and not term.negated]
    runs = [number for term in asked for number in selectors.numbers(term)]
    for number in [*runs, selection.filters["run"]] if "run" in selection.filters else runs:
        _check_run(store, number)


def _check_run(store: Store, number: int) -> None:
    from redrive.runs import run_records  # noqa: PLC0415 - few selections name a run

    if not run_records.stored(store, number) and not store.find(Query(run=number, limit=1)).jobs:
        raise no_run(number)


def _in_time(jobs: Iterator[Job]) -> Iterator[Job]:
    must_end = MUST_END.get()
    for job in jobs:
        if must_end():
            raise TimeoutError(
                "the search of the jobs took too long; narrow the selection, or use a terminal"
            )
        yield job


def find(
    store: Store,
    selection: Selection,
    *,
    limit: int,
    cursor: str | None,
    by_change: bool,
    budget: float | None = None,
) -> Page:
    """Return a page of a selection, searching SEARCHED jobs at most; its scope says how many.

    It also ends when a store has searched for a tag or a text for `budget` seconds; None is no bound.
    """
    if selection.ids:
        return Page(list(each(store, selection)))
    _check_names(store, selection)
    queries = [
        replace(query, limit=limit, cursor=cursor, by_change=by_change, budget=budget)
        for query in _queries(selection)
    ]
    confirmed = selection.confirmation()
    if len(queries) == 1 and not selection.terms and confirmed is None:
        return store.find(queries[0])
    fits, must_end, matching = selection.question(), MUST_END.get(), list[Job]()
    looked, after, last = 0, None, None
    for job in _merged(_searches(store, queries), by_change=by_change):
        if isinstance(job, _Stop):
            scope = Scope(job.looked, max(job.looked, _size(store, queries)))
            return Page(matching, job.cursor, scope)
        if last is not None and must_end():
            after = cursor_of(last.updated, last.id, by_change=by_change)
            return Page(matching, after, Scope(looked, _size(store, queries)))
        last = job
        if confirmed is not None and not confirmed(job):
            continue
        if len(matching) == limit or looked == SEARCHED:
            return Page(matching, after, Scope(looked, _size(store, queries)))
        looked, after = looked + 1, cursor_of(job.updated, job.id, by_change=by_change)
        if fits(job):
            matching.append(job)
    return Page(matching, None, Scope(looked, looked))


def groups(store: Store, selection: Selection, limit: int) -> tuple[list[Group], Scope | None]:
    """Count a selection's jobs by cause: dead ones unless states are named, the commonest first."""
    if selection.ids:
        name = selection.ids[0]
        msg = f"groups are counted by groups and filters, not by jobs; found {name!r}"
        raise UsageError(selectors.unknown_filter(name) or msg)
    _check_names(store, selection)
    selection = selection.usual([State.DEAD])
    queries = [replace(query, limit=limit) for query in _queries(selection)]
    is_plain = not selection.terms and selection.confirmation() is None
    if is_plain and len(queries) == 1:
        return store.groups(queries[0]), None
    tallies: dict[int, Tally] = defaultdict(Tally)
    for group in [group for query in queries for group in store.groups(query)] if is_plain else ():
        tallies[group.number].jobs += group.jobs
        for handler in group.handlers:
            tallies[group.number].add(handler, group.category, 0, 0.0)
    page = (
        Page([])
        if is_plain
        else find(store, selection, limit=SEARCHED, cursor=None, by_change=False)
    )
    for job in page.jobs:
        if job.group is not None:
            kind = job.failure.category if job.failure else None
            tallies[job.group].add(job.handler, kind, 1, job.updated, job_id=job.id)
    records = store.group_records(tallies)
    most = largest(tallies.items(), limit)
    return [tally.group(number, records.get(number)) for number, tally in most], page.scope


def _searches(store: Store, queries: Sequence[Query]) -> list[Iterator[Job | _Stop]]:
    """Return the jobs of each query; those of a search for a tag or a text as far as time allows."""
    first = queries[0]
    if first.budget is None or not (first.tag or first.text):
        return [every(store, query) for query in queries]
    ends, looked = time.monotonic() + first.budget, list[int]()
    return [_until(ends, store, query, looked) for query in queries]


def _merged(found: list[Iterator[F]], *, by_change: bool = False) -> Iterator[F]:
    """Merge the jobs of several queries, which share none, in one order."""

    def order(job: F) -> tuple[float, str]:
        return job.updated if by_change else 0.0, job.id

    return found[0] if len(found) == 1 else heapq.merge(*found, key=order, reverse=True)


def _until(ends: float, store: Store, query: Query, looked: list[int]) -> Iterator[Job | _Stop]:
    """Return the jobs of a query as far as they are found in time; then where the search stopped.

    The last page asked for is never full: a full one ends at a job that has the text, and where it is
    masked nobody may learn that from the cursor.
    """
    while True:
        left = ends - time.monotonic()
        limit = query.limit + 1 if left > 0 else SEARCHED
        page = store.find(replace(query, limit=limit, budget=max(left, 0.0)))
        looked.append(page.scope.looked if page.scope else 0)
        yield from page.jobs
        if page.cursor is None:
            return
        if left <= 0:
            updated, job = read_cursor(page.cursor, by_change=query.by_change)
            yield _Stop(updated, job, page.cursor, sum(looked))
            return
        query = replace(query, cursor=page.cursor)


def _queries(selection: Selection) -> list[Query]:
    """Return the queries for the store: one for each group."""
    base = query_of(**selection.filters)
    return [replace(base, group=number) for number in selection.groups] or [base]


def _size(store: Store, queries: Sequence[Query]) -> int:
    """Count the jobs that come into question: of these groups, or in these states."""
    if queries[0].group is not None:
        return sum(group.jobs for query in map(_bare, queries) for group in store.groups(query))
    states = queries[0].states or set(State)
    return sum(count.jobs for count in store.counts() if count.state in states)


def _bare(query: Query) -> Query:
    """Remove the filters on what may be masked: it must not be counted."""
    return replace(query, tag="", key="", text="", cursor=None)


def _by_ids(store: Store, ids: Iterable[str]) -> Iterator[Job | str]:
    for text in ids:
        try:
            yield from store.find(Query(ids=(job_id(store, text),), limit=1)).jobs
        except JobNotFound:
            yield text
