"""What the end of a claim on PostgreSQL promises beyond the contract (F11, F27, T4, T5)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

from kit import make_failure, make_job, make_settlement
from redrive.jobs.job import (
    Claim,
    Retry,
    State,
    Verdict,
)
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import (
    DEAD,
    DONE,
    add,
    add_one,
    claim,
    claim_one,
    get,
    history,
    kill,
    settle,
)

Opener = Callable[..., PostgresStore]


@pytest.fixture
def taken(store: PostgresStore) -> list[Claim]:
    """Six jobs of three claims."""
    add(store, *(make_job(f"j{n}") for n in range(6)))
    return [each for _ in range(3) for each in claim(store, limit=2)]


ENDS = [*["completed"] * 4, "pending", "dead"]


@pytest.mark.parametrize("verdict", [DONE, Retry(0.0), DEAD])
@pytest.mark.parametrize("change", ["since = since + 1", "holder = 'w2'", "lease = lease + 1"])
def test_each_part_of_the_fence_counts_alone(
    store: PostgresStore, other: psycopg.Connection[Any], change: str, verdict: Verdict
) -> None:
    """After a restored backup the row, its lease number and its holder may be the same again."""
    add_one(store, "a")
    late = claim_one(store)
    schema = store._database.address.schema
    other.execute(f'UPDATE "{schema}".open SET {change}'.encode())
    failure = None if verdict == DONE else make_failure()
    assert settle(store, late, verdict, failure) is None
    assert get(store, "a").state is State.RUNNING
    assert not history(store, "a")


def test_a_bad_end_is_timed_by_the_server(store: PostgresStore, taken: list[Claim]) -> None:
    before = store.now()
    (retried, dead) = store.settle(
        [
            make_settlement(taken[0], Retry(30.0), make_failure()),
            make_settlement(taken[1], DEAD, make_failure()),
        ]
    )
    assert retried is not None
    assert dead is not None
    assert before - 1 < retried.updated < before + 5
    assert retried.due == retried.updated + 30.0
    assert (retried.first_failed, retried.finished) == (retried.updated, None)
    assert (dead.finished, dead.due) == (dead.updated, taken[1].job.due)
    assert claim(store, limit=10) == [], "it waits"


def _at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Make calls at one moment, each in a thread; what they answer."""
    ready = threading.Barrier(len(calls))
    answers: list[Any] = []

    def make(call: Callable[[], Any]) -> None:
        ready.wait(10)
        answers.append(call())

    threads = [threading.Thread(target=make, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


def test_who_makes_causes_in_another_order_does_not_wait_in_a_circle(
    store: PostgresStore, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """Two batches of two claims each, whose new causes cross."""
    before, stores = _deadlocks(other), (store, opener())
    for round_ in range(15):
        add(store, *(make_job(f"r{round_}-{n}") for n in range(4)))
        one, two, three, four = (claim_one(store, limit=1, holder=f"w{n}") for n in range(4))
        a, b = make_failure(cause=f"a{round_}"), make_failure(cause=f"b{round_}")
        batches = (
            [make_settlement(one, DEAD, a), make_settlement(two, DEAD, b)],
            [make_settlement(three, DEAD, b), make_settlement(four, DEAD, a)],
        )
        _at_once(*(partial(each.settle, half) for each, half in zip(stores, batches, strict=True)))
    assert {count.state for count in store.counts()} == {State.DEAD}
    assert _deadlocks(other) == before


def _deadlocks(other: psycopg.Connection[Any]) -> int:
    time.sleep(1.1)  # sessions tell what they counted once a second
    row = other.execute(
        "SELECT deadlocks, pg_stat_clear_snapshot() FROM pg_stat_database"
        " WHERE datname = current_database()"
    ).fetchone()
    return int(row[0]) if row else 0


def test_a_job_that_has_the_number_of_one_that_is_gone_does_not_answer_for_it(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    """A restored backup gave the number of a claimed job to another."""
    add_one(store, "gone")
    gone = claim_one(store)
    schema = store._database.address.schema
    for table in ("jobs", "open"):
        other.execute(f'DELETE FROM "{schema}".{table}'.encode())
    other.execute(f'ALTER TABLE "{schema}".jobs ALTER n RESTART WITH 1'.encode())
    add_one(store, "new")
    new = claim_one(store, holder="w2")
    assert new.job.__dict__["_row"] == gone.job.__dict__["_row"]
    answers = store.settle([make_settlement(gone, DONE), make_settlement(new, DONE)])
    assert [answer and answer.id for answer in answers] == [None, "new"]


def test_after_a_server_came_back_without_a_group_its_number_is_not_used_for_it(
    store: PostgresStore, schema: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """A standby took over, or a backup was restored, while this program went on."""
    kill(store, "a", make_failure(fingerprint="x"))
    other.execute(f"SET search_path = {schema}".encode())
    other.execute("TRUNCATE groups, ticks; ALTER SEQUENCE groups_number_seq RESTART")
    for line in store._database.pool._idle:  # as a server ends them that goes away
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [line.connection.info.backend_pid])
    kill(opener(), "b", make_failure(fingerprint="y"))
    kill(store, "c", make_failure(fingerprint="x"))
    found = {one.fingerprint: one.deaths for one in store.group_records().values()}
    assert found == {"x": 1, "y": 1}
    assert get(store, "b").group != get(store, "c").group


def test_an_end_that_makes_a_group_is_on_disk_when_it_is_answered(
    store: PostgresStore, schema: str, other: psycopg.Connection[Any]
) -> None:
    other.execute(f"SET search_path = {schema}".encode())
    other.execute("CREATE TABLE seen (setting text)")
    other.execute(
        "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS "
        "$$ BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; "
        "END $$"
    )
    other.execute(
        "CREATE CONSTRAINT TRIGGER see AFTER INSERT ON groups DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION see()"
    )
    kill(store, "a", make_failure(fingerprint="x"))
    default = other.execute("SHOW synchronous_commit").fetchone()
    assert other.execute("SELECT setting FROM seen").fetchall() == [default]
    assert default != ("off",)
