"""Submitting in the caller's own transaction: the job is there if, and only if, that commits (T4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

import pgkit
from kit import make_attempt, make_failure, make_job
from redrive import Redrive
from redrive.errors import KeyConflict, StoreBusy, StoreMissing, UsageError
from redrive.jobs.job import Reason, State
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import add_one, claim, get


@pytest.fixture
def mine() -> Iterator[psycopg.Connection[Any]]:
    """The caller's connection, set up in a way of its own."""
    with pgkit.connect(
        autocommit=False, row_factory=dict_row, cursor_factory=psycopg.ClientCursor
    ) as connection:
        connection.execute("CREATE TEMPORARY TABLE orders (id int PRIMARY KEY)")
        connection.commit()
        yield connection
        connection.rollback()


class Proxied:
    """SQLAlchemy's pooled connection, as far as it matters."""

    def __init__(self, driver: Any) -> None:
        self.driver_connection = driver


WRAPPED: list[Callable[[Any], Any]] = [lambda driver: driver, Proxied]


@pytest.mark.parametrize("wrapped", WRAPPED, ids=["psycopg", "pooled"])
def test_the_job_is_there_when_the_caller_commits_and_not_before(
    store: PostgresStore, mine: psycopg.Connection[Any], wrapped: Callable[[Any], Any]
) -> None:
    mine.execute("INSERT INTO orders VALUES (1)")
    (job,) = store.add([make_job("a", payload='{"x":1}')], within=wrapped(mine))
    assert (job.id, job.is_new) == ("a", True)
    assert store.get("a") is None
    assert claim(store) == []
    mine.commit()
    assert get(store, "a").payload == '{"x":1}'
    assert len(claim(store)) == 1


@pytest.mark.parametrize("wrapped", WRAPPED, ids=["psycopg", "pooled"])
def test_nothing_is_there_when_the_caller_rolls_back(
    store: PostgresStore, mine: psycopg.Connection[Any], wrapped: Callable[[Any], Any]
) -> None:
    store.add([make_job("a", key="k"), make_job("b")], within=wrapped(mine))
    mine.rollback()
    assert store.get("a") is store.get("b") is None
    assert add_one(store, "c", key="k").is_new


