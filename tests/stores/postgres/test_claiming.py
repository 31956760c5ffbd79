"""What a claim on PostgreSQL promises beyond the contract (F27, T4, T5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from enum import Enum
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_failure, make_job
from redrive.errors import UsageError
from redrive.jobs.job import Retry
from redrive.stores.contract import Query
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.arrays import packed
from stores.contract.verbs import add, add_one, bare, claim, claim_one, get, move, settle

Opener = Callable[..., PostgresStore]


@pytest.mark.parametrize("encoding", ["latin1", "utf8"])
def test_text_is_kept_whatever_a_connection_speaks(opener: Opener, encoding: str) -> None:
    store = opener()
    plain = opener(f"{store.url}&client_encoding={encoding}")
    jobs = [make_job(f"j{n}", lane="Größe", payload='{"a":"Größe"}') for n in range(3)]
    plain.add(jobs)
    with psycopg.connect(store._database.address.conninfo, client_encoding=encoding) as mine:
        store.add(
            [make_job(f"w{n}", lane="Größe", payload='{"a":"Größe"}') for n in range(3)],
            within=mine,
        )
    for name in ("j0", "j2", "w0", "w2"):
        job = get(store, name)
        assert (job.lane, job.payload) == ("Größe", '{"a":"Größe"}')


def test_a_seized_job_is_no_answer_to_the_claim_before(
    store: PostgresStore, other: psycopg.Connection[Any]
) -> None:
    add_one(store, "a")
    claim_one(store, holder="gone")
    schema = store._database.address.schema
    (name,) = other.execute(f'SELECT claim FROM "{schema}".open'.encode()).fetchone() or ("",)
    database = store._database
    assert len(database.read(lambda tx: tx.all("claimed_by", (name,)))) == 1
    (seized,) = store.seize(by="s", lease_for=60, holder="gone")
    assert database.read(lambda tx: tx.all("claimed_by", (name,))) == []
    assert settle(store, seized) is not None


def test_times_are_exact_whatever_the_server_shows_of_them(opener: Opener) -> None:
    """Its times are a part of a claim's fence: they must never go by way of text."""
    store = opener(f"{opener().url}&options=-c%20extra_float_digits%3D-9", clock=None)
    due = 1_700_000_000.123456
    add_one(store, "a", created=due - 1 / 3, due=due, tags=("t",))
    settle(store, claim_one(store), Retry(0.0), make_failure())
    again = claim_one(store)
    assert again.job == bare(get(store, "a"))
    assert (again.job.created, again.job.since) == (due - 1 / 3, due)
    assert settle(store, again) is not None


@pytest.mark.parametrize("limit", [2**31 - 1, 10**12])
def test_a_claim_of_more_than_there_can_be_takes_all(store: PostgresStore, limit: int) -> None:
    add(store, make_job("a"), make_job("b", lane="other"))
    assert len(claim(store, limit=limit)) == 2


class Word(str, Enum):  # noqa: UP042 - as many programs have it: its str() is not its value
    """As programs name their lanes and keys."""

    A = "order-1"


def test_a_text_is_its_value_whatever_class_it_is_of(store: PostgresStore) -> None:
    one = add_one(store, "a", key=Word.A, lane=Word.A, release=Word.A)
    assert get(store, "a").key == get(store, "a").lane == get(store, "a").release == "order-1"
    again = add_one(store, "b", key="order-1", lane="order-1", release="order-1")
    assert (again.id, again.is_new) == (one.id, False)


@pytest.mark.parametrize("field", ["id", "lane", "key", "event"])
def test_a_text_does_not_end_at_a_nul(store: PostgresStore, field: str) -> None:
    """A single submit goes past the driver, which would refuse it."""
    with pytest.raises(UsageError, match="nothing was stored"):
        store.add([make_job(**{"id": "a", field: "a\0b"})])
    assert store.counts() == []


def test_a_release_may_hold_a_nul_for_it_is_kept_as_json(store: PostgresStore) -> None:
    add_one(store, "a", release="a\0b")
    assert claim_one(store).job.release == get(store, "a").release == "a\0b"


def test_a_damaged_suspect_keeps_no_other_suspect_waiting(
    store: PostgresStore, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    add(store, make_job("bad", crashes=1, due=1.0), make_job("good", crashes=1))
    schema = store._database.address.schema
    other.execute(f"UPDATE \"{schema}\".open SET more = 'x' WHERE id = 'bad'".encode())
    (taken,) = claim(store, limit=1, suspects=True)
    assert taken.job.id == "good"
    assert settle(store, taken) is not None
    add_one(store, "next", crashes=1)
    assert [each.job.id for each in claim(opener(), limit=1, suspects=True)] == ["next"]


def test_what_is_large_is_not_kept_by_a_connection_that_rests(store: PostgresStore) -> None:
    add(store, *(make_job(f"j{n}", payload='{"a":"%s"}' % ("x" * 100_000)) for n in range(9)))
    store.find(Query(limit=100))
    (line,) = store._database.pool._idle
    assert line.rowcount <= 1
    assert sum(len(one or b"") for one in (line._query and line._query.params) or ()) < 1000


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_does_not_speak_utf_8(encoding: str) -> None:
    name = pgkit.fresh_name()
    with pgkit.connect() as maker:
        maker.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0".encode()
        )
    url = pgkit.url_of("redrive").replace("/postgres?", f"/{name}?")
    assert name in url
    try:
        with closing(PostgresStore(url, create=True)) as store:
            store.add([make_job("a", lane="Größe"), make_job("b", lane="Größe")])
            assert [each.job.lane for each in claim(store)] == ["Größe"] * 2
    finally:
        with pgkit.connect() as maker:
            maker.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_a_discarded_running_job_can_be_driven_again(store: PostgresStore) -> None:
    add_one(store, "a")
    late = claim_one(store)
    assert move(store, "discard", "a").done
    assert settle(store, late) is None
    assert move(store, "retry", "a").done
    assert settle(store, claim_one(store)) is not None
    assert store.verify().ok


def test_packing_says_what_does_not_fit() -> None:
    with pytest.raises(OverflowError):
        packed(b"int8", [2**70], "utf-8")
    with pytest.raises(OverflowError):
        packed(b"int4", [None, 2**40], "utf-8")
    with pytest.raises(UnicodeError):
        packed(b"text", ["\ud800"], "utf-8")
