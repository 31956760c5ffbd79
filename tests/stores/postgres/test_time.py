"""Only the database's clock counts: a worker's may say what it likes (F55, T4)."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest

import pgkit
from redrive import Redrive
from redrive.jobs.clock import SystemClock
from redrive.stores.postgres import PostgresStore, database
from stores.contract.verbs import add_one, claim, claim_one, fail, get, settle

Opener = Callable[..., PostgresStore]


class Wrong(SystemClock):
    """The clock of a machine that is ten minutes off."""

    def __init__(self, off: float = 600.0) -> None:
        self._off = off

    def now(self) -> float:
        return super().now() + self._off


def server_time() -> float:
    with pgkit.connect() as connection:
        found = connection.execute(
            "SELECT extract(epoch FROM clock_timestamp())::float8"
        ).fetchone()
        assert found is not None
        return float(found[0])


def test_the_stores_time_is_the_databases(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """F55."""
    monkeypatch.setattr(time, "time", lambda: 0.0)
    store = opener(clock=Wrong())
    for _ in range(3):
        assert store.now() == pytest.approx(server_time(), abs=1.0)
    monkeypatch.setattr(database, "_TIME_IS_FRESH", 0.0)
    assert store.now() == pytest.approx(server_time(), abs=1.0)


def test_what_is_due_and_how_long_a_lease_lasts_the_database_says(opener: Opener) -> None:
    """F55."""
    store, now = opener(clock=Wrong()), server_time()
    add_one(store, "soon", due=now + 300)
    add_one(store, "past", due=now - 300)
    taken = claim_one(store, lease_for=60)
    assert taken.job.id == "past"
    assert taken.job.lease_end == pytest.approx(now + 60, abs=5)
    assert taken.job.updated == pytest.approx(now, abs=5)
    assert store.seize(by="s", lease_for=30) == []
    assert fail(store, taken, delay=100).due == pytest.approx(now + 100, abs=5)
    assert claim(store) == []
    again = claim_one(store, ignore_waits=True, only=["past"], lease_for=0.0)
    (swept,) = store.seize(by="s", lease_for=30)
    assert settle(store, again) is None
    done = settle(store, swept)
    assert done is not None
    assert done.finished == pytest.approx(now, abs=10)
    assert get(store, "soon").due == now + 300


def test_time_stands_still_in_a_transaction(opener: Opener) -> None:
    store = opener(clock=None)

    def work(tx: database.PostgresTx) -> bool:
        first = tx.now()
        tx.run("time")
        return first == tx.now()

    assert store._database.write(work, synced=False)
    with psycopg.connect(pgkit.url_of()) as connection:
        tx = database.PostgresTx(database.line_on(connection), store._database.queries)
        assert tx.now() == pytest.approx(server_time(), abs=1.0)
        assert tx.now() == tx.now()


@pytest.mark.parametrize("off", [600.0, -600.0])
def test_an_app_whose_clock_is_wrong_submits_by_the_databases(url: str, off: float) -> None:
    """F55: also what failed in place, and the waits that follow."""
    app, ran = Redrive(url, clock=Wrong(off)), list[str]()

    @app.handler("mail", attempts=2)
    def send(to: str) -> None:
        ran.append(to)
        if to == "bob":
            raise ConnectionError("refused")

    now = server_time()
    soon = send.options(delay=100).submit("later")
    assert soon.due == pytest.approx(now + 100, abs=5)
    assert send.submit("ada").created == pytest.approx(now, abs=5)
    tried = send.try_now("bob")
    assert tried.job is not None
    assert now - 5 < tried.job.due < now + 10
    assert tried.job.first_failed == pytest.approx(now, abs=5)
    app.run_due()
    assert ran == ["bob", "ada"]
    app.close()
