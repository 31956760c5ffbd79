"""add: jobs are kept whole, ids and keys are idempotent, a conflict stores nothing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from kit import START, make_action, make_attempt, make_failure, make_job
from redrive.errors import KeyConflict, UsageError
from redrive.jobs.job import Job, Reason, Resolution, State
from redrive.stores.contract import PurgeRule, Query, Store
from redrive.testing import ManualClock
from stores.contract.verbs import (
    add,
    add_one,
    bare,
    bring_to,
    claim_one,
    count,
    everything,
    fail,
    found,
    get,
    history,
)
from tablekit import each_row


def whole_job() -> Job:
    """A job with every field set to something of its own, as an import brings it."""
    failure = make_failure(
        "quota", code="insufficient_quota", status=429, hint=1.5, hint_source="Retry-After"
    )
    first = make_attempt(
        make_job(), replace(failure, traceback="Traceback …"), ordinal=3, number=1, life=1
    )
    second = replace(first, ordinal=7, number=2, provider="claude", started=START - 5)
    return make_job(
        "whole",
        handler="articles",
        lane="ai",
        payload='{"a":10.10,"b":[1,2]}',
        key="order-7",
        state=State.DEAD,
        reason=Reason.EXHAUSTED,
        detail="used up",
        attempts=2,
        spent={"quota": 1, "transient": 1},
        crashes=1,
        redrives=1,
        own_max_attempts=4,
        max_attempts=4,
        created=START - 100,
        due=START - 50,
        since=START - 60,
        updated=START - 4,
        finished=START - 4,
        first_failed=START - 90,
        failure=failure,
        lease=9,
        tags=("red", "b c"),
        release="v1.2",
        run=3,
        edits=1,
        original='{"a":10.1}',
        folded=2,
        origin={"format": "hooks", "id": 7, "extra": {"x": [None, True, "é"]}},
        history=(first, second),
    )


def test_a_new_job_is_pending_and_comes_back_as_it_was_given(store: Store) -> None:
    job = make_job("a", payload='{"x":1}', tags=("t",), due=START + 5)
    (stored,) = store.add([job])
    assert stored == job
    assert stored.is_new
    assert get(store, "a") == job


def test_many_jobs_come_back_in_the_order_given(store: Store) -> None:
    jobs = [make_job(f"j{n:03d}", created=START + n) for n in range(150)]
    jobs = jobs[75:] + jobs[:75]
    assert [job.id for job in store.add(jobs)] == [job.id for job in jobs]
    assert count(store, State.PENDING) == 150


def test_no_jobs_is_no_work(store: Store) -> None:
    assert store.add([]) == []


def test_a_whole_job_is_kept_with_state_counters_and_history(store: Store) -> None:
    job = whole_job()
    (stored,) = store.add([job])
    assert bare(stored) == replace(bare(job), group=stored.group)
    assert get(store, "whole") == replace(job, group=stored.group)
    assert [attempt.ordinal for attempt in history(store, "whole")] == [3, 7]
    assert history(store, "whole")[0].failure == job.history[0].failure


def test_a_resolved_job_is_kept_with_its_resolution(store: Store) -> None:
    closed = Resolution(actor="bob", reason="fixed", at=START - 1, was=Reason.CRASH)
    job = make_job(
        "r", state=State.RESOLVED, reason=Reason.RESOLVED, resolution=closed, finished=START - 1
    )
    add(store, job)
    assert get(store, "r") == job


def test_a_job_with_a_failure_joins_the_group_of_its_fingerprint(store: Store) -> None:
    """The number in the record may come from another store; only the fingerprint counts."""
    dead = {"state": State.DEAD, "reason": Reason.CAPTURED, "finished": START}
    one, two, other = store.add(
        [
            make_job("1", failure=make_failure(cause="net"), group=99, **dead),
            make_job("2", failure=make_failure(cause="net"), **dead),
            make_job("3", failure=make_failure(cause="disk"), group=99, **dead),
        ]
    )
    assert one.group is not None
    assert one.group == two.group == get(store, "2").group
    assert other.group not in {None, one.group}
    names = {group.number: group.fingerprint for group in store.groups(Query())}
    assert names == {one.group: "print-net", other.group: "print-disk"}


def test_the_lease_number_is_raised_to_the_last_ordinal_of_the_history(store: Store) -> None:
    """Or the next attempt would carry a number that is taken."""
    attempt = make_attempt(make_job(), make_failure(), ordinal=5)
    add(store, make_job("low", lease=0, history=(attempt,)))
    add(store, make_job("high", lease=8, history=(attempt,)))
    assert get(store, "low").lease == 5
    assert get(store, "high").lease == 8
    assert claim_one(store, only=["low"]).job.lease == 6


def test_a_long_history_comes_whole_and_is_folded_by_the_next_attempt(store: Store) -> None:
    rows = tuple(make_attempt(make_job(), make_failure(), ordinal=n) for n in range(1, 31))
    add(store, make_job("a", history=rows, folded=3))
    assert (get(store, "a").history, get(store, "a").folded) == (rows, 3)
    fail(store, claim_one(store))
    job = get(store, "a")
    kept = [attempt.ordinal for attempt in job.history]
    assert (kept, job.folded) == ([1, 2, 3, 4, 5, *range(12, 32)], 9)


def test_adding_an_id_again_changes_nothing_and_gives_what_is_stored(store: Store) -> None:
    job = make_job("a", payload='{"x":1}')
    add(store, job)
    fail(store, claim_one(store), delay=50)
    before = everything(store)
    (again,) = store.add([replace(job, payload='{"x":2}', tags=("other",))])
    assert bare(again) == bare(get(store, "a"))
    assert again.attempts == 1
    assert everything(store) == before


def test_an_id_twice_in_one_call_is_one_job(store: Store) -> None:
    first, second = store.add([make_job("a", payload='{"x":1}'), make_job("a")])
    assert bare(first) == bare(second)
    assert count(store, State.PENDING) == 1


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ('{"a":1,"b":2}', '{"a":1,"b":2}'),
        ('{"a":1,"b":2}', '{"b":2,"a":1}'),
        ('{"a":10.10}', '{"a":10.1}'),
        ('{"a":"\\u00e9"}', '{"a":"é"}'),
    ],
)
def test_the_same_key_and_an_equal_payload_is_the_same_job(
    store: Store, first: str, again: str
) -> None:
    """Equal as JSON, not letter for letter."""
    add_one(store, "a", key="k", payload=first)
    (found_,) = store.add([make_job("b", key="k", payload=again)])
    assert (found_.id, found_.is_new, found_.payload) == ("a", False, first)
    assert store.get("b") is None
    assert get(store, "a").is_new


@pytest.mark.parametrize("state", State)
def test_a_key_stands_for_its_job_in_every_state(store: Store, state: State) -> None:
    bring_to(store, state, "a", key="k", payload='{"x":1}')
    (same,) = store.add([make_job("b", key="k", payload='{"x":1}')])
    assert (same.id, same.state, same.is_new) == ("a", state, False)
    with pytest.raises(KeyConflict, match="k"):
        store.add([make_job("c", key="k", payload='{"x":2}')])


@each_row("other", ['{"x":2}', '{"x":"1"}', '{"x":1,"y":null}', "{}", '{"x":[1]}'])
def test_the_same_key_and_another_payload_is_a_conflict_and_nothing_is_stored(
    store: Store, other: str
) -> None:
    add_one(store, "a", key="k", payload='{"x":1}')
    before = everything(store)
    with pytest.raises(KeyConflict):
        store.add(
            [make_job("new1", key="n"), make_job("b", key="k", payload=other), make_job("new2")]
        )
    assert everything(store) == before
    add(store, make_job("new1", key="n"))


def test_the_same_key_for_another_handler_is_a_conflict_and_no_work_is_dropped(
    store: Store,
) -> None:
    add_one(store, "a", key="k", handler="mail", payload='{"x":1}')
    said = r"job a of 'mail'.*'bill'.*share their keys.*'bill:k'"
    with pytest.raises(KeyConflict, match=said):
        store.add([make_job("b", key="k", handler="bill", payload='{"x":1}')])
    with pytest.raises(KeyConflict, match="job c of 'mail'"):
        store.add(
            [make_job("c", key="q", handler="mail"), make_job("d", key="q", handler="bill")],
        )
    assert found(store) == ["a"]


def test_a_key_counts_within_one_call_too(store: Store) -> None:
    one, two = store.add([make_job("a", key="k"), make_job("b", key="k")])
    assert (one.id, one.is_new, two.id, two.is_new) == ("a", True, "a", False)
    with pytest.raises(KeyConflict):
        store.add([make_job("c", key="q"), make_job("d", key="q", payload='{"x":1}')])
    assert found(store) == ["a"]


def test_after_an_edit_the_key_still_stands_for_what_was_submitted(store: Store) -> None:
    """The caller repeats what it sent; it knows nothing of the edit."""
    add_one(store, "a", key="k", payload='{"x":1}')
    store.amend("a", '{"x":2}', make_action("edit"), expected=0)
    (same,) = store.add([make_job("b", key="k", payload='{"x":1}')])
    assert (same.id, same.is_new, same.payload) == ("a", False, '{"x":2}')


def test_repeating_a_call_with_keys_stores_nothing_twice(store: Store) -> None:
    """A caller who does not know whether the first call went through may repeat it."""
    jobs = [make_job("a", key="k"), make_job("b", key="l"), make_job("c")]
    first = store.add(jobs)
    assert [bare(job) for job in store.add(jobs)] == [bare(job) for job in first]
    assert count(store, State.PENDING) == 3


def test_jobs_without_a_key_are_never_the_same(store: Store) -> None:
    assert all(job.is_new for job in store.add([make_job(), make_job(), make_job()]))


@pytest.mark.parametrize("key", ["a", "A", "order:7/x", "'; DROP TABLE jobs; --", "%_*", "x" * 255])
def test_keys_are_compared_letter_for_letter(store: Store, key: str) -> None:
    add_one(store, "1", key=key)
    assert add_one(store, "2", key=key).id == "1"
    assert add_one(store, "3", key=key[:-1] + "~", payload='{"x":1}').is_new


def test_a_purged_job_frees_its_key(store: Store, clock: ManualClock) -> None:
    bring_to(store, State.COMPLETED, "a", key="k", payload='{"x":1}')
    clock.advance(100)
    store.purge([PurgeRule(state=State.COMPLETED, older_than=50)])
    assert add_one(store, "b", key="k", payload='{"x":2}').is_new


@pytest.mark.needs("not tx")
def test_a_store_that_cannot_join_a_transaction_says_so(store: Store) -> None:
    with pytest.raises(UsageError, match="within"):
        store.add([make_job("a")], within=object())
    assert store.get("a") is None


def test_eight_threads_with_one_key_make_one_job(store: Store) -> None:
    """Also from many at once."""
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda n: add_one(store, f"j{n}", key="k"), range(32)))
    assert len({job.id for job in jobs}) == 1
    assert sum(job.is_new for job in jobs) == 1
    assert count(store, State.PENDING) == 1


def test_one_callers_conflict_is_no_others(store: Store) -> None:
    """Calls at the same moment may share a write, never a fate."""
    add_one(store, "first", key="k", payload='{"x":1}')

    def call(n: int) -> bool:
        try:
            add(store, make_job(f"j{n}"), make_job(key="k" if n % 3 == 0 else None))
        except KeyConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(call, range(48)))
    assert taken == [n % 3 != 0 for n in range(48)]
    assert [store.get(f"j{n}") is not None for n in range(48)] == taken
    assert count(store, State.PENDING) == 1 + 2 * 32


def test_eight_threads_adding_lose_nothing(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add(store, make_job(f"x{n}"), make_job(f"y{n}")), range(40)))
    assert count(store, State.PENDING) == 80
    assert store.verify().ok
