"""A few connections to one server, handed to one thread at a time and never across a fork.

Each is lent as a line: the cursor on it, which keeps what the driver learnt about our values.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Generator

import psycopg
from psycopg import generators
from psycopg.pq import TransactionStatus

from redrive.errors import StoreBusy
from redrive.stores.postgres.tx import Connection, Line
from redrive.stores.refusals import closed

SIZE = 8
"""How many connections one store opens at most."""


class Pool:
    """Connections are made when they are needed, and kept for the next who asks."""

    def __init__(self, connect: Callable[[], Line], place: str, patience: float) -> None:
        self._connect = connect
        self._place = place
        self._patience = patience
        self._idle: list[Line] = []
        self._unanswered: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._closed = False
        self.on_loss: Callable[[], None] = lambda: None
        """Called when a connection was lost."""
        self._begin_threads()
        _pools.add(self)

    def _begin_threads(self) -> None:
        self._lock = threading.Lock()
        self._free = threading.Semaphore(SIZE)

    def send(self, statement: bytes) -> None:
        """Have a statement run that nobody waits for; who uses the connection next reads the answer."""
        with self.line() as line:
            connection = line.connection
            connection.pgconn.send_query(statement)
            connection.pgconn.flush()
            self._unanswered.add(connection)

    @contextlib.contextmanager
    def line(self) -> Generator[Line]:
        """Lend a line; one that comes back broken or in a transaction is not lent again."""
        if not self._free.acquire(timeout=self._patience):
            msg = f"all {SIZE} connections to {self._place} were in use for {self._patience:g} s"
            raise StoreBusy(msg)
        try:
            line = self._taken()
            try:
                yield line
            finally:
                self._put_back(line)
        finally:
            self._free.release()

    def _taken(self) -> Line:
        with self._lock:
            if self._closed:
                raise closed(self._place)
            line = self._idle.pop() if self._idle else None
        return line if line and self._answered(line.connection) else self._connect()

    def _answered(self, connection: Connection) -> bool:
        """Read what is left of an answer; False, and all are let go of, if the connection is lost."""
        try:
            if connection in self._unanswered:
                self._unanswered.discard(connection)
                connection.wait(generators.execute(connection.pgconn))
        except BaseException as error:
            connection.close()
            self.forget()
            if not isinstance(error, psycopg.Error):
                raise
        return not connection.closed

    def _put_back(self, line: Line) -> None:
        connection = line.connection
        status = connection.info.transaction_status
        sent = status is TransactionStatus.ACTIVE and connection in self._unanswered
        if status is TransactionStatus.IDLE or sent:
            with self._lock:
                if not self._closed:
                    self._idle.append(line)
                    return
        elif connection.closed:
            self.forget()  # the others are most likely as dead: the server went away
        connection.close()

    def forget(self) -> None:
        """Close what nobody uses now."""
        self.on_loss()
        with self._lock:
            idle, self._idle = self._idle, []
        for line in idle:
            with contextlib.suppress(psycopg.Error):
                line.connection.close()

    def close(self) -> None:
        """Lend no more; connections in use are closed when they come back. Twice is fine."""
        self._closed = True
        self.forget()

    def in_child(self) -> None:
        """Start anew: the connections are the parent's, and closing one here would end it there."""
        _of_parents.extend(self._idle)
        self._idle = []
        self._begin_threads()


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_of_parents: list[Line] = []


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.in_child()


os.register_at_fork(after_in_child=_after_fork_in_child)