def test_a_whole_job_with_its_history_can_be_part_of_it(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    failure = make_failure("quota")
    job = make_job("a", state=State.DEAD, reason=Reason.CAPTURED, finished=1.0, failure=failure)
    attempt = make_attempt(job, failure, ordinal=1)
    store.add(
        [make_job("a", state=State.DEAD, finished=1.0, failure=failure, history=(attempt,))],
        within=mine,
    )
    mine.commit()
    assert get(store, "a").history == (attempt,)
    assert get(store, "a").group is not None


def test_a_conflict_leaves_the_callers_transaction_as_it_was(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    add_one(store, "a", key="k", payload='{"x":1}')
    mine.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(KeyConflict):
        store.add([make_job("b"), make_job("c", key="k", payload='{"x":2}')], within=mine)
    with pytest.raises(UsageError, match="nothing was stored"):
        store.add([make_job("d", lane="a\0b")], within=mine)
    (same,) = store.add([make_job("e", key="k", payload='{"x":1}')], within=mine)
    mine.commit()
    assert (same.id, same.is_new) == ("a", False)
    assert [store.get(name) for name in "bcde"] == [None] * 4
    assert mine.execute("SELECT * FROM orders").fetchall() == [{"id": 1}]


def test_the_callers_session_is_left_as_it_was(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    mine.prepare_threshold = 0
    mine.execute("DO $$ BEGIN END $$")  # loads PL/pgSQL, which has settings of its own
    every = "SELECT name, setting FROM pg_settings ORDER BY name"
    ours = "SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY name"
    before, session = mine.execute(every).fetchall(), mine.execute(ours).fetchall()
    store.add([make_job("a")], within=mine)
    assert mine.execute(every).fetchall() == before
    mine.commit()
    assert mine.execute(every).fetchall() == before
    assert mine.execute(ours).fetchall() == session
    assert mine.execute("SELECT * FROM pg_prepared_statements").fetchall() == []


def test_an_open_transaction_on_a_connection_that_commits_by_itself_will_do(
    store: PostgresStore,
) -> None:
    with pgkit.connect() as connection:
        with pytest.raises(UsageError, match="transaction"):
            store.add([make_job("a")], within=connection)
        with connection.transaction():
            store.add([make_job("a")], within=connection)
            assert store.get("a") is None
        assert get(store, "a").state is State.PENDING


def test_what_is_no_connection_is_refused_in_words(store: PostgresStore) -> None:
    for wrong in (object(), "postgresql://x", store, Proxied(object())):
        with pytest.raises(UsageError, match="`within` takes a connection to PostgreSQL"):
            store.add([make_job("a")], within=wrong)


def test_an_async_connection_needs_the_async_verb(store: PostgresStore) -> None:
    async def use() -> None:
        async with await psycopg.AsyncConnection.connect(pgkit.url_of()) as connection:
            with pytest.raises(UsageError, match="AsyncConnection is async: use `await`"):
                store.add([make_job("a")], within=connection)

    asyncio.run(use())


def test_a_connection_to_another_database_is_refused_by_its_name(store: PostgresStore) -> None:
    url = pgkit.url_of().replace("/postgres?", "/template1?")
    with psycopg.connect(url) as elsewhere:
        with pytest.raises(UsageError, match=r"'template1', but .* is in 'postgres'"):
            store.add([make_job("a")], within=elsewhere)
        assert elsewhere.execute("SELECT 1").fetchone() == (1,)


def test_a_database_of_the_same_name_on_another_server_is_refused(store: PostgresStore) -> None:
    with (
        pgkit.another_server() as url,
        closing(PostgresStore(f"{url}&schema={store._database.address.schema}")) as other,
        psycopg.connect(url) as elsewhere,
    ):
        with pytest.raises(UsageError, match="'postgres' on another server"):
            store.add([make_job("a")], within=elsewhere)
        elsewhere.commit()
        assert other.get("a") is None


def test_a_schema_without_a_store_is_refused_and_the_transaction_goes_on(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    with pgkit.connect() as other:
        other.execute(f"DROP FUNCTION {store._database.queries.schema}.add_within")
    mine.execute("INSERT INTO orders VALUES (1)")
    with pytest.raises(StoreMissing, match="redrive init"):
        store.add([make_job("a")], within=mine)
    mine.commit()
    assert mine.execute("SELECT * FROM orders").fetchall() == [{"id": 1}]
    pgkit.drop(store._database.address.schema)


def test_times_come_back_exactly_and_as_floats(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    """The answer is JSON, in which whole numbers look like integers; a session may round others."""
    times = {"created": 1_700_000_000.0, "due": 1_700_000_000.123457, "updated": 1_700_000_001.0}
    add_one(store, "a", key="k", **times)
    mine.execute("SET extra_float_digits = -15")
    (same,) = store.add([make_job("b", key="k")], within=mine)
    found = {name: getattr(same, name) for name in times}
    assert found == times
    assert {type(value) for value in found.values()} == {float}


def test_a_key_race_in_a_strict_transaction_is_the_callers_to_repeat(
    store: PostgresStore, mine: psycopg.Connection[Any]
) -> None:
    mine.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    mine.execute("SELECT count(*) FROM orders")
    add_one(store, "a", key="k")
    with pytest.raises(StoreBusy):
        store.add([make_job("b", key="k")], within=mine)


def test_handlers_submit_within_a_transaction(url: str, mine: psycopg.Connection[Any]) -> None:
    app = Redrive(url)

    @app.handler("mail.send")
    def send(to: str) -> None: ...

    kept = send.options(within=mine).submit("ada")
    assert app.store.get(kept.id) is None
    mine.rollback()
    lost = send.options(within=mine, key="k").submit("bob")
    mine.commit()
    assert [job.id for job in app.desk.jobs.find().jobs] == [lost.id]
    app.close()
