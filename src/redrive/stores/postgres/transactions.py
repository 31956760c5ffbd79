"""The caller's own connection, of any driver: how to run a statement on it. No rule stands here.

Drivers are known by the names of their types, so none is imported that the caller does not use. An
answer is the first column of the first row.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.rows import tuple_row

from redrive.errors import UsageError

R = TypeVar("R")
Request = tuple[str, str | None]
"""A statement, and the value of its parameter, `%s`, if it has one."""
Conversation = Generator[Request, str, R]
"""Yields statements, is sent their answers, and returns a result."""

_WANTED = (
    "`within` takes a connection to PostgreSQL with an open transaction: psycopg's Connection or "
    "AsyncConnection, psycopg2's, asyncpg's, SQLAlchemy's Connection, Session, AsyncConnection or "
    "AsyncSession, or Django's connection"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller's connection."""

    run: Callable[..., Any]
    """Runs a statement; returns its answer, or an awaitable of it."""
    is_async: bool = False
    is_of_thread: bool = False
    """True if only the thread that made it can use it."""


def caller_of(given: object) -> Caller:
    """Return how to run statements on a connection; UsageError if it is none that we know."""
    for kind in type(given).__mro__:
        known = _KINDS.get((kind.__module__.partition(".")[0], kind.__name__))
        if known:
            return Caller(partial(known.run, given), known.is_async, known.is_of_thread)
    driver = getattr(given, "driver_connection", None)  # a pooled connection of SQLAlchemy
    if driver is not None:
        return caller_of(driver)
    raise UsageError(f"{_WANTED}; found {type(given).__name__}")


def talk(caller: Caller, conversation: Conversation[R]) -> R:
    """Hold a conversation over the caller's connection."""
    request = next(conversation)
    while True:
        try:
            request = conversation.send(caller.run(*request))
        except StopIteration as end:
            result: R = end.value
            return result


async def atalk(caller: Caller, conversation: Conversation[R]) -> R:
    """Do the same over an async connection."""
    request = next(conversation)
    while True:
        try:
            request = conversation.send(await caller.run(*request))
        except StopIteration as end:
            result: R = end.value
            return result


def _arguments(value: str | None) -> list[str] | None:
    return None if value is None else [value]


def _psycopg(connection: Any, sql: str, value: str | None) -> Any:
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    return _first(cursor.execute(sql.encode(), _arguments(value), prepare=False).fetchone())


async def _psycopg_async(connection: Any, sql: str, value: str | None) -> Any:
    cursor = psycopg.AsyncCursor(connection, row_factory=tuple_row)
    await cursor.execute(sql.encode(), _arguments(value), prepare=False)
    return _first(await cursor.fetchone())


def _psycopg2(connection: Any, sql: str, value: str | None) -> Any:
    plain = sys.modules["psycopg2.extensions"].cursor  # the caller's own may return dicts
    with connection.cursor(cursor_factory=plain) as cursor:
        cursor.execute(sql, _arguments(value))
        return _first(cursor.fetchone())


def _asyncpg(connection: Any, sql: str, value: str | None) -> Awaitable[Any]:
    answer: Awaitable[Any] = connection.fetchval(
        sql.replace("%s", "$1"), *(_arguments(value) or ())
    )
    return answer


def _sqlalchemy(connection: Any, sql: str, value: str | None) -> Any:
    return connection.execute(*_statement(connection, sql, value)).scalar_one()


def _sqlalchemy_session(session: Any, sql: str, value: str | None) -> Any:
    return _sqlalchemy(session.connection(), sql, value)


async def _sqlalchemy_async(connection: Any, sql: str, value: str | None) -> Any:
    return (await connection.execute(*_statement(connection, sql, value))).scalar_one()


async def _sqlalchemy_async_session(session: Any, sql: str, value: str | None) -> Any:
    return await _sqlalchemy_async(await session.connection(), sql, value)


def _statement(connection: Any, sql: str, value: str | None) -> tuple[object, dict[str, str]]:
    """Return a statement for SQLAlchemy, which converts its parameter for the driver."""
    _check_kind(connection.dialect.name)
    text = sys.modules["sqlalchemy"].text
    return text(sql.replace("%s", ":value")), {} if value is None else {"value": value}


def _django(connection: Any, sql: str, value: str | None) -> Any:
    _check_kind(connection.vendor)
    with connection.cursor() as cursor:
        cursor.execute(sql, _arguments(value))
        return _first(cursor.fetchone())


def _first(row: Any) -> Any:
    return row[0]


def _check_kind(name: str) -> None:
    if name != "postgresql":
        raise UsageError(f"{_WANTED}; found one to {name}")


_KINDS = {
    ("psycopg", "Connection"): Caller(_psycopg),
    ("psycopg", "AsyncConnection"): Caller(_psycopg_async, is_async=True),
    ("psycopg2", "connection"): Caller(_psycopg2),
    ("asyncpg", "Connection"): Caller(_asyncpg, is_async=True),
    ("asyncpg", "PoolConnectionProxy"): Caller(_asyncpg, is_async=True),
    ("sqlalchemy", "Connection"): Caller(_sqlalchemy),
    ("sqlalchemy", "Session"): Caller(_sqlalchemy_session),
    ("sqlalchemy", "scoped_session"): Caller(_sqlalchemy_session),
    ("sqlalchemy", "AsyncConnection"): Caller(_sqlalchemy_async, is_async=True),
    ("sqlalchemy", "AsyncSession"): Caller(_sqlalchemy_async_session, is_async=True),
    ("sqlalchemy", "async_scoped_session"): Caller(_sqlalchemy_async_session, is_async=True),
    ("django", "BaseDatabaseWrapper"): Caller(_django, is_of_thread=True),
    ("django", "ConnectionProxy"): Caller(_django, is_of_thread=True),
}
"""The connections we know, by the package and the name of their types."""
