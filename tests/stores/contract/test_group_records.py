"""Group records: what is known of a group beside its jobs, and what people say of it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit import START, make_action, make_attempt, make_failure
from redrive.errors import JobNotFound, KeyConflict, UsageError
from redrive.jobs.groups import GroupRecord
from redrive.jobs.job import State
from redrive.stores.contract import PurgeRule, Query, Store
from redrive.testing import ManualClock
from stores.contract.kinds import Place
from stores.contract.verbs import DEAD, add_one, captured, claim_one, fail, kill, move, settle

DAY = 86400.0


def record(store: Store, number: int | None = None) -> GroupRecord:
    """The record of a group, or of the only one."""
    if number is None:
        (found,) = store.group_records().values()
    else:
        found = store.group_records([number])[number]
    return found


def resolve(store: Store, number: int, at: float) -> GroupRecord:
    action = make_action("resolve", target=f"G{number}")
    changes = {"resolved": at, "resolved_by": "ada"}
    version = record(store, number).version
    changed = store.change_group(number, changes, action, expected=version)
    assert changed is not None
    return changed


def test_an_empty_store_has_no_records(store: Store) -> None:
    assert store.group_records() == {}
    assert store.group_records([1, 2]) == {}


def test_a_failure_makes_a_group_that_nobody_died_of(store: Store, clock: ManualClock) -> None:
    add_one(store, "a", release="r1")
    clock.advance(2)
    number = fail(store, claim_one(store)).group
    assert number is not None
    assert record(store) == GroupRecord(
        number=number,
        fingerprint="print-transient",
        title="SomeError: transient",
        first_seen=START + 2,
        first_release="r1",
    )


def test_only_a_failure_that_is_stored_makes_a_group(store: Store, clock: ManualClock) -> None:
    """Not a repeat of an id or a key, nor a key of other work, nor a claim that was lost."""
    now = clock.now()
    new = make_failure("quota")
    add_one(store, "a", key="k")
    store.add([captured("a", now, failure=new), captured("b", now, key="k", failure=new)])
    with pytest.raises(KeyConflict):
        store.add([captured("c", now, key="k", handler="other", failure=new)])
    late = claim_one(store)
    store.seize(by="sweep", lease_for=60, holder=late.job.holder)
    assert settle(store, late, DEAD, new) is None
    assert store.group_records() == {}


def test_deaths_are_counted_and_dated(store: Store, clock: ManualClock) -> None:
    number = kill(store, "a", release="r1").group
    clock.advance(60)
    kill(store, "b", release="r2")
    clock.advance(60)
    kill(store, "c")
    assert record(store) == GroupRecord(
        number=number or 0,
        fingerprint="print-transient",
        title="SomeError: transient",
        first_seen=START,
        last_seen=START + 120,
        deaths=3,
        first_release="r1",
        last_release="r2",
        since=START,
    )


def test_an_added_group_has_the_release_of_the_attempt(store: Store, clock: ManualClock) -> None:
    """Not the one that submitted the job: that may have been a healthy one."""
    job = captured("a", clock.now(), release="1.0")
    attempt = make_attempt(job, job.failure, release="1.1")
    store.add([replace(job, history=(attempt,), attempts=1)])
    assert record(store).first_release == "1.1"


def test_a_job_that_has_just_died_counts_and_an_imported_one_does_not(store: Store) -> None:
    store.add([captured("a", START), captured("b", START - DAY)])
    store.add([captured("c", START, origin={"from": "elsewhere"})])
    assert (record(store).deaths, record(store).last_seen) == (1, START)


def test_a_repeated_add_counts_once(store: Store) -> None:
    for _ in range(2):
        store.add([captured("a", START)])
    assert record(store).deaths == 1


def test_folding_changes_no_answer(store: Store, clock: ManualClock) -> None:
    for n in range(3):
        kill(store, f"a{n}")
        kill(store, f"b{n}", make_failure("quota"))
        clock.advance(61)
        before = store.group_records()
        assert store.fold() is True
        assert store.group_records() == before
    assert [one.deaths for one in store.group_records().values()] == [3, 3]


def test_only_the_records_asked_for_are_given(store: Store) -> None:
    one = kill(store, "a").group
    other = kill(store, "b", make_failure("quota")).group
    assert one is not None
    assert other is not None
    assert set(store.group_records([other, 99])) == {other}
    assert set(store.group_records([])) == set()
    assert {group.number: group.record for group in store.groups(Query())} == store.group_records()


def test_the_record_stays_when_its_jobs_are_retried_and_purged(
    store: Store, clock: ManualClock
) -> None:
    number = kill(store, "a").group
    kill(store, "b")
    move(store, "retry", "a")
    clock.advance(10)
    store.purge([PurgeRule(state=State.DEAD, older_than=5)])
    assert store.get("b") is None
    assert record(store).deaths == 2
    assert kill(store, "c").group == number
    assert kill(store, "d", make_failure("quota")).group != number


def test_an_incident_begins_anew_after_a_day_without_deaths(
    store: Store, clock: ManualClock
) -> None:
    kill(store, "a")
    clock.advance(DAY)
    kill(store, "b")
    assert record(store).since == START
    store.fold()
    clock.advance(DAY + 1)
    kill(store, "c")
    assert record(store).since == START + 2 * DAY + 1


def test_a_resolved_group_that_kills_again_has_regressed(store: Store, clock: ManualClock) -> None:
    number = kill(store, "a").group or 0
    assert record(store).status == "open"
    clock.advance(10)
    changed = resolve(store, number, clock.now())
    assert (changed.status, changed.version, changed.resolved_by) == ("resolved", 1, "ada")
    kill(store, "b")
    assert record(store).status == "resolved", "that very moment is not after it"
    for seconds in (10, 10):
        clock.advance(seconds)
        kill(store, f"c{clock.now()}")
        found = record(store)
        assert (found.status, found.regressed, found.since) == ("regressed", START + 20, START + 20)
        store.fold()
    clock.advance(10)
    assert resolve(store, number, clock.now()).status == "resolved"
    clock.advance(10)
    kill(store, "d")
    assert (record(store).status, record(store).regressed) == ("regressed", clock.now())


def test_what_people_say_and_what_deaths_say_do_not_overwrite_each_other(store: Store) -> None:
    number = kill(store, "a").group or 0
    assert store.change_group(number, {"owner": "bo"}, make_action("own"), expected=0) is not None
    kill(store, "b")
    assert store.change_group(number, {"note": "n"}, make_action("note"), expected=1) is not None
    store.fold()
    kill(store, "c")
    found = record(store)
    assert (found.owner, found.note, found.version, found.deaths) == ("bo", "n", 2, 3)


def test_a_change_to_an_older_version_changes_nothing(store: Store) -> None:
    number = kill(store, "a").group or 0
    action = make_action("own", target="G1")
    assert store.change_group(number, {"owner": "bo"}, action, expected=0) is not None
    actions = store.actions()
    assert [one.verb for one in actions] == ["own"]
    assert actions[0].number > 0
    assert store.change_group(number, {"owner": "cy"}, action, expected=0) is None
    assert (record(store).owner, store.actions()) == ("bo", actions)


def test_unknown_groups_and_fields_are_refused(store: Store) -> None:
    number = kill(store, "a").group or 0
    with pytest.raises(JobNotFound):
        store.change_group(number + 1, {"owner": "bo"}, make_action("own"), expected=0)
    for changes in ({"deaths": 0}, {"number": 9}, {"owner": 7}, {"what": ""}):
        with pytest.raises(UsageError):
            store.change_group(number, changes, make_action("own"), expected=0)
    assert (record(store).version, store.actions()) == (0, [])


def test_of_several_who_change_one_version_one_does(store: Store) -> None:
    number = kill(store, "a").group or 0

    def change(n: int) -> bool:
        changes = {"owner": f"o{n}"}
        return store.change_group(number, changes, make_action("own"), expected=0) is not None

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(change, range(8))) == 1
    assert (record(store).version, len(store.actions())) == (1, 1)


@pytest.mark.needs("persistent")
def test_records_survive_reopening(place: Place) -> None:
    store = place.open()
    number = kill(store, "a", release="r1").group or 0
    store.fold()
    kill(store, "b")
    resolve(store, number, START)
    before = store.group_records()
    assert place.reopen().group_records() == before


@pytest.mark.needs("shared")
def test_deaths_are_seen_by_other_processes_at_once(place: Place) -> None:
    """Also when the process that counted them is killed: nothing is closed here."""
    one, other = place.open(), place.open()
    for n in range(5):
        kill(one, f"a{n}")
        assert record(other).deaths == n + 1
    other.fold()
    assert record(one).deaths == record(other).deaths == 5


def test_a_failure_that_is_not_stored_makes_no_group(store: Store) -> None:
    add_one(store, "a")
    late = claim_one(store, holder="gone")
    store.seize(by="s", lease_for=60, holder="gone")
    assert settle(store, late, DEAD, make_failure()) is None
    assert store.group_records() == {}
