from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import pgkit
from redrive.stores.postgres import PostgresStore
from redrive.testing import ManualClock

Opener = Callable[..., PostgresStore]


@pytest.fixture
def schema() -> Iterator[str]:
    """A schema of the test's own; emptied after it, or dropped if it is no store any more."""
    name = pgkit.new_schema()
    yield name
    try:
        pgkit.release(name)
    except psycopg.Error:
        pgkit.drop(name)


@pytest.fixture
def url(schema: str) -> str:
    return pgkit.url_of(schema)


@pytest.fixture
def fresh() -> Iterator[str]:
    """The name of a schema that does not exist; what the test makes of it is dropped."""
    name = pgkit.fresh_name()
    yield name
    pgkit.drop(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opener(url: str, clock: ManualClock) -> Iterator[Opener]:
    """Open stores on the test's schema; all are closed at the end."""
    opened: list[PostgresStore] = []

    def open_it(where: str = url, **options: Any) -> PostgresStore:
        opened.append(PostgresStore(where, **{"clock": clock, **options}))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


@pytest.fixture
def store(opener: Opener) -> PostgresStore:
    return opener()


@pytest.fixture
def other(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    """A connection of somebody else, which commits by itself."""
    with pgkit.connect() as connection:
        yield connection
