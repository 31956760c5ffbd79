"""Nothing outlives a transaction in a session, so a pooler in transaction mode may stand between (T4)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Iterator
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_action, make_failure, make_job
from redrive.jobs.job import State
from redrive.stores.contract import PurgeRule, Query
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.pool import Pool
from redrive.stores.postgres.tx import Line
from stores.contract.verbs import DEAD, add, add_one, claim, claim_one, everything, move, settle

Opener = Callable[..., PostgresStore]


def use_every_verb(store: PostgresStore) -> dict[str, object]:
    """A bit of everything, each verb more than once."""
    for n in range(2):
        add(store, make_job(f"a{n}"), make_job(f"b{n}", key=f"k{n}"), make_job(f"c{n}", attempts=1))
        add_one(store, f"d{n}", failure=make_failure(), handler="other")
        one, two, three = claim(store, limit=3)
        store.renew([one, two], lease_for=90)
        settle(store, one)
        settle(store, two, DEAD, make_failure(cause=f"c{n}"))
        store.seize(by="s", lease_for=60, holder=three.job.holder)
        move(store, "retry", two.job.id, delays=[500.0])
        store.amend(two.job.id, '{"x":1}', make_action("edit"), expected=0)
        note = store.note("turn", f"w{n}", expires_in=1e6)
        assert note is not None
        store.note("pause:x", "x", durable=True)
        store.note("pause:x", None)
        store.record(make_action("pause"))
        store.find(Query(failed=True))
        store.groups(Query())
        store.purge([PurgeRule(state=State.COMPLETED, older_than=-1)])
    assert store.verify().ok
    return everything(store)


def test_every_verb_works_on_a_connection_that_forgets_everything(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F30: as a pooler does that resets a session before it gives it to the next."""
    expected = use_every_verb(opener())
    again = pgkit.fresh_name()
    put_back = Pool._put_back

    def discard(pool: Pool, line: Line) -> None:
        with contextlib.suppress(psycopg.Error):
            line.execute("DISCARD ALL")
        put_back(pool, line)

    monkeypatch.setattr(Pool, "_put_back", discard)
    try:
        assert use_every_verb(opener(pgkit.url_of(again))) == expected
    finally:
        pgkit.drop(again)


def test_every_verb_works_with_another_session_for_each_transaction(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F30."""
    line = Pool.line

    @contextlib.contextmanager
    def another(pool: Pool) -> Generator[Any]:
        pool.forget()
        with line(pool) as one:
            yield one

    monkeypatch.setattr(Pool, "line", another)
    use_every_verb(opener())


def test_a_session_is_given_back_as_it_was(opener: Opener) -> None:
    store = opener()
    use_every_verb(store)
    for line in store._database.pool._idle:
        changed = line.execute(
            "SELECT name, setting FROM pg_settings WHERE source = 'session' "
            "AND name NOT IN ('client_encoding', 'application_name')"
        ).fetchall()
        assert changed == []
        assert line.execute("SELECT * FROM pg_prepared_statements").fetchall() == []
        assert line.execute("SELECT * FROM pg_listening_channels()").fetchall() == []
        locks = "SELECT * FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert line.execute(locks).fetchall() == []


@pytest.fixture
def ear(store: PostgresStore) -> Iterator[Callable[[], int]]:
    """Listens as a worker would; says how many hints came since it was asked before."""
    with pgkit.connect() as connection:
        connection.execute(f"LISTEN {store.channel}")
        yield lambda: len(list(connection.notifies(timeout=0.1)))


def test_submits_and_retries_are_hinted_at(store: PostgresStore, ear: Callable[[], int]) -> None:
    """F30: no more than a hint; whoever does not hear it finds the job by looking."""
    add_one(store, "a")
    assert ear() == 1
    store._hinted = 0.0
    add(store, make_job("b", key="k"), make_job("c"))
    assert ear() == 1
    store._hinted = 0.0
    settle(store, claim_one(store, only=["a"]), DEAD, make_failure())
    assert ear() == 0
    move(store, "retry", "a")
    assert ear() == 1
    store._hinted = 0.0
    move(store, "discard", "a")
    assert ear() == 0


def test_a_hint_within_a_transaction_comes_with_its_commit(
    store: PostgresStore, ear: Callable[[], int]
) -> None:
    with pgkit.connect(autocommit=False) as connection:
        store.add([make_job("a")], within=connection)
        assert ear() == 0
        connection.rollback()
        assert ear() == 0
        store.add([make_job("a")], within=connection)
        connection.commit()
        assert ear() == 1


def test_a_hint_that_cannot_be_given_costs_no_submit(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = store._database.queries
    texts = {**queries.texts, "notify": b"SELECT 1 / 0"}
    monkeypatch.setattr(store._database, "queries", dataclasses.replace(queries, texts=texts))
    assert add_one(store, "a").is_new
