"""Listening to PostgreSQL: through lost connections, poolers and servers that are away (F30, T4)."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from redrive.stores.postgres import PostgresStore, listener
from redrive.stores.postgres.listener import PostgresListener
from redrive.worker.schedule import Waiter
from stores.contract.verbs import add_one, get
from stores.postgres.proxy import proxied

Opener = Callable[..., PostgresStore]
LONG, SHORT = 60.0, 0.15


@pytest.fixture
def listening(store: PostgresStore) -> Iterator[PostgresListener]:
    found = store.listen()
    assert isinstance(found, PostgresListener)
    yield found
    found.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_FIRST_PAUSE", 0.01)


def hears(listening: PostgresListener, within: float = LONG) -> bool:
    """Wait as a worker does: poll what there is to poll, drain, and look again; no hint is left."""
    heard, end = False, time.monotonic() + within
    while not heard and time.monotonic() < end:
        heard = readable(listening, 0.02)
        listening.drain()
    while readable(listening, 0):
        listening.drain()
    return heard


def readable(listening: PostgresListener, within: float) -> bool:
    if listening.fileno() < 0:
        time.sleep(within)
        return False
    return bool(select.select([listening.fileno()], [], [], within)[0])


def sessions(other: psycopg.Connection[Any]) -> list[int]:
    """Return the sessions that listen: LISTEN was their last statement, and it has ended."""
    found = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'"
    return [pid for (pid,) in other.execute(found)]


def end_sessions(other: psycopg.Connection[Any]) -> None:
    for pid in sessions(other):
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])


@pytest.mark.usefixtures("hurried")
def test_a_session_that_was_ended_is_made_again(
    store: PostgresStore, listening: PostgresListener, other: psycopg.Connection[Any]
) -> None:
    for n in range(3):
        end_sessions(other)
        while not sessions(other):
            hears(listening, 0.02)
        add_one(store, f"a{n}")
        assert hears(listening)


@pytest.mark.usefixtures("hurried")
def test_listeners_that_found_no_server_hear_when_it_is_back(opener: Opener, schema: str) -> None:
    with proxied() as proxy:
        store = opener(proxy.url(schema))
        proxy.refuse()
        listening = store.listen()
        assert isinstance(listening, PostgresListener)
        hears(listening, SHORT)
        proxy.refuse(down=False)
        end = time.monotonic() + LONG
        while listening.fileno() < 0 and time.monotonic() < end:
            hears(listening, 0.02)
        add_one(store, "a")
        assert hears(listening)
        listening.close()


@pytest.mark.usefixtures("hurried")
def test_a_worker_that_found_no_server_hears_when_it_is_back(opener: Opener, schema: str) -> None:
    with proxied() as proxy:
        store = opener(proxy.url(schema))
        proxy.refuse()
        with Waiter(store, poll=LONG) as waiter:
            proxy.refuse(down=False)
            waiter.claimed(0, 1)
            end = time.monotonic() + LONG
            while not waiter.may_claim and time.monotonic() < end:
                add_one(store)
                waiter.wait(0.05, unless=lambda: False)
            assert time.monotonic() < end


def test_behind_a_pooler_that_forgets_there_are_no_hints_and_no_errors(
    store: PostgresStore, listening: PostgresListener
) -> None:
    """F30: as if the session that listens had been given to another."""
    listening._line[0].execute("UNLISTEN *")
    add_one(store, "a")
    assert not hears(listening, SHORT)
    assert get(store, "a").id == "a"


def test_a_connection_that_is_lost_with_a_hint_is_replaced(
    store: PostgresStore, other: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = b"SELECT pg_terminate_backend(pg_backend_pid())"
    monkeypatch.setitem(store._database.queries.texts, "notify", lost)
    for n in range(3):
        store._hinted = 0.0
        add_one(store, f"a{n}")
        assert get(store, f"a{n}").id == f"a{n}"
