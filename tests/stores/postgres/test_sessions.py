"""Nothing outlives a transaction in a session, so a pooler in transaction mode may stand between (T4)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator
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
from stores.contract.verbs import DEAD, add, add_one, claim, everything, move, settle

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


def test_a_hint_that_cannot_be_given_costs_no_submit(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = store._database.queries
    texts = {**queries.texts, "notify": b"SELECT 1 / 0"}
    monkeypatch.setattr(store._database, "queries", dataclasses.replace(queries, texts=texts))
    assert add_one(store, "a").is_new
