"""counts: the oldest of each kind stays right while the oldest ones leave."""

from __future__ import annotations

from kit import START, make_action, make_failure
from redrive.jobs.job import Retry, State
from redrive.stores.contract import PurgeRule, Store
from redrive.testing import ManualClock
from stores.contract.verbs import add_one, bring_to, captured, claim_one, move, settle, table


def test_the_oldest_end_is_looked_for_when_it_has_gone(store: Store, clock: ManualClock) -> None:
    for job_id in "abc":
        bring_to(store, State.DEAD, job_id)
        clock.advance(10)
    key = ("dead", "mail", "transient")
    assert table(store)[key].oldest == START
    move(store, "retry", "a")
    assert table(store)[key][3:] == (2, START + 10)
    clock.advance(5)
    store.purge([PurgeRule(state=State.DEAD, older_than=16)])
    assert table(store)[key][3:] == (1, START + 20)
    move(store, "resolve", "c")
    assert key not in table(store)
    bring_to(store, State.DEAD, "d")
    assert table(store)[key][3:] == (1, START + 35)


def test_a_dead_letter_is_as_old_as_its_death_whatever_changed_it_since(
    store: Store, clock: ManualClock
) -> None:
    for job_id in "abc":
        bring_to(store, State.DEAD, job_id)
        clock.advance(10)
    key = ("dead", "mail", "transient")
    store.amend("a", '{"n":1}', make_action("edit"), expected=0)
    assert table(store)[key][3:] == (3, START)
    move(store, "resolve", "a", "b")
    clock.advance(10)
    move(store, "reopen", "b")
    assert table(store)[key][3:] == (2, START + 10)
    move(store, "reopen", "a")
    assert table(store)[key][3:] == (3, START)
    move(store, "retry", "a", "b")
    assert table(store)[key][3:] == (1, START + 20)


def test_a_death_after_the_last_change_counts_from_the_change(store: Store) -> None:
    store.add([captured("a", START, died_at=START + 99.5), captured("b", START - 5, died_at=None)])
    assert table(store)["dead", "mail", "transient"][3:] == (2, START - 5)
    store.add([captured("c", START, died_at=START - 1e3)])
    assert table(store)["dead", "mail", "transient"][3:] == (3, START - 1e3)


def test_the_earliest_due_is_known_for_each_category(store: Store, clock: ManualClock) -> None:
    for job_id, delay, category in (("a", 50, "quota"), ("b", 20, "quota"), ("c", 30, "auth")):
        add_one(store, job_id)
        settle(store, claim_one(store, only=[job_id]), Retry(delay), make_failure(category))
    add_one(store, "d", due=START + 5)
    oldest = {key[2]: row.oldest for key, row in table(store).items()}
    assert oldest == {"quota": START + 20, "auth": START + 30, None: START + 5}
    clock.advance(20)
    claim_one(store, only=["b"])
    pending = {key[2]: row.oldest for key, row in table(store).items() if key[0] == "pending"}
    assert pending == {"quota": START + 50, "auth": START + 30, None: START + 5}
