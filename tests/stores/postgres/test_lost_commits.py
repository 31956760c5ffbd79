"""The connection breaks while COMMIT is on its way: no verb guesses what became of it (F27, T5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from kit import make_action, make_attempt, make_failure, make_job
from redrive.errors import KeyConflict, Refused, StoreLost
from redrive.jobs.job import Completed, Reason, Retry, Return, Settlement, State
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import DEAD, add, add_one, claim, claim_one, get, history, move, settle
from stores.postgres.proxy import Cut, Proxy, proxied

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""The whole message: READ COMMITTED is said at the beginning of each transaction."""

cuts = pytest.mark.parametrize("cut", Cut)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied() as proxy:
        yield proxy


@pytest.fixture
def store(proxy: Proxy, schema: str, opener: Callable[..., PostgresStore]) -> PostgresStore:
    """A store whose connections can be cut."""
    return opener(proxy.url(schema))


@cuts
def test_a_submit_is_repeated_and_makes_one_job(
    store: PostgresStore, proxy: Proxy, cut: Cut
) -> None:
    proxy.arm(b"store_jobs", cut)
    (one,) = store.add([make_job("a", key="k")])
    assert (one.id, one.is_new, proxy.cuts) == ("a", True, 1)
    proxy.arm(b"store_jobs", cut)
    store.add([make_job(f"b{n}") for n in range(5)])
    proxy.arm(COMMIT, cut)
    whole = [make_job(f"c{n}", key=f"k{n}", attempts=1) for n in range(5)]
    stored = store.add([make_job("x", key="k"), *whole])
    assert [job.id for job in stored] == ["a", *(job.id for job in whole)]
    assert proxy.cuts == 3
    assert sum(row.jobs for row in store.counts()) == 11
    with pytest.raises(KeyConflict):
        store.add([make_job("d", key="k", payload='{"x":1}')])


@cuts
def test_a_claim_is_held_or_made_again_never_both(
    store: PostgresStore, proxy: Proxy, cut: Cut
) -> None:
    add(store, *(make_job(f"j{n}") for n in range(5)))
    proxy.arm(b"lease_jobs", cut)
    taken = claim(store, limit=3)
    assert (len(taken), proxy.cuts) == (3, 1)
    assert [each.job.lease for each in taken] == [1, 1, 1]
    assert len(claim(store, limit=10, holder="w2")) == 2, "no job was left leased to nobody"
    assert store.renew(taken, lease_for=60) == [True] * 3
    assert all(settle(store, each) is not None for each in taken)


