"""Connections that never wait for ever, also for a server that takes packets but does not answer.

Locks are bounded by the server itself (`lock_timeout`, see `session.sql`), and a host that is gone by
the kernel (`tcp_user_timeout`, keepalives, see `address`). What is left is a server that is frozen, or
a session that is: its kernel still acknowledges every packet. So each wait for an answer has a limit
here, on the client's side. It costs nothing on the server and no round trip.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

R = TypeVar("R")

SHORT = 30.0
"""Seconds for the answer to what is quick: to begin, to commit, to add, claim or end jobs."""
LONG = 600.0
"""Seconds for the answer to a statement that may look through all jobs."""
_CANCELLING = 2.0


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server has not answered for `limit` seconds."""

    limit: float = SHORT

    def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
        """Wait as the driver does, but not for ever."""
        try:
            return super().wait(_limited(gen, self.limit), *args, **options)
        except _Silent:
            self._give_up()
            msg = f"the server has not answered for {self.limit:g} s"
            raise psycopg.OperationalError(msg) from None

    def _give_up(self) -> None:
        """Ask the server to stop the statement, if it can still be asked, and hang up."""
        if psycopg.capabilities.has_cancel_safe():  # the older way to ask has no limit itself
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=_CANCELLING)
        self.pgconn.finish()


class _Silent(Exception):
    """The limit is over."""


def _limited(waiting: Generator[Any, Any, R], limit: float) -> Generator[Any, Any, R]:
    """Pass on what the driver waits for; it wakes us ten times a second if nothing happens."""
    end = time.monotonic() + limit
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() > end:
                raise _Silent
            wanted = waiting.send(ready)
    except StopIteration as answer:
        result: R = answer.value
        return result


def connect(conninfo: str) -> BoundedConnection:
    """Connect; how long that may take is said in `conninfo`."""
    return BoundedConnection.connect(
        conninfo, autocommit=True, prepare_threshold=None, client_encoding="utf8"
    )
