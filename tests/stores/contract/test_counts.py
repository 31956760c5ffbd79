"""counts and groups: exact, by state, lane and category, and by cause."""

from __future__ import annotations

from kit import START, make_failure, make_job
from redrive.jobs.job import Category, Reason, Retry, State
from redrive.stores.contract import Count, PurgeRule, Query, Store
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DEAD,
    add,
    add_one,
    bring_to,
    claim,
    claim_one,
    fail,
    find,
    get,
    move,
    settle,
    table,
)


def test_an_empty_store_counts_nothing(store: Store) -> None:
    assert store.counts() == []
    assert store.groups(Query()) == []


def test_jobs_are_counted_by_state_lane_and_category(store: Store, clock: ManualClock) -> None:
    add(
        store,
        make_job("1", due=START + 50),
        make_job("2", due=START + 20),
        make_job("3", lane="red"),
        make_job("4", handler="sms"),
        make_job("5", handler="sms"),
    )
    claim_one(store, lanes=["red"])
    clock.advance(1)
    first, second = claim(store, "sms")
    settle(store, first, Retry(300), make_failure("quota"))
    clock.advance(1)
    settle(store, second, DEAD, make_failure("quota"))
    now = clock.now()
    assert table(store) == {
        ("pending", "mail", None): Count(State.PENDING, "mail", None, 2, START + 20),
        ("running", "red", None): Count(State.RUNNING, "red", None, 1, None),
        ("pending", "sms", "quota"): Count(State.PENDING, "sms", Category.QUOTA, 1, now - 1 + 300),
        ("dead", "sms", "quota"): Count(State.DEAD, "sms", Category.QUOTA, 1, now),
    }


def test_the_oldest_of_finished_jobs_is_the_one_that_finished_first(
    store: Store, clock: ManualClock
) -> None:
    finished: dict[State, list[float]] = {}
    for n in range(3):
        for state in (State.COMPLETED, State.DEAD, State.RESOLVED):
            clock.advance(1)
            job = bring_to(store, state, f"{state}{n}")
            finished.setdefault(state, []).append(job.finished or 0)
    shown = {row.state: (row.jobs, row.oldest) for row in store.counts()}
    assert shown == {state: (3, min(times)) for state, times in finished.items()}


def test_the_category_is_that_of_the_last_failure_in_this_life(store: Store) -> None:
    add_one(store, "a")
    fail(store, claim_one(store), "quota")
    fail(store, claim_one(store), "timeout")
    assert set(table(store)) == {("pending", "mail", "timeout")}
    taken = claim_one(store)
    assert set(table(store)) == {("running", "mail", "timeout")}
    settle(store, taken, DEAD, make_failure("auth"))
    assert set(table(store)) == {("dead", "mail", "auth")}
    move(store, "retry", "a")
    assert set(table(store)) == {("pending", "mail", None)}
    taken = claim_one(store)
    assert set(table(store)) == {("running", "mail", None)}
    settle(store, taken)
    assert set(table(store)) == {("completed", "mail", "auth")}


def test_a_closed_job_keeps_the_category_it_had(store: Store) -> None:
    bring_to(store, State.RESOLVED, "a")
    assert set(table(store)) == {("resolved", "mail", "transient")}


def test_counts_follow_purges_and_moves(store: Store, clock: ManualClock) -> None:
    for n in range(4):
        bring_to(store, State.DEAD, f"d{n}")
    move(store, "resolve", "d0", "d1")
    clock.advance(10)
    store.purge([PurgeRule(state=State.RESOLVED, older_than=5)], limit=1)
    shown = {state: row.jobs for (state, _, _), row in table(store).items()}
    assert shown == {"dead": 2, "resolved": 1}


def die(store: Store, job_id: str, cause: str, **fields: object) -> None:
    handler = str(fields.pop("handler", "mail"))
    add(store, make_job(job_id, handler=handler, **fields))
    taken = claim_one(store, handler, only=[job_id])
    settle(store, taken, DEAD, make_failure("transient", cause=cause))


