"""Opening a schema: whose it is, which version, how safe, and no word of the password (F25, F33)."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import pgkit
from kit import make_job
from redrive import Redrive
from redrive.errors import (
    StoreError,
    StoreForeign,
    StoreLost,
    StoreMissing,
    StoreReadOnly,
    UsageError,
)
from redrive.jobs.job import State
from redrive.stores import open_store
from redrive.stores.postgres import PostgresStore
from redrive.stores.postgres.address import read_url
from stores.contract.verbs import add_one, claim, get

Opener = Callable[..., PostgresStore]
SECRET = "hunter2/@:%"


@pytest.fixture
def role(schema: str, opener: Opener) -> Iterator[str]:
    """A user who may use the test's schema and nothing else; its name."""
    opener()
    name = f"role_{schema}"
    with pgkit.connect() as connection:
        connection.execute(f'CREATE ROLE "{name}" LOGIN')
        connection.execute(f'GRANT USAGE ON SCHEMA "{schema}" TO "{name}"')
        for things in ("TABLES", "SEQUENCES"):
            connection.execute(f'GRANT ALL ON ALL {things} IN SCHEMA "{schema}" TO "{name}"')
        yield name
        connection.execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')


def test_a_store_is_made_where_there_is_none(fresh: str, opener: Opener) -> None:
    url = pgkit.url_of(fresh)
    with pytest.raises(StoreMissing, match="redrive init"):
        opener(url, create=False)
    with pytest.raises(StoreMissing, match="redrive init"):
        opener(url, read_only=True)
    opener(url)
    assert opener(url, create=False).verify().ok


def test_tables_of_another_program_are_refused_and_left_alone(
    fresh: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    other.execute(f'CREATE SCHEMA "{fresh}"')
    other.execute(f'CREATE TABLE "{fresh}".jobs (id int)')
    for options in ({}, {"read_only": True}, {"create": False}):
        with pytest.raises(StoreForeign, match=r"\?schema="):
            opener(pgkit.url_of(fresh), **options)
    tables = other.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (fresh,))
    assert tables.fetchone() == (1,)


