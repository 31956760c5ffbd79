"""purge: finished jobs, strictly older, by handler, never what still has to run."""

from __future__ import annotations

from math import inf

import pytest

from kit import START, make_action, make_failure, make_job
from redrive.jobs.job import Reason, State
from redrive.stores.contract import PurgeRule, Query, Store
from redrive.testing import ManualClock
from stores.contract.verbs import (
    DEAD,
    add,
    bring_to,
    claim_one,
    count,
    everything,
    found,
    get,
    move,
    settle,
)
from tablekit import each_row

FINISHED = [State.COMPLETED, State.DEAD, State.RESOLVED]


@each_row("state", FINISHED)
def test_only_what_finished_strictly_longer_ago_goes(
    store: Store, clock: ManualClock, state: State
) -> None:
    bring_to(store, state, "a")
    rule = PurgeRule(state=state, older_than=100)
    clock.advance(100)
    assert store.purge([rule]) == []
    clock.advance(0.5)
    assert store.purge([rule]) == [("mail", state)]
    assert store.get("a") is None
    assert store.purge([rule]) == []


@each_row("state", [State.PENDING, State.RUNNING])
def test_what_still_has_to_run_is_never_purged(
    store: Store, clock: ManualClock, state: State
) -> None:
    """Also after a life in which it had finished."""
    bring_to(store, state, "a", created=START - 1e8)
    bring_to(store, State.DEAD, "b", handler="h")
    clock.advance(1e6)
    move(store, "retry", "b")
    if state is State.RUNNING:
        claim_one(store, "h")
    before = everything(store)
    assert store.purge([PurgeRule(state=each, older_than=0) for each in State]) == []
    assert everything(store) == before


def test_age_counts_from_the_finished_time(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.DEAD, "a", created=START - 1e8)
    clock.advance(50)
    move(store, "resolve", "a")
    clock.advance(60)
    assert store.purge([PurgeRule(state=State.RESOLVED, older_than=100)]) == []
    assert store.purge([PurgeRule(state=State.RESOLVED, older_than=59)]) == [
        ("mail", State.RESOLVED)
    ]


def test_an_imported_job_has_the_age_it_came_with(store: Store) -> None:
    done = {"state": State.COMPLETED, "reason": Reason.DONE}
    add(
        store,
        make_job("old", updated=START - 500, finished=START - 500, **done),
        make_job("new", updated=START - 50, finished=START - 50, **done),
    )
    assert len(store.purge([PurgeRule(state=State.COMPLETED, older_than=100)])) == 1
    assert found(store) == ["new"]


def test_an_edit_begins_the_time_anew(store: Store, clock: ManualClock) -> None:
    """The later of the end and the last action counts; its age as a dead letter stays."""
    bring_to(store, State.DEAD, "a")
    clock.advance(50)
    store.amend("a", '{"n":1}', make_action("edit"), expected=0)
    clock.advance(60)
    assert store.purge([PurgeRule(state=State.DEAD, older_than=100)]) == []
    assert [row.oldest for row in store.counts()] == [START]
    assert len(store.purge([PurgeRule(state=State.DEAD, older_than=59)])) == 1


def test_a_job_reopened_after_eight_days_is_kept_for_its_time(
    store: Store, clock: ManualClock
) -> None:
    """It died long ago, and still does: but the last action counts for retention."""
    day = 86400.0
    bring_to(store, State.DEAD, "a")
    died_at = get(store, "a").died_at
    move(store, "resolve", "a")
    clock.advance(8 * day)
    move(store, "reopen", "a")
    assert get(store, "a").died_at == died_at
    clock.advance(day)
    assert store.purge([PurgeRule(state=State.DEAD, older_than=7 * day)]) == []
    clock.advance(6.1 * day)
    assert len(store.purge([PurgeRule(state=State.DEAD, older_than=7 * day)])) == 1


def test_each_state_has_its_own_rule(store: Store, clock: ManualClock) -> None:
    for state in State:
        bring_to(store, state, state.value)
    clock.advance(50)
    gone = store.purge(
        [
            PurgeRule(state=State.COMPLETED, older_than=10),
            PurgeRule(state=State.RESOLVED, older_than=100),
        ]
    )
    assert gone == [("mail", State.COMPLETED)]
    assert sorted(found(store)) == ["dead", "pending", "resolved", "running"]


def test_rules_can_name_handlers_and_all_but_some(store: Store, clock: ManualClock) -> None:
    for handler in ("a", "b", "c", "d"):
        bring_to(store, State.COMPLETED, handler, handler=handler)
    clock.advance(50)
    some = PurgeRule(state=State.COMPLETED, older_than=10, handlers=frozenset({"a", "nobody"}))
    assert store.purge([some]) == [("a", State.COMPLETED)]
    none = PurgeRule(state=State.COMPLETED, older_than=10, handlers=frozenset())
    assert store.purge([none]) == []
    others = PurgeRule(state=State.COMPLETED, older_than=10, but=frozenset({"b", "c"}))
    assert store.purge([others]) == [("d", State.COMPLETED)]
    late = PurgeRule(state=State.COMPLETED, older_than=60, handlers=frozenset({"b"}))
    rest = PurgeRule(state=State.COMPLETED, older_than=10, but=frozenset({"b"}))
    assert store.purge([late, rest]) == [("c", State.COMPLETED)]
    assert found(store) == ["b"]


