"""Finding and counting over the index: filters, pages, groups.

Filters look at the entries; a job's body is read only for the page itself.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice

from redrive.jobs.job import Group, Job, State
from redrive.jobs.records import evolve
from redrive.payloads.wildcards import matches
from redrive.stores.contract import RELEASABLE, Count, Members, Page, Query, added_up
from redrive.stores.cursors import cursor_of, place_after
from redrive.stores.index.base import reads
from redrive.stores.index.entries import Entry, Index
from redrive.stores.index.records import RecordStore
from redrive.stores.tallies import Tally, largest

Load = Callable[[Entry], Job]
"""How to get the whole job of an entry, with its history."""
Check = Callable[[Entry], bool]

_LAST = "\U0010ffff"
_SOME = 1000  # how many jobs are put in the order of their changes at once, unless a page has more


def _in_order(index: Index, query: Query, now: float) -> Iterator[Entry]:
    """Return the entries of a query in its order; by change some at a time."""
    while True:
        found = _matching(index, query, now)
        if not query.by_change:
            yield from found
            return
        some = heapq.nlargest(max(query.limit + 1, _SOME), found, key=_changed)
        yield from some
        if len(some) < _SOME:
            return
        query = replace(query, cursor=_cursor(query, some[-1]))


def _jobs(load: Load, query: Query, found: Iterable[Entry]) -> list[Job]:
    return [load(entry) if query.history else without_history(load(entry)) for entry in found]


def _changed(entry: Entry) -> tuple[float, str]:
    return entry.updated, entry.id


def _cursor(query: Query, entry: Entry) -> str:
    return cursor_of(entry.updated, entry.id, by_change=query.by_change)


class SearchStore(RecordStore):
    """Evaluates the verbs that look for jobs and count them; see the contract for what each promises."""

    @reads
    def get(self, job_id: str) -> Job | None:
        """Return one job with its history."""
        entry = self.index.entries.get(job_id)
        return None if entry is None else self._load(entry)

    @reads
    def find(self, query: Query) -> Page:
        """Return the page of a query."""
        most = max(query.limit, 0)
        rows = list(islice(_in_order(self.index, query, self.now()), most + 1))
        page = rows[:most]
        cursor = _cursor(query, page[-1]) if page and len(rows) > most else None
        return Page(_jobs(self._load, query, page), cursor)

    @reads
    def counts(self) -> list[Count]:
        """Count by state, lane and category; takes as long as there are kinds of jobs, not jobs."""
        index = self.index
        index.look_for_oldest()
        found: list[Count] = []
        for queue in index.queues.values():
            if queue.number:
                first = index.first_waiting(queue) if queue.state is State.PENDING else None
                at = queue.oldest if first is None else first[0]
                found.append(Count(queue.state, queue.lane, queue.category, queue.number, at))
        return added_up(found)

    @reads
    def groups(self, query: Query) -> list[Group]:
        """Count the jobs of a query by group, most first."""
        index, seen = self.index, self._view()
        states = query.states or frozenset({State.DEAD})
        asked = replace(query, states=states, cursor=None, by_change=False)
        plain = asked == Query(states=states, limit=query.limit)
        found: Iterable[Entry] = (
            [entry for entry in index.entries.values() if entry.state in states]
            if plain  # in no order, for that takes longer than the counting
            else _matching(index, asked, seen.now)
        )
        tallies: dict[int, Tally] = defaultdict(Tally)
        for entry in found:
            if entry.group is not None:
                queue = entry.queue
                tallies[entry.group].add(
                    queue.handler, queue.category, 1, entry.updated, job_id=entry.id
                )
        most = largest(tallies.items(), query.limit)
        return [tally.group(number, seen.record(number)) for number, tally in most]

    @reads
    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so, and name the oldest."""
        entries = [self.index.entries[one] for one in self.index.runs.get(run, ())]
        open_ones = (entry.id for entry in entries if entry.state in RELEASABLE)
        let_go = entries if run > 0 else []  # of what only waits nobody asks how it fares
        dead = (entry.group for entry in let_go if entry.state is State.DEAD)
        return Members(
            states=Counter(entry.state for entry in entries),
            failing=sum(
                entry.failed_in_run for entry in let_go if entry.state is not State.RESOLVED
            ),
            causes=Counter(group for group in dead if group is not None),
            oldest=heapq.nsmallest(limit, open_ones),
        )