def test_a_schema_of_another_version_is_refused_also_while_it_is_open(
    fresh: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """F33."""
    url = pgkit.url_of(fresh)
    store = opener(url)
    add_one(store, "a")
    other.execute(f'INSERT INTO "{fresh}".redrive_version VALUES (99, 0)')
    calls: list[Callable[[], object]] = [
        lambda: add_one(store, "b"),
        lambda: store.add([make_job("c"), make_job("d")]),
        lambda: claim(store),
        lambda: store.get("a"),
        lambda: opener(url),
        lambda: opener(url, read_only=True),
    ]
    for call in calls:
        with pytest.raises(StoreForeign, match=f"{fresh}.* schema 99, this program reads schema 3"):
            call()
    with other.transaction(), pytest.raises(StoreForeign, match="schema 99"):
        store.add([make_job("e")], within=other)
    assert other.execute(f'SELECT id FROM "{fresh}".jobs').fetchall() == [("a",)]
    other.execute(
        f'DELETE FROM "{fresh}".redrive_version; INSERT INTO "{fresh}".redrive_version VALUES (2, 0)'
    )
    with pytest.raises(StoreForeign, match=f"{fresh}.* schema 2, this program reads schema 3"):
        opener(url)


def test_a_store_opened_for_reading_changes_nothing(opener: Opener) -> None:
    add_one(opener(), "a")
    reader = opener(read_only=True)
    assert get(reader, "a").state is State.PENDING
    for call in (lambda: add_one(reader, "b"), lambda: claim(reader)):
        with pytest.raises(StoreReadOnly, match="reading only"):
            call()


def test_a_schema_that_is_dropped_meanwhile_is_told(
    fresh: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    store = opener(pgkit.url_of(fresh))
    other.execute(f'DROP SCHEMA "{fresh}" CASCADE')
    for call in (lambda: add_one(store, "a"), lambda: claim(store), store.counts):
        with pytest.raises(StoreMissing):
            call()


def test_less_than_full_durability_is_shown(
    role: str, schema: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """F25."""
    for setting, durability in [("off", "relaxed"), ("local", "full"), ("on", "full")]:
        other.execute(f'ALTER ROLE "{role}" SET synchronous_commit = {setting}')
        store = opener(pgkit.url_of(schema, user=role))
        assert store.durability == durability
        assert store.verify().facts["durability"] == durability


def test_a_server_that_syncs_nothing_is_shown(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, store: PostgresStore
) -> None:
    """F25: by what the server says of itself; to switch it off for real would take a restart."""
    from redrive.stores.postgres import opening  # noqa: PLC0415

    for said in (("off", "on", "on"), ("on", "off", "on")):
        monkeypatch.setattr(store._database, "direct", lambda *_, said=said: said)
        assert opening.durability_of(store._database) == "relaxed"


def test_a_user_who_may_not_write_is_told(
    role: str, schema: str, opener: Opener, other: psycopg.Connection[Any]
) -> None:
    """F28."""
    url = pgkit.url_of(schema, user=role)
    other.execute(f'ALTER ROLE "{role}" SET default_transaction_read_only = on')
    store = opener(url)
    with pytest.raises(StoreReadOnly, match="primary"):
        add_one(store, "a")
    with pytest.raises(StoreReadOnly, match="primary"):
        store.note("n", "x")
    other.execute(f'ALTER ROLE "{role}" RESET default_transaction_read_only')
    other.execute(f'REVOKE INSERT ON ALL TABLES IN SCHEMA "{schema}" FROM "{role}"')
    with pytest.raises(StoreReadOnly, match="grant"):
        add_one(opener(url), "a")


def test_the_password_is_nowhere_to_be_seen(
    schema: str, opener: Opener, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = pgkit.url_of(schema, password=SECRET)
    store = open_store(url)
    app = Redrive(url)
    shown = [
        store.url,
        repr(store),
        repr(app),
        caplog.text,
        repr(read_url(url)),
        str(store.verify()),
    ]
    store.close()
    nowhere = f"postgresql://ada:{SECRET.replace('%', '%25').replace('/', '%2F').replace('@', '%40').replace(':', '%3A')}@127.0.0.1:1/x"
    for wrong in (
        nowhere,
        nowhere.replace(":1/", ":x/"),
        f"postgresql://ada@[{SECRET}",
        f"{nowhere}?password={SECRET}&sslmode=disable",
    ):
        with pytest.raises((StoreError, UsageError)) as caught:
            PostgresStore(wrong)
        shown += [str(caught.value), "".join(traceback.format_exception(caught.value))]
    for text in shown:
        assert "hunter2" not in text, text


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://ada:pw@db/x", "postgresql://ada@db/x"),
        ("postgresql://db/x?password=pw&sslmode=disable", "postgresql://db/x?sslmode=disable"),
        ("postgresql://ada:pw@a:1,b:2/x?schema=jobs", "postgresql://ada@a:1,b:2/x?schema=jobs"),
        ("postgresql://[::1]:5432/x?schema=redrive", "postgresql://[::1]:5432/x"),
        ("postgresql:///x?host=/tmp", "postgresql:///x?host=/tmp"),
    ],
)
def test_a_url_is_shown_without_secrets_and_names_its_schema(url: str, shown: str) -> None:
    assert read_url(url).url == shown
    assert read_url(read_url(url).url).url == shown


@pytest.mark.parametrize("schema", ["", "Jobs", "a b", 'x"', "x;--", "pg_x", "1a", "x" * 49, "é"])
def test_a_schema_must_be_a_plain_name(schema: str) -> None:
    with pytest.raises(UsageError, match="schema"):
        read_url(f"postgresql://db/x?schema={schema}")


def test_a_server_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(StoreLost, match="is it running"):
        PostgresStore("postgresql://ada@127.0.0.1:1/x")


def test_without_the_driver_it_is_said_what_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from redrive.stores import open_store\n"
        "from redrive.errors import UsageError\n"
        "try: open_store('postgresql://db/x')\n"
        "except UsageError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "redrive[postgres]" in done.stdout
