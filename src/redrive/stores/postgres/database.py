"""Running work in transactions, again where that is safe, on a server that may go away.

Until COMMIT was sent, a transaction that failed has changed nothing and is repeated. When the
connection breaks after that, nobody knows: then the verb looks whether what it was about to answer
came true, and only if not it is repeated. How long all this may take is bounded.
"""

from __future__ import annotations

import contextlib
import functools
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import psycopg
from psycopg.errors import ObjectNotInPrerequisiteState

from redrive.errors import StoreError, StoreLost
from redrive.jobs.clock import Clock
from redrive.stores.postgres.address import Address
from redrive.stores.postgres.connecting import LONG, BoundedConnection, connect
from redrive.stores.postgres.errors import is_passing, translate
from redrive.stores.postgres.pool import Pool
from redrive.stores.postgres.tx import Connection, Line, PostgresTx, line_on, queries_for
from redrive.stores.refusals import check_version

R = TypeVar("R")

_LONGEST_PAUSE = 1.0
_UNCHECKED = frozenset({"begin_alone", "begin_opening"})
"""Transactions that may find another version of the schema, or none."""
_SECOND_LOOKS = (0.0, 0.05)
"""Seconds before each look for what a statement did whose answer was lost: it may just begin."""
_TIME_IS_FRESH = 5.0
"""Seconds for which a reading of the server's clock is carried on by our own."""


@dataclass(frozen=True, slots=True)
class _Outcome(Generic[R]):
    """What work came to; with an error if COMMIT was sent but not answered."""

    answer: R
    unsure: psycopg.Error | None = None


