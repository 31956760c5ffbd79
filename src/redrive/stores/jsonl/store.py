"""Jobs kept in a file of JSON Lines: no database, and readable with any tool.

One line is one whole entry, and the last line of an id wins. Any number of threads and of processes
of one host may use the file at once. `lines` says how a line looks, `recovery` what happens to a
file after a crash, `journal` how it is written; here the verbs meet the file.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, Literal, TypeVar, cast

from redrive.errors import StoreError, StoreReadOnly
from redrive.jobs.clock import Clock, SystemClock
from redrive.stores import _files
from redrive.stores._combine import Combiner, Operation
from redrive.stores._files import FileLock, log
from redrive.stores._wake import Hints
from redrive.stores.counting import Backlog
from redrive.stores.index.base import Drafted
from redrive.stores.index.changes import Change
from redrive.stores.index.engine import EngineStore
from redrive.stores.index.entries import Index
from redrive.stores.index.outbox import Place
from redrive.stores.jsonl import audit, compact, lines
from redrive.stores.jsonl.journal import Journal
from redrive.stores.listening import HintListener
from redrive.stores.refusals import closed
from redrive.stores.report import Report

R = TypeVar("R")
_Kind = Literal["write", "read", "chore", "close"]
"""A read needs no lock. A chore is done to the file itself, when nothing waits to be written. After the one
that closes the store the file is let go of."""


class _Work(Generic[R]):
    """Something to do while nobody else uses the journal."""

    def __init__(self, kind: _Kind, run: Callable[[], R]) -> None:
        self.kind: _Kind = kind
        self._run = run

    def __call__(self, _: None) -> R:
        """Do it."""
        return self._run()


class JsonlStore(EngineStore):
    """A store in one file that people can read.

    With `read_only` nothing is made, locked or mended, and no permission to write is needed.
    """

    durability = "full"
    schema = lines.VERSION

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        patience: float = _files.PATIENCE,
        read_only: bool = False,
    ) -> None:
        super().__init__(clock)
        create = create and not read_only
        self._place = _files.prepare(Path(path), create=create)
        self.url = f"jsonl:{self._place}"
        self._read_only = read_only
        self._patience = patience
        self._hints = Hints(self._place)
        self._closed = False
        self._start()
        self._open(create=create)
        _open_stores.add(self)

    def _start(self) -> None:
        """Begin with nothing in memory; also after a fork, where other threads are gone."""
        self._journal = Journal(self._place, self._clock, read_only=self._read_only)
        lock_place = self._place.with_name(self._place.name + ".lock")
        self._lock = FileLock(lock_place, self._patience)
        self._combiner: Combiner[None] = Combiner(self._commit)
        self._backlog, self._shares = Backlog(), []

    @property
    def index(self) -> Index:
        """What the file holds, as far as it was read."""
        return self._journal.index

    def _change_at(self, place: Place) -> Change:
        return self._journal.change_at(place)

    def _open(self, *, create: bool) -> None:
        if self._read_only:
            self._journal.refresh(locked=False)
            return
        with self._lock.held():
            compact.remove_leftover(self._place)
            if create:
                self._journal.create()
            self._journal.refresh(locked=True)
            compact.if_doubtful(self._journal, self._clock)

    def after_fork(self) -> None:
        """In a forked child: let go of what is the parent's, and open it again when asked."""
        self._journal.close()
        self._lock.forget()
        self._start()

    def _write(self, work: Callable[[], Drafted[R]], *, durable: bool) -> R:
        def draft() -> R:
            before = len(self._shares)
            try:
                result, changes = work()
                self._journal.draft(changes)
            except BaseException:
                self._close_shares(committed=False, after=before)
                raise
            return result

        self._check_writable()
        return self._run("write", draft, durable=durable)

    def _read(self, work: Callable[[], R]) -> R:
        return self._run("read", work)

    def _run(self, kind: _Kind, work: Callable[[], R], *, durable: bool = False) -> R:
        if self._closed:
            raise closed(self._place)
        return self._combiner.run(_Work(kind, work), durable=durable)

    def _commit(self, batch: list[Operation[None]]) -> None:
        """Do what waits; a store that is to be closed does everything else before."""
        kinds = {_kind(one) for one in batch}
        if self._closed:
            for one in batch:
                one.error = None if _kind(one) == "close" else closed(self._place)
        elif "close" in kinds:
            self._finish(batch)
        elif kinds == {"read"}:
            self._look(batch)
        else:
            self._do(batch)

    def _finish(self, batch: list[Operation[None]]) -> None:
        """Do the last operations, and let go of the file."""
        others = [one for one in batch if _kind(one) != "close"]
        try:
            if self._journal.needs_sync or any(_kind(one) != "read" for one in others):
                self._do(batch)
            elif others:
                self._look(others)
        finally:
            self._closed = True
            self._journal.close()
            self._lock.close()

    def _look(self, batch: list[Operation[None]]) -> None:
        """Do operations that change nothing."""
        self._journal.refresh(locked=False)
        self._evaluate(batch)

    def _do(self, batch: list[Operation[None]]) -> None:
        """Do operations together; one sync serves all."""
        journal = self._journal
        with self._lock.held():
            journal.refresh(locked=True)
            committed = False
            try:
                durable = self._evaluate(one for one in batch if _kind(one) != "chore")
                journal.flush(durable=durable)
                committed = True
            finally:
                if not committed:
                    journal.distrust()
                self._close_shares(committed=committed)
            compact.if_worthwhile(journal, self._clock)
            self._evaluate(one for one in batch if _kind(one) == "chore")

    def _evaluate(self, batch: Iterable[Operation[None]]) -> bool:
        """Do each on its own; returns True if what was done has to be synced."""
        durable = False
        for one in batch:
            try:
                one.result = one.work(None)
                durable = durable or one.durable
            except Exception as error:  # noqa: BLE001 - it is that caller's alone
                one.error = error
        return durable

    def compact(self) -> None:
        """Rewrite the file with what is still needed. It also happens by itself."""
        self._alone(lambda: compact.compact(self._journal, self._clock.now()))

    def repair(self) -> list[str]:
        """Put damaged bytes aside and go on with every line that is whole; gives what was done."""
        return self._alone(lambda: compact.repair(self._journal, self._clock.now()))

    def size(self) -> int:
        """Return the bytes of the file."""
        return _files.size_of(self._place)

    def verify(self) -> Report:
        """Read the whole file and say what is wrong. Changes nothing."""
        return self._read(lambda: audit.verify(self._journal, self.durability))

    def _alone(self, work: Callable[[], R]) -> R:
        self._check_writable()
        return self._run("chore", work)

    def _check_writable(self) -> None:
        if self._read_only:
            raise StoreReadOnly(f"{self._place} was opened read-only")

    def __del__(self) -> None:
        # A store that was never closed, or never opened, must not leave its files open.
        for one in (getattr(self, "_journal", None), getattr(self, "_lock", None)):
            if one is not None:
                one.close()

    def close(self) -> None:
        """Let go of the file; what is in it is synced and marked before. Twice is fine.

        It waits its turn: in the middle of another thread's write the lock must not be given up.
        """
        if self._closed:
            return
        self._combiner.caller()
        try:
            if self._backlog.waiting():
                self._write(self._rest, durable=False)
            self._combiner.run(_Work("close", lambda: None), durable=True)
        except StoreError as error:
            log.warning("%s could not be synced when it was closed: %s", self._place, error)

    def listen(self) -> HintListener | None:
        """Return a listener for this store; see the contract."""
        return self._hints.listen()

    def _hint(self) -> None:
        self._hints.send()


def _kind(operation: Operation[None]) -> _Kind:
    return cast("_Work[object]", operation.work).kind


_open_stores: weakref.WeakSet[JsonlStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_open_stores):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
