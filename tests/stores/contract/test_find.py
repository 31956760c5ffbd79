"""get and find: every filter, both orders, pages that stay stable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kit import START, make_failure, make_job
from redrive.errors import UsageError
from redrive.jobs.job import Category, Reason, State
from redrive.stores.contract import PurgeRule, Store
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DEAD,
    add,
    add_one,
    bare,
    bring_to,
    claim_one,
    fail,
    find,
    found,
    get,
    kill,
    move,
    settle,
)
from tablekit import each_row

FINISHED: dict[str, Any] = {"state": State.DEAD, "reason": Reason.EXHAUSTED, "finished": START}


def test_get_gives_the_job_with_its_history(store: Store) -> None:
    add_one(store, "a")
    fail(store, claim_one(store))
    job = get(store, "a")
    assert (job.id, len(job.history)) == ("a", 1)
    assert job.is_new


@each_row("job_id", ["nobody", "", "%", "a%", "A", "a ", "'", "a\x00", "é"])
def test_get_of_an_unknown_id_is_none(store: Store, job_id: str) -> None:
    add_one(store, "a")
    assert store.get(job_id) is None


def test_find_gives_whole_jobs_without_history(store: Store) -> None:
    bring_to(store, State.DEAD, "a", payload='{"x":1}', tags=("t",))
    (job,) = find(store).jobs
    assert job == bare(get(store, "a"))
    assert job.history == ()


def test_find_with_history_gives_the_attempts_of_each_job(store: Store) -> None:
    for state, job_id in ((State.DEAD, "a"), (State.COMPLETED, "b"), (State.PENDING, "c")):
        bring_to(store, state, job_id)
    fail(store, claim_one(store, only=["c"]))
    jobs = find(store, history=True, ids=("a", "b", "c", "nobody")).jobs
    assert jobs == [get(store, job_id) for job_id in "cba"]
    assert [len(job.history) for job in jobs] == [1, 1, 1]


def test_an_empty_query_finds_everything_newest_submit_first(store: Store) -> None:
    jobs = [make_job(f"j{n}", created=START + n) for n in range(5)]
    add(store, jobs[2], jobs[0], jobs[4], jobs[1], jobs[3])
    assert found(store) == ["j4", "j3", "j2", "j1", "j0"]
    assert find(store).cursor is None


def test_by_change_the_newest_change_comes_first(store: Store, clock: ManualClock) -> None:
    add(store, *(make_job(name, created=START + n) for n, name in enumerate("abc")))
    clock.advance(10)
    fail(store, claim_one(store, only=["b"]))
    clock.advance(10)
    settle(store, claim_one(store, only=["a"]))
    assert found(store, by_change=True) == ["a", "b", "c"]
    assert found(store) == ["c", "b", "a"]


def fill(store: Store) -> None:
    """One job for each thing that can be asked for, all told apart by one letter."""
    net = make_failure("transient", cause="net", type="ConnectionError", message="Reset by peer")
    disk = make_failure("quota", cause="disk", message="100% of_space")
    add(
        store,
        make_job("aa1", handler="mail.send", lane="mail", tags=("red", "blue"), created=START),
        make_job("aa2", handler="mail.read", lane="mail", key="k-1", created=START + 1),
        make_job(
            "ab1", handler="mailXsend", lane="x", payload='{"to":"Zoë O\'Hara"}', created=START + 2
        ),
        make_job("b_1", handler="sms", tags=("redder",), run=7, created=START + 3),
        make_job("bx1", handler="sms", failure=net, spent={"transient": 1}, created=START + 4),
        make_job(
            "c%1", handler="sms", failure=disk, spent={"quota": 2}, created=START + 5, **FINISHED
        ),
    )


PARTS: list[tuple[dict[str, Any], list[str] | str]] = [
    ({"states": frozenset({State.DEAD})}, ["c%1"]),
    ({"states": frozenset({State.DEAD, State.PENDING})}, "all"),
    ({"states": frozenset({State.RUNNING})}, []),
    ({"ids": ("aa1", "bx1", "nobody")}, ["bx1", "aa1"]),
    ({"prefix": "aa"}, ["aa2", "aa1"]),
    ({"prefix": "b_"}, ["b_1"]),
    ({"prefix": "c%"}, ["c%1"]),
    ({"prefix": "%"}, []),
    ({"prefix": "*"}, []),
    ({"prefix": "A"}, []),
    ({"prefix": "a' OR '1'='1"}, []),
    ({"handler": "sms"}, ["c%1", "bx1", "b_1"]),
    ({"handler": "mail"}, []),
    ({"handler": "mail.*"}, ["aa2", "aa1"]),
    ({"handler": "*send"}, ["ab1", "aa1"]),
    ({"handler": "m*.*d"}, ["aa2", "aa1"]),
    ({"handler": "*"}, "all"),
    ({"handler": "mail_send*"}, []),
    ({"handler": "mail%"}, []),
    ({"handler": "MAIL.*"}, []),
    ({"handler": "s?s*"}, []),
    ({"handler": "[s]ms*"}, []),
    ({"lane": "mail"}, ["aa2", "aa1"]),
    ({"lane": "mai"}, []),
    ({"category": Category.TRANSIENT}, ["bx1"]),
    ({"category": Category.QUOTA}, ["c%1"]),
    ({"category": Category.AUTH}, []),
    ({"key": "k-1"}, ["aa2"]),
    ({"key": "k"}, []),
    ({"run": 7}, ["b_1"]),
    ({"run": 8}, []),
    ({"failed": True}, ["c%1", "bx1"]),
    ({"handler": "sms", "failed": True, "states": frozenset({State.PENDING})}, ["bx1"]),
    ({"prefix": "aa", "lane": "mail", "handler": "mail.s*"}, ["aa1"]),
    ({"prefix": "aa", "lane": "sms"}, []),
]


def test_every_part_of_a_query_must_hold(store: Store) -> None:
    fill(store)
    everyone = found(store)
    for query, expected in PARTS:
        assert found(store, **query) == (everyone if expected == "all" else expected), query


def test_jobs_are_found_by_group(store: Store) -> None:
    fill(store)
    number = get(store, "c%1").group
    assert number is not None
    assert found(store, group=number) == ["c%1"]
    assert found(store, group=number + 1000) == []


def test_age_counts_from_the_last_change_of_state(store: Store, clock: ManualClock) -> None:
    """`older_than` is at least so many seconds, `newer_than` at most."""
    add(store, *(make_job(name, created=START) for name in "abc"))
    clock.advance(100)
    fail(store, claim_one(store, only=["b"]))
    clock.advance(50)
    assert found(store, older_than=150) == ["c", "a"]
    assert found(store, older_than=150.5) == []
    assert sorted(found(store, older_than=50)) == ["a", "b", "c"]
    assert found(store, newer_than=50) == ["b"]
    assert found(store, newer_than=49) == []
    assert found(store, older_than=0, newer_than=100) == ["b"]


def test_failed_means_in_this_life(store: Store) -> None:
    add(store, make_job("a"), make_job("b"))
    settle(store, claim_one(store, only=["a"]), DEAD, make_failure())
    assert found(store, failed=True) == ["a"]
    move(store, "retry", "a")
    assert found(store, failed=True) == []


def pages(store: Store, limit: int, **query: Any) -> list[list[str]]:
    result, cursor = [], None
    while True:
        page = find(store, limit=limit, cursor=cursor, **query)
        result.append([job.id for job in page.jobs])
        cursor = page.cursor
        if cursor is None:
            return result


@each_row("by_change", [False, True])
@each_row("limit, sizes", [(1, [1] * 6), (2, [2, 2, 2]), (4, [4, 2]), (6, [6]), (100, [6])])
def test_pages_cover_everything_once_and_the_last_has_no_cursor(
    store: Store, by_change: bool, limit: int, sizes: list[int]
) -> None:
    fill(store)
    read = pages(store, limit, by_change=by_change)
    assert [len(page) for page in read] == sizes
    assert [each for page in read for each in page] == found(store, by_change=by_change)


@each_row("by_change", [False, True])
def test_pages_cover_jobs_of_one_and_the_same_moment(store: Store, by_change: bool) -> None:
    add(store, *(make_job(f"j{n:02d}", created=START) for n in range(23)))
    read = [each for page in pages(store, 5, by_change=by_change) for each in page]
    assert sorted(read) == [f"j{n:02d}" for n in range(23)]


def test_pages_obey_the_filters(store: Store) -> None:
    fill(store)
    assert pages(store, 1, handler="sms") == [["c%1"], ["bx1"], ["b_1"]]
    assert pages(store, 2, lane="nothing like it") == [[]]


@pytest.mark.parametrize("by_change", [False, True])
def test_paging_is_stable_while_jobs_come_and_go(
    store: Store, clock: ManualClock, by_change: bool
) -> None:
    for n in range(9):
        clock.advance(1)
        bring_to(store, State.COMPLETED, f"j{n}", handler=f"h{n}", created=START + n)
    first = find(store, limit=3, by_change=by_change)
    assert [job.id for job in first.jobs] == ["j8", "j7", "j6"]
    clock.advance(100)
    add(store, make_job("new1", created=clock.now()), make_job("new2", created=clock.now()))
    gone = frozenset({"h8", "h6", "h4"})  # one seen, the one the page ended with, one to come
    store.purge([PurgeRule(state=State.COMPLETED, older_than=1, handlers=gone)])
    second = find(store, limit=3, by_change=by_change, cursor=first.cursor)
    assert [job.id for job in second.jobs] == ["j5", "j3", "j2"]
    third = find(store, limit=3, by_change=by_change, cursor=second.cursor)
    assert [job.id for job in third.jobs] == ["j1", "j0"]
    assert third.cursor is None


def test_a_page_read_again_is_the_same(store: Store) -> None:
    fill(store)
    cursor = find(store, limit=2).cursor
    assert find(store, limit=2, cursor=cursor) == find(store, limit=2, cursor=cursor)


@each_row("by_change", [False, True])
@each_row(
    "cursor",
    ["nonsense", "1", "0:0", "'; --", "é", "W10", "bnVsbA==", "[]", "{}", "9" * 400, "cx:y", "c"],
)
def test_a_cursor_that_is_none_of_ours_is_refused(
    store: Store, cursor: str, by_change: bool
) -> None:
    fill(store)
    with pytest.raises(UsageError, match="cursor"):
        find(store, cursor=cursor, by_change=by_change)


def test_a_cursor_of_the_other_order_is_refused(store: Store) -> None:
    fill(store)
    cursor = find(store, limit=2).cursor
    with pytest.raises(UsageError, match="cursor"):
        find(store, limit=2, cursor=cursor, by_change=True)


def test_looking_changes_nothing(store: Store) -> None:
    fill(store)
    before = [get(store, each) for each in found(store)]
    find(store, failed=True)
    store.counts()
    store.verify()
    assert [get(store, each) for each in found(store)] == before
    assert replace(before[0], history=()) == find(store).jobs[0]


def test_a_nul_in_one_job_does_not_stop_a_search(store: Store) -> None:
    """PostgreSQL refuses it in JSON, SQLite ends a text there."""
    kill(store, "a", make_failure(message="x\0 find me"), tags=("t",), origin={"o": "\\u0000 \0"})
    kill(store, "b", make_failure(message="find me \\u0000"), tags=("t",))
    assert found(store, failed=True) == ["b", "a"]
