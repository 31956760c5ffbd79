"""Many sessions at once: none gets more than it asked for, none what another has (F29, F31, T4)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_action, make_failure, make_job
from redrive.errors import Refused, StoreBusy
from redrive.jobs.job import Return, State
from redrive.jobs.transitions import action_changes, changed
from redrive.stores.contract import PurgeRule, Query
from redrive.stores.postgres import PostgresStore, actions, opening
from redrive.testing import ManualClock
from stores.contract.verbs import add, add_one, claim, get, move, settle

TESTS = Path(__file__).resolve().parents[2]
Opener = Callable[..., PostgresStore]


def test_sixteen_sessions_never_claim_more_than_asked_and_never_share(opener: Opener) -> None:
    """F31."""
    stores = [opener(clock=None) for _ in range(16)]
    for store in stores[:4]:
        add(store, *(make_job(lane=f"l{n % 3}", created=1.0 + n) for n in range(200)))
    start = threading.Barrier(16)

    def work(number: int) -> list[str]:
        start.wait()
        mine: list[str] = []
        while taken := claim(stores[number], limit=7, holder=f"w{number}"):
            assert len(taken) <= 7
            mine += [each.job.id for each in taken]
            if number % 2:
                assert all(settle(stores[number], each) is not None for each in taken)
        return mine

    with ThreadPoolExecutor(16) as threads:
        shares = list(threads.map(work, range(16)))
    everything = Counter(job_id for share in shares for job_id in share)
    assert set(everything.values()) == {1}
    rest = claim(stores[0], limit=1000)
    assert len(everything) + len(rest) == 800


def test_claims_look_past_what_others_hold(opener: Opener, other: psycopg.Connection[Any]) -> None:
    """However many rows a stranger has locked at the head of the queue."""
    store = opener()
    add(store, *(make_job(f"j{n:04d}", created=1.0 + n) for n in range(600)))
    schema = store._database.address.schema
    with other.transaction():
        other.execute(f'SELECT FROM "{schema}".open WHERE at < 591 FOR UPDATE')
        taken = claim(store, limit=5)
        assert [each.job.id for each in taken] == [f"j{n:04d}" for n in range(590, 595)]
        assert len(claim(store, limit=50, only=["j0001", "j0599"])) == 1


def test_releases_and_claims_in_a_circle_never_let_a_lease_number_go_back(opener: Opener) -> None:
    """A row that changed between the look and the lock is taken as it is, not as it was."""
    stores = [opener(clock=None) for _ in range(6)]
    add(stores[0], *(make_job(f"j{n}", created=1.0) for n in range(4)))
    leases: list[tuple[str, int]] = []

    def work(number: int) -> None:
        for _ in range(40):
            for each in claim(stores[number], limit=2, holder=f"w{number}"):
                leases.append((each.job.id, each.job.lease))
                assert settle(stores[number], each, Return()) is not None

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    assert len(leases) == len(set(leases)) > 40
    for n in range(4):
        assert get(stores[0], f"j{n}").lease == max(
            lease for name, lease in leases if name == f"j{n}"
        )


def test_an_edit_between_look_and_lock_is_not_missed(opener: Opener) -> None:
    """A claimed job carries the payload that goes with its number of edits."""
    store, people = opener(clock=None), opener(clock=None)
    add_one(store, "a", created=1.0, payload='{"edits":0}')

    def edit() -> None:
        for n in range(60):
            try:
                people.amend("a", f'{{"edits":{n + 1}}}', make_action("edit"), expected=n)
            except Refused:
                return

    thread = threading.Thread(target=edit)
    thread.start()
    while not (found := claim(store)):  # not now: the row is locked by who edits
        pass
    thread.join()
    (taken,) = found
    assert json.loads(taken.job.payload) == {"edits": taken.job.edits}


KEYS = """
import sys
sys.path += [sys.argv[1], sys.argv[1] + "/kits"]
from kit import make_job
from redrive.errors import KeyConflict
from redrive.stores.postgres import PostgresStore
store, me = PostgresStore(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
for key, payload in (("one", "{}"), ("two", '{"x":%d}' % (int(me) % 2))):
    try:
        (job,) = store.add([make_job(f"{key}-{me}", key=key, payload=payload)])
        print(job.id, job.is_new)
    except KeyConflict:
        print("conflict")
store.close()
"""


def test_eight_processes_with_one_key_make_one_job(opener: Opener, url: str) -> None:
    """M8: also from many hosts at once; another payload is a conflict for whoever came later."""
    store = opener()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", KEYS, str(TESTS), url, str(n)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in range(8)
    ]
    for process in running:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    answers = [process.communicate(timeout=60)[0].split("\n") for process in _started(running)]
    (same,), (other,) = (store.find(Query(key=key)).jobs for key in ("one", "two"))
    assert sum(row.jobs for row in store.counts()) == 2
    assert Counter(one for one, *_ in answers) == {f"{same.id} True": 1, f"{same.id} False": 7}
    assert Counter(two for _, two, *_ in answers) == {
        f"{other.id} True": 1,
        f"{other.id} False": 3,
        "conflict": 4,
    }


def _started(running: list[subprocess.Popen[str]]) -> list[subprocess.Popen[str]]:
    """Let all go at the same moment, before anybody's answer is waited for."""
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return running


def test_a_deadlock_is_repeated(store: PostgresStore, other: psycopg.Connection[Any]) -> None:
    """F29: ours is the victim, for the stranger is more patient."""
    add(store, make_job("a"), make_job("b"))
    schema = store._database.address.schema
    other.execute("SET deadlock_timeout = '30s'")
    lock = f'SELECT FROM "{schema}".open WHERE id = %s FOR UPDATE'
    with ThreadPoolExecutor(1) as threads, other.transaction():
        other.execute(lock, ("b",))
        moved = threads.submit(move, store, "discard", "a", "b")
        _until_waiting(other)
        other.execute(lock, ("a",))
    result = moved.result(20)
    assert [job.id for job in result.done] == ["a", "b"]
    assert len(store.actions()) == 1


def _until_waiting(other: psycopg.Connection[Any]) -> None:
    query = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type LIKE 'client%'"
    while other.execute(query).rowcount == 0:
        pass


def test_a_lock_that_is_never_given_back_is_an_error_in_the_end(
    opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """F29."""
    store = opener(patience=0.1)
    add_one(store, "a")
    schema = store._database.address.schema
    with other.transaction():
        other.execute(f'SELECT FROM "{schema}".open FOR UPDATE')
        with pytest.raises(StoreBusy, match="repeat"):
            move(store, "discard", "a")
        assert claim(store) == []
    assert get(store, "a").state is State.PENDING
    assert move(store, "discard", "a").done


def test_an_action_on_a_job_that_was_changed_meanwhile_begins_anew(
    opener: Opener, clock: ManualClock
) -> None:
    """Its lease and holder are the same again, but it was changed after it was read."""
    store = opener(patience=0.1)
    add_one(store, "a")
    move(store, "discard", "a")
    was = store._database.write(
        lambda tx: actions.job_from_row(tx.one("by_id", ("a",)) or ()), synced=True
    )
    clock.advance(1)
    move(store, "retry", "a")
    move(store, "discard", "a")
    stale = changed(was, action_changes(was, "retry", actor="me", reason="", now=clock.now()))

    def work(tx: Any) -> None:
        actions.write_changes(tx, [stale], "retry")

    with pytest.raises(StoreBusy):
        store._database.write(work, synced=True)
    assert get(store, "a").state is State.RESOLVED


def test_a_purge_leaves_what_somebody_works_on(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    add(store, make_job("a"), make_job("b"))
    for each in claim(store):
        settle(store, each)
    schema = store._database.address.schema
    rule = PurgeRule(state=State.COMPLETED, older_than=-1)
    with other.transaction():
        other.execute(f"SELECT FROM \"{schema}\".ended WHERE id = 'a' FOR UPDATE")
        assert len(store.purge([rule])) == 1
    assert store.get("a") is not None
    assert len(store.purge([rule])) == 1
    assert store.verify().ok


def test_failures_of_new_causes_in_any_order_share_their_groups(opener: Opener) -> None:
    """Two transactions that make the same groups may wait for each other in a circle."""
    stores = [opener(clock=None) for _ in range(4)]
    causes = [f"c{n}" for n in range(12)]

    def work(number: int) -> None:
        store = stores[number]
        order = causes if number % 2 else causes[::-1]
        store.add(
            [
                make_job(
                    f"{number}-{cause}",
                    state=State.DEAD,
                    finished=1.0,
                    failure=make_failure(cause=cause),
                )
                for cause in order
            ]
        )

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    groups = {cause: {get(stores[0], f"{n}-{cause}").group for n in range(4)} for cause in causes}
    assert all(len(numbers) == 1 for numbers in groups.values())
    assert len({number for numbers in groups.values() for number in numbers}) == len(causes)


@pytest.mark.parametrize("exists", [False, True])
def test_of_many_who_compare_and_set_a_note_one_wins(opener: Opener, exists: bool) -> None:
    stores = [opener(clock=None) for _ in range(8)]
    seed = stores[0].note("turn", "nobody") if exists else None
    version = seed.version if seed else 0
    with ThreadPoolExecutor(8) as threads:
        written = list(threads.map(lambda one: one.note("turn", "mine", expected=version), stores))
    assert sum(note is not None for note in written) == 1


def test_of_those_who_start_at_once_one_creates_the_schema(fresh: str) -> None:
    url, start = pgkit.url_of(fresh), threading.Barrier(6)

    def work(_: int) -> PostgresStore:
        start.wait()
        return PostgresStore(url)

    with ThreadPoolExecutor(6) as threads:
        stores = list(threads.map(work, range(6)))
    versions = stores[0]._database.read(lambda tx: tx.all("schema_version"))
    assert versions == [(stores[0]._database.queries.version,)]
    assert opening.durability_of(stores[0]._database) == "full"
    for store in stores:
        store.close()
