"""Locks of others and a server that says nothing: each wait ends (F29)."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import pgkit
from kit import make_job
from redrive import Redrive
from redrive.errors import StoreBusy, StoreError, StoreLost
from redrive.jobs.job import State
from redrive.stores.contract import Query
from redrive.stores.postgres import PostgresStore, connecting
from stores.contract.verbs import add_one, claim, get, move

Opener = Callable[..., PostgresStore]

ENOUGH = 60.0
"""Seconds after which a call that should end by itself is taken to hang."""


@contextmanager
def lock(schema: str, statement: str) -> Iterator[None]:
    """Somebody else holds a lock: in a transaction that is open meanwhile."""
    with pgkit.connect() as connection, connection.transaction(force_rollback=True):
        connection.execute(statement.format(schema=f'"{schema}"'))
        yield


def ended(work: Callable[[], object]) -> BaseException | None:
    """Return the error that a call ends with; AssertionError if it does not end."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the test
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(ENOUGH)
    assert found, f"it still waits after {ENOUGH:g} s"
    return found[0]


EXCLUSIVE = "LOCK TABLE {schema}.open IN ACCESS EXCLUSIVE MODE"
SHARE = "LOCK TABLE {schema}.open IN SHARE MODE"
VERBS: dict[str, Callable[[PostgresStore, str], object]] = {
    "submit": lambda store, _: store.add([make_job("new")]),
    "submit many": lambda store, _: store.add([make_job("new"), make_job("newer")]),
    "claim": lambda store, _: claim(store),
    "retry": lambda store, _: move(store, "discard", "a"),
    "status": lambda store, _: store.counts(),
    "list": lambda store, _: store.find(Query()),
    "show": lambda store, _: store.get("a"),
    "verify": lambda store, _: store.verify(),
    "open": lambda _, url: PostgresStore(url).counts(),
}


def ended_together(store: PostgresStore, url: str) -> dict[str, BaseException | None]:
    """Call every verb at the same time; return what each ended with."""
    with ThreadPoolExecutor(len(VERBS)) as threads:
        calls = {
            name: threads.submit(ended, partial(verb, store, url)) for name, verb in VERBS.items()
        }
        return {name: call.result() for name, call in calls.items()}


@pytest.mark.parametrize("verb", ["submit", "claim", "verify"])
def test_a_table_that_is_locked_is_waited_for_then_refused(
    opener: Opener, url: str, schema: str, verb: str
) -> None:
    """F29."""
    store = opener(patience=0.1)
    add_one(store, "a")
    with lock(schema, EXCLUSIVE):
        quick = f"{url}&max_wait=0.1"
        error = ended(lambda: VERBS[verb](store, quick))
        assert isinstance(error, StoreBusy)
        assert "see pg_locks and pg_stat_activity, then repeat" in str(error)
    assert ended(lambda: VERBS[verb](store, quick)) is None


@pytest.mark.parametrize("table", ["job_rows"])
def test_whichever_table_is_locked_nothing_waits_for_ever(
    opener: Opener, url: str, schema: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F29: also in a new session, which locks a view's name before any setting can be made."""
    monkeypatch.setattr(connecting.BoundedConnection, "limit", 10.0)
    store = opener(patience=0.1)
    add_one(store, "a")
    with lock(schema, f"LOCK TABLE {{schema}}.{table} IN ACCESS EXCLUSIVE MODE"):
        for name, error in ended_together(store, f"{url}&max_wait=0.1").items():
            assert isinstance(error, StoreError | None), name
    assert store.verify().ok


def test_a_submit_in_the_callers_transaction_waits_no_longer_and_leaves_its_limit(
    opener: Opener, schema: str
) -> None:
    """F29: the caller's transaction goes on, with the caller's own limit for locks."""
    store = opener(patience=0.2)
    show = "SELECT current_setting('lock_timeout')"
    with pgkit.connect(autocommit=False) as mine:
        for theirs in ("0", "77s", "50ms"):
            mine.execute(f"SET LOCAL lock_timeout = '{theirs}'")
            for statement in (SHARE, "LOCK TABLE {schema}.redrive_version"):
                with lock(schema, statement):
                    assert isinstance(
                        ended(lambda: store.add([make_job("a")], within=mine)), StoreBusy
                    )
                assert mine.execute(show).fetchone() == (theirs,)
            store.add([make_job("b")], within=mine)
            assert mine.execute(show).fetchone() == (theirs,)
            mine.rollback()


def test_a_worker_rides_out_a_locked_table(opener: Opener, url: str, schema: str) -> None:
    """F29: it keeps its jobs, goes on when the lock is gone, and no job pays for it."""
    store = opener(clock=None)
    started, finish = threading.Event(), threading.Event()
    with Redrive(f"{url}&max_wait=0.5") as app:

        @app.handler("hold")
        def hold() -> None:
            started.set()
            finish.wait(ENOUGH)

        @app.handler("quick")
        def quick() -> None:
            pass

        held = hold.submit()
        with app.worker(concurrency=2):
            assert started.wait(ENOUGH)
            with lock(schema, EXCLUSIVE):
                finish.set()
                _until_waited(times=2)
            others = [quick.submit().id for _ in range(5)]
            _until(lambda: all(get(store, i).state is State.COMPLETED for i in [held.id, *others]))
    assert [get(store, i).attempts for i in [held.id, *others]] == [1] * 6


def _until_waited(times: int) -> None:
    """Wait until sessions of ours have given up waiting for a lock and wait for it again."""
    query = (
        "SELECT DISTINCT query_start FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND application_name = 'redrive'"
    )
    seen: set[Any] = set()
    with pgkit.connect() as other:
        while len(seen) < 2 * times:
            seen |= {row[0] for row in other.execute(query).fetchall()}
            time.sleep(0.05)


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + ENOUGH
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def frozen() -> Iterator[None]:
    """Stop the server's processes for our sessions: the kernel still takes packets for them."""
    with pgkit.connect() as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'redrive'"
        ).fetchall()
        postmaster = int((pgkit.server().pgdata / "postmaster.pid").read_text().split()[0])
    pids = [postmaster, *(pid for (pid,) in rows)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def test_a_server_that_takes_packets_and_never_answers_is_given_up(
    opener: Opener, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F26: neither a session that is there nor a new one waits for ever."""
    monkeypatch.setattr(connecting.BoundedConnection, "limit", 0.3)
    quick = f"{url}&connect_timeout=2&max_wait=0.1"
    store = opener(quick)
    add_one(store, "a")
    with frozen():
        for name, error in ended_together(store, quick).items():
            assert isinstance(error, StoreLost), name
        ended(store.listen)
    assert get(store, "a").state is not None
    assert store.verify().ok


def test_a_long_question_is_not_taken_for_a_dead_server(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connecting.BoundedConnection, "limit", 0.3)
    store = opener(patience=0.1)

    def slow(tx: Any) -> int:
        tx._cursor.execute("SELECT pg_sleep(1)")
        return 7

    assert store._database.read(slow) == 7
    with pytest.raises(StoreLost, match=r"not answered for 0\.3 s"):
        store._database.direct(slow)
