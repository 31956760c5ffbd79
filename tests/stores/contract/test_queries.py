"""Any query, put together at random, finds what a plain look at every job would find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kit import START, make_failure, make_job
from redrive.jobs.job import TERMINAL, Category, Job, Reason, State
from redrive.stores.contract import Query, Store
from stores.contract.kinds import Place
from stores.contract.verbs import find
from tablekit import each_row

REASONS = {
    State.COMPLETED: Reason.DONE,
    State.DEAD: Reason.EXHAUSTED,
    State.RESOLVED: Reason.DISCARDED,
}


def varied(n: int) -> Job:
    """A job whose fields go round at different paces, so that every combination turns up."""
    state = (State.PENDING, State.DEAD, State.COMPLETED, State.RESOLVED, State.DEAD)[n % 5]
    cause = ("net", "disk", "Dns")[n % 3]
    failed = n % 4 != 0
    ended = {"reason": REASONS[state], "finished": START - n} if state in TERMINAL else {}
    return make_job(
        f"{'ab'[n % 2]}{n:03d}",
        handler=("mail.send", "mail.read", "sms")[n % 3],
        lane=("mail", "slow")[n // 3 % 2],
        payload=f'{{"n":{n % 7},"who":"{("Ada", "bob")[n % 2]}"}}',
        created=START - 100 + n,
        updated=START - (n * 7 % 13) * 10,
        state=state,
        failure=make_failure(("quota", "transient")[n // 2 % 2], cause=cause) if failed else None,
        spent={"quota": 1} if failed and n % 8 != 1 else {},
        key=f"k{n}" if n % 6 == 0 else None,
        tags=(("red",), ("red", "blue"), ())[n % 3],
        run=(None, 1, -1, 2)[n // 2 % 4],
        crashes=n % 2,
        **ended,
    )


def fits(job: Job, query: Query) -> bool:
    """What each part of a query means, one by one."""
    failure = job.failure
    counted = failure is not None and (bool(job.spent) or job.state in TERMINAL)
    age = START - job.updated
    start, star, rest = query.handler.partition("*")
    named = (
        job.handler.startswith(start) and job.handler.endswith(rest)
        if star
        else job.handler == start
    )
    return all(
        (
            not query.states or job.state in query.states,
            not query.ids or job.id in query.ids,
            job.id.startswith(query.prefix),
            not query.handler or named,
            not query.lane or job.lane == query.lane,
            query.category is None
            or (counted and failure is not None and failure.category is query.category),
            query.group is None or job.group == query.group,
            not query.key or job.key == query.key,
            query.run is None or abs(job.run or 0) == query.run,
            query.older_than is None or age >= query.older_than,
            query.newer_than is None or age <= query.newer_than,
            not query.failed or bool(job.spent),
        )
    )


def some(*values: Any) -> st.SearchStrategy[Any]:
    """One of these; the first, which asks nothing, comes up most often."""
    return st.sampled_from([values[0]] * (len(values) + 2) + list(values))


states = st.frozensets(st.sampled_from(State), max_size=3) | st.just(frozenset({State.DEAD}))
queries = st.builds(
    Query,
    states=states,
    ids=some((), ("a000", "b001", "a004", "nobody"), tuple(f"a{n:03d}" for n in range(0, 40, 2))),
    prefix=some("", "a", "b0", "a01", "zz"),
    handler=some("", "sms", "mail.*", "*send", "*", "mail"),
    lane=some("", "mail", "slow"),
    category=some(None, Category.QUOTA, Category.TRANSIENT, Category.AUTH),
    group=some(None, 1, 2, 3, 99),
    key=some("", "k6", "k12", "none"),
    run=some(None, 1, 2, 3),
    older_than=some(None, 0.0, 50.0, 120.0),
    newer_than=some(None, 0.0, 50.0, 120.0),
    failed=some(False, True),
    by_change=st.booleans(),
    limit=st.sampled_from([1, 3, 7, 100]),
)


def fill(store: Store) -> list[Job]:
    """Forty jobs, newest submit first, as the store gives them."""
    store.add(sorted(map(varied, range(40)), key=lambda job: job.id))
    jobs = [store.get(varied(n).id) for n in range(40)]
    return sorted((job for job in jobs if job is not None), key=lambda job: job.id, reverse=True)


@each_row("paged", [False, True])
def test_any_query_finds_what_a_look_at_every_job_finds(place: Place, paged: bool) -> None:
    store = place.open()
    jobs = fill(store)

    @settings(max_examples=60)
    @given(queries)
    def try_it(query: Query) -> None:
        expected = [job.id for job in jobs if fits(job, query)]
        if query.by_change:
            by_time = {job.id: (job.updated, job.id) for job in jobs}
            expected.sort(key=lambda job_id: by_time[job_id], reverse=True)
        page = store.find(query)
        found = [job.id for job in page.jobs]
        if not paged:
            assert found == expected[: query.limit]
            assert (page.cursor is None) is (len(expected) <= query.limit)
            return
        while page.cursor is not None:
            page = store.find(replace(query, cursor=page.cursor))
            found += [job.id for job in page.jobs]
        assert found == expected

    try_it()
    if place.kind.persistent:
        store = place.reopen()
        assert len(find(store).jobs) == 40
        try_it()


def test_any_query_groups_what_a_look_at_every_job_groups(place: Place) -> None:
    store = place.open()
    jobs = fill(store)

    @settings(max_examples=60)
    @given(queries)
    def try_it(query: Query) -> None:
        asked = replace(query, states=query.states or frozenset({State.DEAD}))
        expected: dict[int, int] = {}
        for job in jobs:
            if job.group is not None and fits(job, asked):
                expected[job.group] = expected.get(job.group, 0) + 1
        groups = store.groups(query)
        sizes = [group.jobs for group in groups]
        assert sizes == sorted(expected.values(), reverse=True)[: query.limit]
        assert all(expected[group.number] == group.jobs for group in groups)

    try_it()