def without_history(job: Job) -> Job:
    """Return the job as every verb but `get` returns it."""
    return evolve(job, history=()) if job.history else job


def _matching(index: Index, query: Query, now: float) -> Iterator[Entry]:
    """Return the entries of a query from where its cursor stands, newest submit first."""
    fits = _filter(index, query, now)
    return filter(fits, _candidates(index, query))


def _candidates(index: Index, query: Query) -> Iterable[Entry]:
    """Return the entries that may match, newest submit first."""
    if query.ids or query.key:
        return _named(index, query.ids or {index.keys.get(query.key, "")})
    if query.event:
        return _named(index, index.by_event.get(query.event, ()))
    if query.run is not None:
        return _named(
            index, (one for run in {query.run, -query.run} for one in index.runs.get(run, ()))
        )
    ids_in_order = index.ids()
    end = len(ids_in_order)
    start = 0
    if query.prefix:
        start = bisect_left(ids_in_order, query.prefix)
        end = bisect_left(ids_in_order, query.prefix + _LAST)
    after = place_after(query)
    if after is not None and not query.by_change:
        end = min(end, bisect_left(ids_in_order, after[1]))
    entries = index.entries
    return (entries[ids_in_order[at]] for at in range(end - 1, start - 1, -1))


def _named(index: Index, ids: Iterable[str]) -> list[Entry]:
    return [index.entries[one] for one in sorted({*ids}, reverse=True) if one in index.entries]


def _filter(index: Index, query: Query, now: float) -> Check:
    """Build the check of one entry; only the questions that were asked cost time."""
    checks: list[Check] = []
    if query.states:
        checks.append(lambda entry: entry.state in query.states)
    if query.handler or query.lane:
        checks.append(_queue_check(index, query))
    if query.category is not None:
        checks.append(lambda entry: entry.queue.category is query.category)
    checks.extend(_link_checks(index, query))
    if query.failed:
        checks.append(lambda entry: entry.failed)
    if query.prefix:
        checks.append(lambda entry: entry.id.startswith(query.prefix))
    checks.extend(_age_checks(query, now))
    after = place_after(query)
    if after is not None and query.by_change:
        checks.append(lambda entry: _changed(entry) < after)
    elif after is not None:
        checks.append(lambda entry: entry.id < after[1])
    return checks[0] if len(checks) == 1 else lambda entry: all(check(entry) for check in checks)


def _link_checks(index: Index, query: Query) -> Iterator[Check]:
    if query.group is not None:
        yield lambda entry: entry.group == query.group
    if query.run is not None:
        runs = (query.run, -query.run)
        yield lambda entry: entry.run in runs
    if query.event:
        yield lambda entry: index.events.get(entry.id) == query.event
    if query.action is not None:
        yield lambda entry: entry.action == query.action
    if query.key:
        yield lambda entry: entry.key == query.key


def _queue_check(index: Index, query: Query) -> Check:
    wanted = {
        queue
        for queue in index.queues.values()
        if (not query.lane or queue.lane == query.lane)
        and (not query.handler or matches(query.handler, queue.handler))
    }
    return lambda entry: entry.queue in wanted


def _age_checks(query: Query, now: float) -> Iterator[Check]:
    if query.older_than is not None:
        latest = now - query.older_than
        yield lambda entry: entry.updated <= latest
    if query.newer_than is not None:
        earliest = now - query.newer_than
        yield lambda entry: entry.updated >= earliest
