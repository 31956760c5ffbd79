"""Hearing the hints of a store in PostgreSQL: LISTEN, on a connection of its own.

Behind a pooler in transaction mode no hint arrives, since the session that listens is another's a
moment later. That is no error: a listener also looks now and then.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
import weakref

import psycopg

from redrive.stores.postgres.address import Address
from redrive.stores.postgres.connecting import connect
from redrive.stores.postgres.tx import Connection, queries_for

HINT_HOLDS = 0.002
"""One hint stands for all that its sender adds within so many seconds. So a hint stays in the ear for
that long, and a worker that looks until it is gone has seen it all."""

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds between two tries to connect again."""


class PostgresListener:
    """Hears the hints of one schema; after a lost connection it makes another, beside the caller."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._line: list[Connection] = []
        """The connection, while there is one."""
        self._heard: float | None = None
        self._pause, self._next_try = _FIRST_PAUSE, 0.0
        self._begin_threads()
        self._end = weakref.finalize(self, _hang_up, self._line)
        _listening.add(self)
        self._connect()

    def _begin_threads(self) -> None:
        self._lock = threading.Lock()
        self._connecting = False

    def fileno(self) -> int:
        """Return the descriptor to poll; -1 while the connection is lost."""
        with contextlib.suppress(psycopg.Error, IndexError):
            return self._line[0].fileno()
        return -1

    def drain(self) -> None:
        """Take in the hints that were heard for long enough; see to the connection."""
        try:
            if self._line:
                self._take_in(self._line[0])
        except (psycopg.Error, OSError, ValueError):
            _hang_up(self._line)
            self._heard = None
        if not self._line and self._end.alive and not self._connecting:
            self._connect_again()

    def _take_in(self, connection: Connection) -> None:
        if not _is_readable(connection.fileno()):
            return
        now = time.monotonic()
        if self._heard is None:
            self._heard = now
        if now - self._heard < HINT_HOLDS:
            return
        self._heard = None
        connection.pgconn.consume_input()
        while connection.pgconn.notifies():
            pass

    def _connect_again(self) -> None:
        if time.monotonic() >= self._next_try:
            self._connecting = True
            threading.Thread(target=self._connect, name="redrive-listener", daemon=True).start()

    def _connect(self) -> None:
        """Make a connection that listens; what goes wrong is tried again later."""
        self._next_try = time.monotonic() + self._pause
        try:
            connection = _listening_to(self._address)
        except (psycopg.Error, OSError):
            self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        else:
            self._pause = _FIRST_PAUSE
            with self._lock:
                if self._end.alive:
                    self._line.append(connection)
                else:
                    connection.close()
        self._connecting = False

    def close(self) -> None:
        """Hear no more; twice is fine."""
        with self._lock:
            self._end()

    def in_child(self) -> None:
        """Go deaf after a fork: closing the connection here would end it in the parent."""
        _of_parents.extend(self._line)
        self._line.clear()
        self._end.detach()
        self._begin_threads()


def _listening_to(address: Address) -> Connection:
    connection = connect(address.conninfo)
    try:
        connection.execute(queries_for(address.schema).texts["listen"], prepare=False)
    except BaseException:
        connection.close()
        raise
    return connection


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _hang_up(line: list[Connection]) -> None:
    while line:
        with contextlib.suppress(psycopg.Error):
            line.pop().close()


_listening: weakref.WeakSet[PostgresListener] = weakref.WeakSet()
_of_parents: list[Connection] = []


def _after_fork_in_child() -> None:
    for listener in list(_listening):
        listener.in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
