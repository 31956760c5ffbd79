"""Finding the connection in what a caller hands over, to add jobs in its own transaction."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from redrive.errors import UsageError
from redrive.stores.postgres.tx import Connection

_WANTED = (
    "`within` needs an open transaction of psycopg 3: a psycopg.Connection, or a SQLAlchemy "
    "Session or Connection made with postgresql+psycopg://"
)


def connection_of(given: object) -> Connection:
    """Return the psycopg connection that this is or holds; UsageError if there is none to use."""
    connection: Connection = _unwrapped(given)
    if issubclass(type(connection), psycopg.AsyncConnection) or _is_async_wrapper(connection):
        msg = f"{_WANTED}; found an async connection: submit from sync code, on a sync connection"
        raise UsageError(msg)
    if not issubclass(type(connection), psycopg.Connection):
        msg = f"{_WANTED}; found {type(given).__name__}"
        raise UsageError(msg)
    if connection.autocommit and connection.info.transaction_status is TransactionStatus.IDLE:
        msg = (
            "the connection given as `within` is in autocommit mode, without a "
            "transaction; open one with `with connection.transaction():`"
        )
        raise UsageError(msg)
    return connection


def _unwrapped(given: Any) -> Any:
    """Go from a session over its connections down to the driver's; nothing needs to be imported."""
    for _ in range(4):
        if issubclass(type(given), psycopg.Connection | psycopg.AsyncConnection):
            break
        if _is_async_wrapper(given):
            break
        if hasattr(given, "exec_driver_sql"):
            # SQLAlchemy must see a transaction begin, or a commit of its connection does nothing.
            given.exec_driver_sql("SELECT 1")
        driver = getattr(given, "driver_connection", None)
        inner = getattr(given, "connection", None) if driver is None else driver
        if inner is None:
            break
        given = inner() if callable(inner) else inner
    return given


def _is_async_wrapper(given: object) -> bool:
    return hasattr(given, "sync_connection") or hasattr(given, "sync_session")
