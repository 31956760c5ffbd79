"""A search that no index answers ends when its time is over, and its cursor goes on from there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kit import make_job
from redrive.stores.contract import Page, Query, Scope
from redrive.stores.sqlite import SqliteStore, searching
from stores.contract.verbs import add

JOBS = 20


@pytest.fixture
def filled(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    """Jobs of two handlers, every sixth with a tag; chunks of two, then of four."""
    monkeypatch.setattr(searching, "FIRST_CHUNK", 2)
    monkeypatch.setattr(searching, "CHUNK", 4)
    for n in range(JOBS):
        tags = ("red",) if n % 6 == 0 else ()
        add(store, make_job(f"{n:02d}", handler=f"h{n % 2}", tags=tags, payload=f'"p{n % 6}"'))
    return store


def pages(store: SqliteStore, query: Query) -> list[Page]:
    """All pages of a query."""
    found = [store.find(query)]
    while found[-1].cursor is not None:
        found.append(store.find(replace(query, cursor=found[-1].cursor)))
    return found


@pytest.mark.parametrize("by_change", [False, True])
@pytest.mark.parametrize("query", [Query(tag="red"), Query(text="P0"), Query(tag="red", limit=1)])
@pytest.mark.parametrize("budget", [0.0, 60.0])
def test_all_pages_together_find_what_a_search_without_a_budget_finds(
    filled: SqliteStore, query: Query, by_change: bool, budget: float
) -> None:
    query = replace(query, by_change=by_change)
    expected = [job.id for page in pages(filled, query) for job in page.jobs]
    found = pages(filled, replace(query, budget=budget))
    assert [job.id for page in found for job in page.jobs] == expected
    assert sorted(expected) == ["00", "06", "12", "18"]
    assert sum(page.scope.looked for page in found if page.scope) == JOBS


def test_without_time_only_the_first_chunk_is_searched(filled: SqliteStore) -> None:
    page = filled.find(Query(tag="nobody has it", budget=0.0))
    assert (page.jobs, page.scope) == ([], Scope(2, JOBS))
    assert page.cursor is not None


def test_with_time_the_scope_is_all_that_the_index_leaves(filled: SqliteStore) -> None:
    page = filled.find(Query(text="nobody has it", handler="h1", budget=60.0))
    assert page == Page([], None, Scope(JOBS // 2, JOBS // 2))


def test_what_an_index_answers_has_no_budget(filled: SqliteStore) -> None:
    page = filled.find(Query(handler="h1", limit=100, budget=0.0))
    assert (len(page.jobs), page.cursor, page.scope) == (JOBS // 2, None, None)