@cuts
def test_a_seizure_is_held_or_made_again(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    add_one(store, "a")
    late = claim_one(store, holder="gone")
    proxy.arm(COMMIT, cut)
    (mine,) = store.seize(by="s", lease_for=60, holder="gone")
    assert (mine.job.lease, mine.lost_by, proxy.cuts) == (2, "gone", 1)
    assert settle(store, late) is None
    assert settle(store, mine) is not None


def _learn_group(store: PostgresStore) -> None:
    """Let the store know the group of `make_failure()`, so that one statement ends a claim."""
    add_one(store, "known", lane="other")
    settle(store, claim_one(store), DEAD, make_failure())


@cuts
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("verdict", [DEAD, Retry(0.0), Return()])
def test_a_settlement_counts_once(
    store: PostgresStore, proxy: Proxy, cut: Cut, verdict: Return | Retry, known: bool
) -> None:
    """Where its group is not known, a transaction ends the claim."""
    if known:
        _learn_group(store)
    add(store, make_job("a"), make_job("b"))
    taken = claim(store)
    failure = None if isinstance(verdict, Return) else make_failure()
    results = [
        Settlement(each, verdict, make_attempt(each.job, failure) if failure else None)
        for each in taken
    ]
    proxy.arm(COMMIT if failure and not known else b"settle_jobs", cut)
    answers = store.settle(results)
    assert proxy.cuts == 1
    assert all(answer is not None and answer.holder is None for answer in answers)
    for name, answer in zip(("a", "b"), answers, strict=True):
        job = get(store, name)
        assert answer is not None
        assert answer == replace(job, history=())
        assert len(history(store, name)) == (failure is not None)
        assert job.spent == ({"transient": 1} if failure else {})
    assert store.settle(results) == [None, None], "the fence is down"
    attempts = [count.attempts for count in store.lane_curve(60, 1).get("mail", [])]
    assert attempts == ([2] if failure else [])


def test_a_settlement_that_came_too_late_anyway_is_refused(
    store: PostgresStore, proxy: Proxy
) -> None:
    add_one(store, "a")
    late = claim_one(store, holder="gone")
    store.seize(by="s", lease_for=60, holder="gone")
    proxy.arm(b"settle_jobs", Cut.AFTER)
    assert settle(store, late) is None
    assert proxy.cuts == 1


@cuts
def test_a_good_end_counts_once(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    add(store, *(make_job(f"j{n}") for n in range(3)))
    lost, *taken = claim(store)
    store.seize(by="s", lease_for=60, holder=lost.job.holder or "", limit=1)
    results = [
        Settlement(each, Completed(Reason.DONE), make_attempt(each.job)) for each in (lost, *taken)
    ]
    proxy.arm(b"settle_jobs", cut)
    answers = store.settle(results)
    assert proxy.cuts == 1
    assert [answer and answer.state for answer in answers] == [None, *["completed"] * 2]
    assert [len(history(store, each.job.id)) for each in taken] == [1, 1]
    assert store.settle(results) == [None] * 3, "the fence is down"


@cuts
def test_a_settled_job_that_went_on_already_is_still_found_to_be_settled(
    store: PostgresStore, opener: Callable[..., PostgresStore], proxy: Proxy, cut: Cut
) -> None:
    """Another worker took it between the lost commit and the look at what became of it."""
    direct = opener()
    _learn_group(store)
    add_one(store, "a")
    (taken,) = claim(store)
    recalled = store._database._recalled

    def later(*args: object) -> object:
        claim(direct, holder="w2")
        return recalled(*args)  # type: ignore[arg-type]

    store._database._recalled = later  # type: ignore[method-assign,assignment]
    proxy.arm(b"settle_jobs", cut)
    assert settle(store, taken, Retry(0.0), make_failure()) is not None
    assert len(history(direct, "a")) == 1


@cuts
def test_a_deed_is_done_and_recorded_once(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    for name in ("a", "b"):
        add_one(store, name)
        settle(store, claim_one(store, only=[name]), DEAD, make_failure())
    proxy.arm(COMMIT, cut)
    moved = move(store, "retry", "a", "b")
    assert ([job.id for job in moved.done], proxy.cuts) == (["a", "b"], 1)
    assert [get(store, name).redrives for name in ("a", "b")] == [1, 1]
    assert store.actions() == [moved.action]


@cuts
def test_an_edit_is_made_once(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    add_one(store, "a")
    proxy.arm(COMMIT, cut)
    job = store.amend("a", '{"x":1}', make_action("edit"), expected=0)
    assert (job.edits, job.payload, proxy.cuts) == (1, '{"x":1}', 1)
    assert len(store.actions()) == 1
    with pytest.raises(Refused):
        store.amend("a", '{"x":2}', make_action("edit"), expected=0)


@cuts
def test_a_note_is_written_under_its_condition(
    store: PostgresStore, proxy: Proxy, cut: Cut
) -> None:
    proxy.arm(COMMIT, cut)
    first = store.note("turn", "w1", expected=0)
    assert first is not None
    proxy.arm(COMMIT, cut)
    second = store.note("turn", "w2", expected=first.version)
    assert second is not None
    proxy.arm(COMMIT, cut)
    assert store.note("turn", "w3", expected=first.version) is None
    assert [(note.value, note.version) for note in store.notes()] == [("w2", second.version)]
    proxy.arm(COMMIT, cut)
    removed = store.note("turn", None, expected=second.version)
    assert removed is not None
    assert (store.notes(), proxy.cuts) == ([], 4)


def test_when_nobody_can_be_asked_it_is_said_that_the_outcome_is_not_known(
    proxy: Proxy, schema: str, opener: Callable[..., PostgresStore]
) -> None:
    store = opener(proxy.url(schema), patience=0.5)
    add_one(store, "a")
    proxy.arm(b"lease_jobs", Cut.AFTER)
    proxy.refuse()
    with pytest.raises(StoreLost, match="not known"):
        claim(store)
    proxy.refuse(down=False)
    assert get(store, "a").state is State.RUNNING


def test_a_statement_that_breaks_before_the_commit_is_repeated(
    store: PostgresStore, proxy: Proxy
) -> None:
    add_one(store, "a")
    for word, verb in (
        (b"BEGIN", "discard"),
        (b"jobs_to_change", "retry"),
        (b"change_jobs", "discard"),
    ):
        proxy.arm(word, Cut.AFTER)
        assert move(store, verb, "a").done
    assert proxy.cuts == len(store.actions()) == 3
    assert get(store, "a").state is State.RESOLVED


@cuts
def test_counts_that_waited_are_folded_once(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    for name in ("a", "b"):
        add_one(store, name)
        settle(store, claim_one(store))
    proxy.arm(COMMIT, cut)
    assert store.fold()
    assert proxy.cuts == 1
    assert [one.successes for one in store.lane_curve(60, 1)["mail"]] == [2]


@cuts
def test_a_group_is_changed_once(store: PostgresStore, proxy: Proxy, cut: Cut) -> None:
    add_one(store, "a")
    job = settle(store, claim_one(store), DEAD, make_failure())
    assert job is not None
    assert job.group is not None
    proxy.arm(COMMIT, cut)
    record = store.change_group(job.group, {"owner": "me"}, make_action("assign"), expected=0)
    assert record is not None
    assert (record.owner, record.version, proxy.cuts) == ("me", 1, 1)
    assert len(store.actions()) == 1