def test_groups_count_dead_jobs_by_cause_most_first(store: Store, clock: ManualClock) -> None:
    for n, cause in enumerate(["net", "disk", "net", "dns", "net", "disk"]):
        clock.advance(1)
        die(store, f"j{n}", cause, handler="sms" if n == 2 else "mail")
    groups = store.groups(Query())
    assert [(g.fingerprint, g.title, g.jobs) for g in groups] == [
        ("print-net", "SomeError: net", 3),
        ("print-disk", "SomeError: disk", 2),
        ("print-dns", "SomeError: dns", 1),
    ]
    assert sorted(groups[0].handlers) == ["mail", "sms"]
    assert groups[1].handlers == ("mail",)
    assert {g.category for g in groups} == {Category.TRANSIENT}
    assert len({g.number for g in groups}) == 3
    assert all(g.number > 0 and g.name == f"G{g.number}" for g in groups)
    assert get(store, "j1").group == groups[1].number
    for group in groups:
        assert group.first_seen is not None
        assert group.last_seen is not None
        assert START <= group.first_seen <= group.last_seen <= clock.now()


def test_a_group_says_when_its_cause_was_first_and_last_seen(
    store: Store, clock: ManualClock
) -> None:
    add_one(store, "a")
    fail(store, claim_one(store))
    clock.advance(100)
    settle(store, claim_one(store), DEAD, make_failure())
    clock.advance(100)
    die(store, "b", "transient")
    (group,) = store.groups(Query())
    assert (group.jobs, group.first_seen, group.last_seen) == (2, START, START + 200)


def test_groups_without_states_count_dead_jobs_only(store: Store) -> None:
    die(store, "a", "net")
    add(store, make_job("b"))
    settle(store, claim_one(store), Retry(5), make_failure("transient", cause="net"))
    assert [g.jobs for g in store.groups(Query())] == [1]
    assert [g.jobs for g in store.groups(Query(states=frozenset({State.PENDING})))] == [1]
    assert [g.jobs for g in store.groups(Query(states=frozenset(State)))] == [2]


def test_groups_obey_the_filters_and_the_limit_but_no_cursor(store: Store) -> None:
    for n, cause in enumerate(["net", "net", "disk", "dns", "dns", "dns"]):
        die(store, f"j{n}", cause, handler=f"h{n % 2}")
    assert [g.jobs for g in store.groups(Query(limit=2))] == [3, 2]
    by_handler = {g.fingerprint: g.jobs for g in store.groups(Query(handler="h1"))}
    assert by_handler == {"print-net": 1, "print-dns": 2}
    number = get(store, "j2").group
    assert [g.number for g in store.groups(Query(group=number))] == [number]
    page = find(store, limit=2)
    assert sum(g.jobs for g in store.groups(Query(cursor=page.cursor))) == 6


def test_a_group_keeps_its_number_and_first_title(store: Store) -> None:
    die(store, "a", "net")
    number = get(store, "a").group
    move(store, "resolve", "a")
    assert store.groups(Query()) == []
    add(store, make_job("b"))
    settle(
        store,
        claim_one(store),
        DEAD,
        make_failure("quota", fingerprint="print-net", title="in other words"),
    )
    (group,) = store.groups(Query())
    assert (group.number, group.fingerprint, group.jobs) == (number, "print-net", 1)


def test_imported_dead_jobs_are_counted_like_all_others(store: Store) -> None:
    failure = make_failure("quota", cause="disk")
    add(
        store,
        make_job(
            "a",
            state=State.DEAD,
            reason=Reason.CAPTURED,
            updated=START - 9,
            finished=START - 9,
            failure=failure,
            spent={"quota": 1},
        ),
    )
    assert table(store) == {
        ("dead", "mail", "quota"): Count(State.DEAD, "mail", Category.QUOTA, 1, START - 9)
    }
    assert [g.title for g in store.groups(Query())] == ["SomeError: disk"]