class _Effort:
    """How often the same is tried: until patience is over, with growing, uneven pauses."""

    def __init__(self, patience: float) -> None:
        self._end = time.monotonic() + patience
        self._pause = 0.0

    def is_over(self) -> bool:
        """Return True if the next try would come too late."""
        return time.monotonic() + self._pause > self._end

    def pause(self) -> None:
        """Wait a little; not at all the first time, for an old connection only had to be dropped."""
        time.sleep(self._pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads, hides nothing
        self._pause = min(_LONGEST_PAUSE, self._pause * 2 or 0.02)


def _elapsed() -> float:
    """Count seconds, also those in which the host sleeps, where that can be known."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Database:
    """One schema on one server, as a place to run transactions."""

    def __init__(self, address: Address, *, clock: Clock | None, patience: float) -> None:
        self.address = address
        self.queries = queries_for(address.schema)
        self._clock = clock
        self._patience = patience
        self._seen: tuple[float, float] | None = None
        self.pool = Pool(self._connect, address.url, patience)

    def _connect(self) -> Line:
        return line_on(connect(self.address.conninfo))

    def write(
        self,
        work: Callable[[PostgresTx], R],
        *,
        synced: bool,
        landed: Callable[[PostgresTx, R], bool] | None = None,
    ) -> R:
        """Run work in a transaction of its own; see the module's words."""
        begin = "begin_synced" if synced else "begin_relaxed"
        return self._persist(lambda: self._commit(begin, work), landed)

    def read(self, work: Callable[[PostgresTx], R]) -> R:
        """Run work on one snapshot."""
        return self._persist(lambda: self._commit("begin_read", work))

    def alone(self, work: Callable[[PostgresTx], R]) -> R:
        """Run work while no other program creates or changes what is in this schema."""
        return self._persist(lambda: self._commit("begin_alone", work))

    def opening(self, work: Callable[[PostgresTx], R]) -> R:
        """Run work that reads, though there may be no schema; a server that is away is an error at once."""
        return self._persist(lambda: self._commit("begin_opening", work), patience=0.0)

    def direct(self, work: Callable[[PostgresTx], R]) -> R:
        """Run statements that are each their own transaction; they may run twice."""
        return self._persist(lambda: self._lent(work))

    def once(self, work: Callable[[PostgresTx], R], recall: Callable[[PostgresTx], R | None]) -> R:
        """Run a statement that is its own transaction and must not take effect twice.

        When its answer is lost, `recall` finds out what it was; None if nothing was done.
        """
        return self._persist(lambda: self._answered(work, recall))

    @functools.cached_property
    def names(self) -> tuple[str, str]:
        """The name of the database, as the server knows it, and the server's id, if all may read it."""
        name, is_open = self.direct(lambda tx: tx.one("database")) or ("", False)
        (server,) = (is_open and self.direct(lambda tx: tx.one("server_id"))) or ("",)
        return str(name), str(server)

    def stands_in(self) -> float | None:
        """Return the time of the clock that replaces the server's in tests; else None."""
        return None if self._clock is None else self._clock.now()

    def send(self, name: str) -> None:
        """Have a statement run without waiting for it."""
        self.pool.send(self.queries.texts[name])

    def now(self) -> float:
        """Return the server's time; for a few seconds after a reading it is counted here."""
        if self._clock is not None:
            return self._clock.now()
        if self._seen is None or _elapsed() - self._seen[1] > _TIME_IS_FRESH:
            self.saw_time(self.direct(lambda tx: tx.now()))
        server, ours = self._seen or (0.0, 0.0)
        return server + _elapsed() - ours

    def saw_time(self, now: float) -> None:
        """Carry the server's time on from this reading of it."""
        self._seen = now, _elapsed()

    def _persist(
        self,
        attempt: Callable[[], _Outcome[R]],
        landed: Callable[[PostgresTx, R], bool] | None = None,
        *,
        patience: float | None = None,
    ) -> R:
        effort = _Effort(self._patience if patience is None else patience)
        while True:
            error: Exception
            try:
                outcome = attempt()
            except (psycopg.Error, OverflowError, UnicodeError) as problem:
                error = problem
            else:
                if outcome.unsure is None or (landed and self._came_true(landed, outcome.answer)):
                    return outcome.answer
                error = outcome.unsure
            newer = isinstance(error, ObjectNotInPrerequisiteState)
            if newer or not is_passing(error) or effort.is_over():
                raise self.explained(error) from error
            effort.pause()

    def explained(self, error: Exception) -> Exception:
        """Return our error for one of the driver's."""
        if isinstance(error, ObjectNotInPrerequisiteState):
            return self._other_version(error)
        return translate(error, self.address.url)

    def _other_version(self, error: Exception) -> Exception:
        """Return what a look at the schema's version raises, after a function refused ours."""
        try:
            self.read(lambda _: None)
        except StoreError as found:
            return found
        return translate(error, self.address.url)

    def _came_true(self, landed: Callable[[PostgresTx, R], bool], answer: R) -> bool:
        """Ask the verb whether its change was made, once the server can be asked again."""
        try:
            return self.write(lambda tx: landed(tx, answer), synced=False)
        except StoreError as error:
            raise self._unknown() from error

    def _lent(self, work: Callable[[PostgresTx], R]) -> _Outcome[R]:
        with self.pool.line() as line:
            return _Outcome(work(PostgresTx(line, self.queries, clock=self._clock)))

    def _answered(
        self, work: Callable[[PostgresTx], R], recall: Callable[[PostgresTx], R | None]
    ) -> _Outcome[R]:
        lost: psycopg.Error
        with self.pool.line() as line:
            try:
                return _Outcome(work(PostgresTx(line, self.queries, clock=self._clock)))
            except psycopg.Error as error:
                if not line.connection.closed:
                    raise
                lost = error
        for pause in _SECOND_LOOKS:
            time.sleep(pause)
            found = self._recalled(recall)
            if found is not None:
                return _Outcome(found)
        raise lost

    def _recalled(self, recall: Callable[[PostgresTx], R | None]) -> R | None:
        try:
            return self.write(recall, synced=False)
        except StoreError as error:
            raise self._unknown() from error

    def _unknown(self) -> StoreLost:
        return StoreLost(
            f"the connection to {self.address.url} broke while a change was being committed; "
            "it is not known if the change was made: check before you repeat it"
        )

    def _commit(self, begin: str, work: Callable[[PostgresTx], R]) -> _Outcome[R]:
        with self.pool.line() as kept:
            line = line_on(kept.connection)
            try:
                with _allowing_long(kept.connection, self._begun(line, begin)) as tx:
                    answer = work(tx)
            except BaseException:
                _roll_back(line)
                raise
            try:
                line.execute(b"COMMIT", prepare=False)
            except psycopg.Error as error:
                if line.connection.closed:
                    return _Outcome(answer, unsure=error)
                raise
            return _Outcome(answer)

    def _begun(self, line: Line, begin: str) -> PostgresTx:
        line.execute(self.queries.texts[begin], prepare=False, binary=False)
        while line.nextset():
            pass
        seconds, version, *_ = line.fetchone() or (0.0, None)
        now = float(seconds)
        self.saw_time(now)
        if begin not in _UNCHECKED:
            self.check_version(version)
        return PostgresTx(line, self.queries, now=now, clock=self._clock)

    def check_version(self, version: int | None) -> None:
        """Refuse to work on what another version of us has made of the tables meanwhile."""
        check_version(self.address.url, version or 0, self.queries.version)


@contextlib.contextmanager
def _allowing_long(connection: Connection, tx: PostgresTx) -> Generator[PostgresTx]:
    """Let each statement of a transaction look through all jobs."""
    bounded = cast("BoundedConnection", connection)
    usual, bounded.limit = bounded.limit, LONG
    try:
        yield tx
    finally:
        bounded.limit = usual


def _roll_back(line: Line) -> None:
    """Undo the transaction; a connection that cannot is closed when it is given back."""
    with contextlib.suppress(psycopg.Error):
        line.execute(b"ROLLBACK", prepare=False)
