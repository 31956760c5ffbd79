"""What a claim on PostgreSQL promises beyond the contract (F27, T4, T5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_failure, make_job
from redrive.errors import UsageError
from redrive.jobs.job import Retry
from redrive.stores.postgres import PostgresStore
from stores.contract.verbs import add, add_one, bare, claim, claim_one, get, settle

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


@pytest.mark.parametrize("field", ["id", "lane", "key", "event"])
def test_a_text_does_not_end_at_a_nul(store: PostgresStore, field: str) -> None:
    """A single submit goes past the driver, which would refuse it."""
    with pytest.raises(UsageError, match="nothing was stored"):
        store.add([make_job(**{"id": "a", field: "a\0b"})])
    assert store.counts() == []


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
