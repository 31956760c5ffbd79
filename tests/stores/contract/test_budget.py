"""Query.budget: a search for words that no index answers ends in time, says how far it looked, goes on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_job
from redrive.jobs.job import Job
from redrive.stores.contract import Page, Query, Store

MANY = 2100
"""More than any store looks at before it looks at the clock."""


def jobs(number: int) -> list[Job]:
    """Jobs of which every third has the tag and the word."""
    return [
        make_job(
            f"job{n:05d}",
            created=float(n),
            tags=("vip",) if n % 3 == 0 else ("other",),
            payload='{"word":"Needle"}' if n % 3 == 0 else '{"word":"hay"}',
        )
        for n in range(number)
    ]


def pages(store: Store, query: Query) -> list[Page]:
    """All pages of a query, which come to an end."""
    found = [store.find(query)]
    while found[-1].cursor is not None:
        found.append(store.find(replace(query, cursor=found[-1].cursor)))
        assert len(found) <= MANY + 1
    return found


@pytest.mark.parametrize("words", [{"tag": "vip"}, {"text": "needle"}], ids=["tag", "text"])
@pytest.mark.parametrize("by_change", [False, True], ids=["by submit", "by change"])
@pytest.mark.parametrize("budget", [0.0, 60.0])
def test_pages_in_time_miss_nothing(
    store: Store, words: dict[str, str], *, by_change: bool, budget: float
) -> None:
    store.add(jobs(50))
    query = Query(**words, by_change=by_change, limit=4)  # type: ignore[arg-type]
    expected = [job.id for job in store.find(replace(query, limit=100)).jobs]
    assert len(expected) == 17
    found = pages(store, replace(query, budget=budget))
    assert [job.id for page in found for job in page.jobs] == expected
    assert all(len(page.jobs) <= 4 for page in found)
    scopes = [page.scope for page in found if page.scope is not None]
    assert len(scopes) == len(found)
    assert sum(scope.looked for scope in scopes) == 50
    assert all(scope.looked <= scope.of for scope in scopes)


@pytest.mark.parametrize("by_change", [False, True], ids=["by submit", "by change"])
def test_words_that_nothing_has_end_in_time_and_go_on(store: Store, *, by_change: bool) -> None:
    store.add(jobs(MANY))
    query = Query(text="nobody has this", by_change=by_change, budget=0.0)
    first = store.find(query)
    assert (first.jobs, first.cursor is None) == ([], False)
    assert first.scope is not None
    assert 0 < first.scope.looked < first.scope.of
    last = store.find(replace(query, cursor=first.cursor, budget=60.0))
    assert (last.jobs, last.cursor) == ([], None)
    assert last.scope is not None
    assert first.scope.looked + last.scope.looked == MANY


def test_without_words_or_a_budget_the_whole_page_is_answered(store: Store) -> None:
    store.add(jobs(5))
    for query in (Query(budget=0.0), Query(tag="vip"), Query(text="needle")):
        page = store.find(query)
        assert (page.cursor, page.scope) == (None, None)
        assert page.jobs
