"""R-SUMMARIES 7: an UPDATE of the view beside retries, workers, purges and other UPDATEs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import errors

from kit import make_action
from redrive import State
from redrive.stores.contract import PurgeRule
from summarykit import RETRY, Service

ONE = f"{RETRY} WHERE job_id = 'job1'".encode()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def wait_for_waiting(service: Service) -> None:
    """Go on once a session of this database waits for another's lock."""
    waiting = """SELECT pid FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    while not service.sql(waiting):
        pass


def test_an_update_that_waited_for_another_finds_the_job_driven(
    service: Service, threads: ThreadPoolExecutor
) -> None:
    service.keep_dead("job1")
    with service.session() as first, service.session() as second:
        with first.transaction():
            first.execute(ONE)
            late = threads.submit(lambda: second.execute(ONE).rowcount)
            wait_for_waiting(service)
        assert late.result() == 0
    assert "job job1 is pending and stays as it is" in service.notices[0]
    assert service.app.get("job1").redrives == 5
    assert len(service.app.desk.log.actions()) == 1


def test_a_retry_that_waited_for_an_update_makes_no_second_life(
    service: Service, threads: ThreadPoolExecutor
) -> None:
    service.keep_dead("job1")
    with service.session() as other:
        with other.transaction():
            other.execute(ONE)
            late = threads.submit(service.app.desk.retry, "job1")
            wait_for_waiting(service)
        assert len(late.result().done) == 1, "it is pending, and due once more"
    job = service.app.get("job1")
    assert (job.state, job.redrives) == ("pending", 5)
    assert service.app.store.verify().ok


@pytest.mark.parametrize(
    ("deed", "now"),
    [
        ("UPDATE redrive.ended SET state = 'resolved'", "resolved"),
        ("DELETE FROM redrive.ended; DELETE FROM redrive.jobs", "gone"),
    ],
)
def test_a_job_that_was_closed_or_purged_meanwhile_is_not_driven(
    service: Service, threads: ThreadPoolExecutor, deed: str, now: str
) -> None:
    service.keep_dead("job1")
    with service.session() as first, service.session() as second:
        with first.transaction():
            first.execute(deed.encode())
            late = threads.submit(lambda: second.execute(ONE).rowcount)
            wait_for_waiting(service)
        assert late.result() == 0
    assert f"job job1 is {now} and stays as it is" in service.notices[0]
    assert service.app.desk.log.actions() == []


def test_a_worker_passes_by_what_an_open_update_holds(service: Service) -> None:
    """Neither claims, sweeps nor purges wait for an operator who went to lunch."""
    service.sql("INSERT INTO articles VALUES ('a1', 'old'), ('a2', 'new')")
    service.keep_dead("job1")
    service.keep("job2", "a2")
    purge = PurgeRule(state=State.DEAD, older_than=0)
    with service.session() as other:
        with other.transaction():
            other.execute(ONE)
            assert service.app.run_due().taken == 1
            assert service.app.store.purge([purge]) == []
        assert service.app.run_due().taken == 1
    assert service.asked == ["new", "old"]


def test_in_a_strict_transaction_a_lost_race_is_the_operators_to_repeat(service: Service) -> None:
    service.keep_dead("job1")
    with service.session(autocommit=False) as strict:
        strict.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        strict.execute("SELECT FROM redrive.states")
        service.app.desk.retry("job1")
        with pytest.raises(errors.SerializationFailure):
            strict.execute(ONE)
        strict.rollback()
    assert service.app.get("job1").redrives == 5


def test_updates_and_retries_at_once_give_each_job_one_life(service: Service) -> None:
    jobs = [f"job{n}" for n in range(20)]
    for job in jobs:
        service.keep_dead(job)
    start = threading.Barrier(3)

    def update(session: psycopg.Connection[dict[str, Any]]) -> int:
        start.wait()
        queries = [f"{RETRY} WHERE job_id = '{job}'".encode() for job in jobs]
        return sum(session.execute(query).rowcount for query in queries)

    def retry() -> None:
        start.wait()
        for job in jobs:
            service.app.store.move([job], "retry", make_action(actor="ada"))

    with service.session() as one, service.session() as two, ThreadPoolExecutor(3) as pool:
        updates = [pool.submit(update, one), pool.submit(update, two)]
        pool.submit(retry).result()
        driven = sum(each.result() for each in updates)
    assert [service.app.get(job).redrives for job in jobs] == [5] * 20
    acts = Counter(action.actor for action in service.app.desk.log.actions())
    assert acts == Counter(ada=20, postgres=driven)
    assert service.app.store.verify().ok