def test_a_job_that_two_rules_name_goes_once(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.COMPLETED, "a")
    clock.advance(50)
    rule = PurgeRule(state=State.COMPLETED, older_than=10)
    assert store.purge([rule, rule]) == [("mail", State.COMPLETED)]


def test_the_way_they_failed_makes_no_difference(store: Store, clock: ManualClock) -> None:
    for category in ("auth", "quota", "transient", "unknown"):
        add(store, make_job(category))
        settle(store, claim_one(store), DEAD, make_failure(category))
    add(store, make_job("never", state=State.DEAD, reason=Reason.CAPTURED, finished=START))
    clock.advance(50)
    assert len(store.purge([PurgeRule(state=State.DEAD, older_than=10)])) == 5
    assert found(store) == []


def test_no_rules_remove_nothing(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.COMPLETED, "a")
    clock.advance(1e9)
    assert store.purge([]) == []
    assert get(store, "a").state is State.COMPLETED


def test_never_more_than_the_limit_over_all_rules(store: Store, clock: ManualClock) -> None:
    for n in range(4):
        bring_to(store, State.COMPLETED, f"c{n}")
        bring_to(store, State.DEAD, f"d{n}")
    clock.advance(50)
    rules = [PurgeRule(state=state, older_than=10) for state in (State.COMPLETED, State.DEAD)]
    sizes = [len(store.purge(rules, limit=3)) for _ in range(4)]
    assert sizes == [3, 3, 2, 0]
    assert found(store) == []


def test_a_purged_job_leaves_nothing_behind(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.DEAD, "a", tags=("t",), key="k")
    bring_to(store, State.DEAD, "b")
    clock.advance(50)
    store.purge([PurgeRule(state=State.DEAD, older_than=10)], limit=1)
    assert count(store, State.DEAD) == 1
    assert [group.jobs for group in store.groups(Query())] == [1]
    store.purge([PurgeRule(state=State.DEAD, older_than=10)])
    assert store.counts() == []
    assert store.groups(Query()) == []
    (again,) = store.add([make_job("a", key="k", payload='{"y":1}')])
    assert again.is_new
    assert get(store, "a").history == ()
    assert store.verify().ok


def test_named_jobs_go_whatever_their_age_and_no_others(store: Store) -> None:
    for state in State:
        bring_to(store, state, f"{state}-a")
        bring_to(store, state, f"{state}-b")
    ids = frozenset({*(f"{state}-a" for state in State), "nobody"})
    rules = [PurgeRule(state=state, older_than=-inf, ids=ids) for state in State]
    assert sorted(store.purge(rules)) == [("mail", state) for state in sorted(FINISHED)]
    gone = {f"{state}-a" for state in FINISHED}
    assert {job.id for job in store.find(Query()).jobs} == {
        f"{state}-{which}" for state in State for which in "ab"
    } - gone
    assert store.verify().ok


def test_named_jobs_obey_the_rest_of_the_rule(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.DEAD, "a")
    ids = frozenset({"a"})
    assert store.purge([PurgeRule(state=State.DEAD, older_than=1, ids=ids)]) == []
    clock.advance(2)
    other = PurgeRule(state=State.DEAD, older_than=1, ids=ids, handlers=frozenset({"x"}))
    but = PurgeRule(state=State.DEAD, older_than=1, ids=ids, but=frozenset({"mail"}))
    assert store.purge([other, but]) == []
    assert store.purge([PurgeRule(state=State.DEAD, older_than=1, ids=ids)]) != []


def test_jobs_that_were_dead_letters_can_be_kept_apart(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.COMPLETED, "simple")
    bring_to(store, State.DEAD, "recovered")
    move(store, "retry", "recovered")
    settle(store, claim_one(store))
    clock.advance(10)
    rule = PurgeRule(state=State.COMPLETED, older_than=5, was_dead=False)
    assert store.purge([rule]) == [("mail", State.COMPLETED)]
    assert store.purge([rule]) == []
    assert get(store, "recovered").state is State.COMPLETED
    rule = PurgeRule(state=State.COMPLETED, older_than=5, was_dead=True)
    assert store.purge([rule]) == [("mail", State.COMPLETED)]


@pytest.mark.parametrize("was_dead", [True, False])
def test_a_job_that_is_named_goes_only_by_a_rule_for_it(
    store: Store, clock: ManualClock, *, was_dead: bool
) -> None:
    bring_to(store, State.COMPLETED, "a")
    clock.advance(10)
    ids = frozenset({"a"})
    rule = PurgeRule(state=State.COMPLETED, older_than=5, was_dead=was_dead, ids=ids)
    assert len(store.purge([rule])) == (not was_dead)
