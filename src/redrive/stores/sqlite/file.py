"""One SQLite file as a place to run transactions, safe for threads, processes and forks.

Writers queue up in a combiner; the leader commits for all that wait, under the file lock, which
also keeps checkpoints of other processes away. Readers have a connection of their own and see the
last commit; no sync ever blocks them.

Forks: SQLite keeps one table of locks for each process. A child that inherits an open connection
inherits the belief that it holds locks which only the parent has, so every file is closed before a
fork and opened again when it is next needed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from redrive.errors import StoreError, StoreLost
from redrive.jobs import logger
from redrive.jobs.clock import Clock
from redrive.stores._combine import Combiner, Operation, within_itself
from redrive.stores._files import FileLock
from redrive.stores.refusals import check_version, closed, not_writable
from redrive.stores.sqlite import opening, unanswered
from redrive.stores.sqlite.errors import KNOWN, translate, translated
from redrive.stores.sqlite.tx import SqliteTx
from redrive.stores.sqlite.watch import Watch

log = logger.log.getChild("store")

P = ParamSpec("P")
R = TypeVar("R")

_CLOSING_PATIENCE = 2.0
"""Seconds to wait for the lock to close: taking over the log then is good, but nothing depends on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a file is to be used."""

    place: Path
    clock: Clock
    create: bool
    patience: float
    read_only: bool
    relaxed: bool


class SqliteFile:
    """The connections to one file, and the order in which they are used."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.place = settings.place
        self._watch = Watch(settings.place)
        self._lock = FileLock(self.place.with_name(self.place.name + ".lock"), settings.patience)
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._synchronous = -1
        self._failed = False
        self._closed = False
        self._begin_threads()
        _open_files.add(self)

    def _begin_threads(self) -> None:
        self._turn = threading.Lock()
        self._reading = threading.RLock()
        self._is_reading = False
        self._combiner: Combiner[SqliteTx] = Combiner(self._commit)

    def open(self) -> None:
        """Open it now, so that what is wrong with it is said now."""
        try:
            with translated(self.place):
                self._open()
        except BaseException:
            self.give_up()
            raise

    def _open(self) -> None:
        if self.settings.read_only:
            self.read(lambda _: None)
            return
        opening.recognise(self.place, self.settings.patience)
        with self._turn, self._lock.held():
            opening.create_file(self.place, create=self.settings.create)
            self._watch.check()
            self._open_writer()

    def write(self, work: Callable[[SqliteTx], R], *, durable: bool) -> R:
        """Run work in a transaction of its own or a shared one."""
        if self.settings.read_only:
            raise not_writable(self.place)
        return self._combiner.run(work, durable=durable)

    def read(self, work: Callable[[SqliteTx], R]) -> R:
        """Run work on a snapshot of the last commit."""
        with self._reading, translated(self.place):
            if self._is_reading:
                raise within_itself()
            try:
                self._is_reading = True
                with self._snapshot() as reader:
                    return work(SqliteTx(reader, self.settings.clock))
            finally:
                self._is_reading = False

    @contextlib.contextmanager
    def _snapshot(self) -> Generator[sqlite3.Connection]:
        self._check_open()
        self._watch.check()
        if self._writer is not None:
            self._watch.check_log()
        reader, keep = self._reader, True
        if reader is None:
            reader, keep = opening.open_reader(self.place, self.settings.patience)
            self._reader = reader if keep else None
        reader.execute("BEGIN")
        try:
            yield reader
        finally:
            if reader.in_transaction:
                reader.execute("ROLLBACK")
            if not keep:
                reader.close()

    def synchronous(self) -> int:
        """Return how durable commits are synced."""
        return self._exclusively(opening.synchronous)

    def close(self) -> None:
        """Let go of the file; twice is fine."""
        self._combiner.caller()
        with self._turn, self._reading:
            if self._is_reading:
                raise within_itself()
            self._closed = True
            if self._writer is None:
                self._close_reader()
            if not self.give_up():
                log.warning(
                    "%s was closed without a checkpoint, because another process holds the lock; "
                    "nothing is lost: the next program that opens it makes the checkpoint",
                    self.place,
                )

    def _commit(self, batch: list[Operation[SqliteTx]]) -> None:
        self._exclusively(self._run_all, batch)

    def _run_all(self, writer: sqlite3.Connection, batch: list[Operation[SqliteTx]]) -> None:
        """Run operations in one transaction; if one of them fails, each in its own.

        When the disk failed there is no second try: it may forget what it could not write, and say
        of the next sync that all is well.
        """
        try:
            self._run(writer, batch)
        except Exception:
            if len(batch) == 1 or self._failed:
                raise
            for one in batch:
                self._run_alone(writer, one)

    def _run_alone(self, writer: sqlite3.Connection, one: Operation[SqliteTx]) -> None:
        try:
            self._check_disk()
            self._run(writer, [one])
        except Exception as error:  # noqa: BLE001 - it belongs to the caller of this one
            one.error = translate(error, self.place)

    def _run(self, writer: sqlite3.Connection, batch: list[Operation[SqliteTx]]) -> None:
        durable = True in [one.durable for one in batch]
        wanted = opening.FULL if durable and not self.settings.relaxed else opening.NORMAL
        if wanted != self._synchronous:
            writer.execute(f"PRAGMA synchronous = {wanted:d}")
            self._synchronous = wanted
        try:
            writer.execute("BEGIN IMMEDIATE")
            (version,) = writer.execute("PRAGMA user_version").fetchone()
            if version != opening.VERSION:
                check_version(opening.url_of(self.place), version, opening.VERSION)
            tx = SqliteTx(writer, self.settings.clock)
            for one in batch:
                one.result = one.work(tx)
            writer.execute("COMMIT")
        except BaseException as error:
            self._roll_back(writer)
            if isinstance(error, sqlite3.Error):
                self._failed = isinstance(translate(error, self.place), StoreLost)
            if self._failed:
                unanswered.leave(self.place)
            raise

    def _roll_back(self, writer: sqlite3.Connection) -> None:
        """Undo the transaction; a connection that cannot is given up and opened anew."""
        try:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        except sqlite3.Error:
            self._writer = None
            with contextlib.suppress(sqlite3.Error):
                writer.close()

    def _exclusively(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Have work done with the writing connection, by one thread of one process at a time."""
        try:
            with self._turn:
                self._check_open()
                self._check_disk()
                with self._lock.held():
                    self._watch.check(stands=True)
                    if self._writer is not None:
                        self._watch.check_log()
                    return work(self._writer or self._open_writer(), *args, **kwargs)
        except KNOWN as error:
            raise translate(error, self.place) from error

    def _open_writer(self) -> sqlite3.Connection:
        unanswered.clear(self.place)
        writer = opening.open_writer(self.place, self.settings.patience)
        try:
            opening.create_schema(writer, self.place)
        except BaseException:
            writer.close()
            raise
        self._watch.follow_log()
        self._writer, self._synchronous = writer, opening.FULL
        return writer

    def _check_open(self) -> None:
        if self._closed:
            raise closed(self.place)

    def _check_disk(self) -> None:
        """Refuse to write after a write failed, until somebody looked and opened it again."""
        if self._failed:
            msg = f"an earlier write to {self.place} failed; check the disk, then open it again"
            raise StoreLost(msg)

    def _close_connections(self) -> None:
        """Close both; the lock must be held, for the last one to close takes over the log.

        A log that is not ours must not be removed: the reader, which cannot, is closed last then.
        """
        connections = [self._reader, self._writer]
        if self._writer is not None and self._watch.log_is_lost():
            if self._reader is None:
                with contextlib.suppress(sqlite3.Error, StoreError):
                    connections[0], _ = opening.open_reader(self.place, self.settings.patience)
            connections.reverse()
        self._reader = self._writer = None
        unanswered.try_to_clear(self.place)
        for connection in connections:
            if connection is not None:
                connection.close()

    def before_fork(self) -> None:
        """Wait until nobody uses the file, and close it."""
        self._turn.acquire()
        self._reading.acquire()
        self.give_up()

    def after_fork(self) -> None:
        """Let the parent's threads go on."""
        self._reading.release()
        self._turn.release()

    def in_child(self) -> None:
        """Start anew: locks and waiting operations belong to the parent."""
        self._begin_threads()

    def _close_reader(self) -> None:
        """Close the connection of a store that was only read: it may not take over the log."""
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(sqlite3.Error):
                reader.close()

    def give_up(self) -> bool:
        """Close without waiting long; False if what cannot be closed safely is kept open for ever."""
        self._lock.close()
        if not (self._writer or self._reader):
            return True
        lock = FileLock(self._lock.place, _CLOSING_PATIENCE)
        try:
            with lock.held():
                self._close_connections()
        except (StoreError, sqlite3.Error):
            _abandoned.extend([self._reader, self._writer])
            self._reader = self._writer = None
            return False
        finally:
            lock.close()
        return True


_open_files: weakref.WeakSet[SqliteFile] = weakref.WeakSet()
_abandoned: list[sqlite3.Connection | None] = []
_held_for_fork: list[SqliteFile] = []


def _before_fork() -> None:
    _held_for_fork.extend(_open_files)
    for file in _held_for_fork:
        file.before_fork()


def _after_fork_in_parent() -> None:
    while _held_for_fork:
        _held_for_fork.pop().after_fork()


def _after_fork_in_child() -> None:
    while _held_for_fork:
        _held_for_fork.pop().in_child()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
