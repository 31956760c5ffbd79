"""Jobs kept in a file of JSON Lines: no database, and readable with any tool.

One line is one whole entry, and the last line of an id wins. Any number of threads and of processes
of one host may use the file at once. `lines` says how a line looks, `recovery` what happens to a
file after a crash, `journal` how it is written; here the verbs meet the file.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from redrive.errors import StoreError, StoreOutdated, StoreReadOnly
from redrive.jobs.clock import Clock, SystemClock
from redrive.stores import _files
from redrive.stores._combine import Combiner, Operation
from redrive.stores._files import FileLock, log
from redrive.stores._wake import Hints
from redrive.stores.contract import MIGRATED_ON_OPENING
from redrive.stores.counting import Backlog
from redrive.stores.index.engine import Engine
from redrive.stores.index.keeper import Drafted
from redrive.stores.index.verbs import EngineStore
from redrive.stores.jsonl import audit, compact, lines
from redrive.stores.jsonl.journal import Journal
from redrive.stores.listening import HintListener
from redrive.stores.report import Report

R = TypeVar("R")


class _Look(Generic[R]):
    """An operation that changes nothing, so it needs no lock."""

    def __init__(self, work: Callable[[Engine], R]) -> None:
        self._work = work

    def __call__(self, engine: Engine) -> R:
        return self._work(engine)


class _Chore(Generic[R]):
    """Something to be done to the file itself, when nothing waits to be written."""

    def __init__(self, work: Callable[[], R]) -> None:
        self._work = work

    def __call__(self, engine: Engine) -> R:
        del engine
        return self._work()


class _Closing:
    """The last operation of a store: the file is let go of when all that waits beside it is done."""

    def __call__(self, engine: Engine) -> None:
        """Change nothing."""


class JsonlStore(EngineStore):
    """A store in one file that people can read.

    With `read_only` nothing is made, locked or mended, and no permission to write is needed.
    """

    durability = "full"

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        allow_network: bool = False,
        patience: float = _files.PATIENCE,
        read_only: bool = False,
    ) -> None:
        super().__init__(clock)
        create = create and not read_only
        self._place = _files.prepare(Path(path), create=create, allow_network=allow_network)
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
        self._combiner: Combiner[Engine] = Combiner(self._commit)
        self._backlog = Backlog()

    def _open(self, *, create: bool) -> None:
        if self._read_only:
            self._journal.refresh(locked=False)
            self._check_version()
            return
        with self._lock.held():
            compact.remove_leftover(self._place)
            if create:
                self._journal.create()
            self._journal.refresh(locked=True)
            compact.if_doubtful(self._journal, self._clock)
            if len(self._journal.index.entries) <= MIGRATED_ON_OPENING:
                self._upgrade()

    def _upgrade(self) -> list[str]:
        """Write a file of an older version anew; a damaged one is left to `repair`. Under the lock."""
        journal = self._journal
        if not journal.is_outdated or journal.refusal is not None:
            return []
        compact.compact(journal, self._clock.now())
        return [f"{len(journal.index.entries)} jobs written anew as version {lines.VERSION}"]

    def _check_version(self) -> None:
        if self._journal.is_outdated:
            msg = (
                f"{self._place} is of version {self._journal.header.version}; this Redrive needs "
                f"{lines.VERSION}. Stop the old workers and run `redrive migrate --store {self.url}`; "
                "it can be interrupted and run again"
            )
            raise StoreOutdated(msg)

    def migrate(self) -> list[str]:
        """Bring an older file up to this version; returns the steps taken."""
        return self._alone(self._upgrade)

    def after_fork(self) -> None:
        """In a forked child: let go of what is the parent's, and open it again when asked."""
        self._journal.close()
        self._lock.forget()
        self._start()

    def _write(self, work: Callable[[Engine], Drafted[R]], *, durable: bool) -> R:
        def operation(engine: Engine) -> R:
            before = len(engine.shares)
            try:
                result, changes = work(engine)
                self._journal.draft(changes)
            except BaseException:
                engine.close_shares(committed=False, after=before)
                raise
            return result

        self._check_writable()
        return self._run(operation, durable=durable)

    def _read(self, work: Callable[[Engine], R]) -> R:
        return self._run(_Look(work), durable=False)

    def _run(self, operation: Callable[[Engine], R], *, durable: bool) -> R:
        if self._closed:
            raise self._was_closed()
        return self._combiner.run(operation, durable=durable)

    def _was_closed(self) -> StoreError:
        return StoreError(f"{self._place} was closed; open it again")

    def _commit(self, batch: list[Operation[Engine]]) -> None:
        """Do what waits; a store that is to be closed does everything else before."""
        kinds = {type(one.work) for one in batch}
        if self._closed:
            for one in batch:
                one.error = None if isinstance(one.work, _Closing) else self._was_closed()
        elif _Closing in kinds:
            self._finish(batch)
        elif kinds == {_Look}:
            self._look(batch)
        else:
            self._do(batch)

    def _finish(self, batch: list[Operation[Engine]]) -> None:
        """Do the last operations, and let go of the file."""
        others = [one for one in batch if not isinstance(one.work, _Closing)]
        try:
            if self._journal.needs_sync or any(type(one.work) is not _Look for one in others):
                self._do(batch)
            elif others:
                self._look(others)
        finally:
            self._closed = True
            self._journal.close()
            self._lock.close()

    def _look(self, batch: list[Operation[Engine]]) -> None:
        """Do operations that change nothing."""
        self._journal.refresh(locked=False)
        self._evaluate(self._engine(), batch)

    def _do(self, batch: list[Operation[Engine]]) -> None:
        """Do operations together; one sync serves all."""
        journal = self._journal
        with self._lock.held():
            journal.refresh(locked=True)
            chores = [one for one in batch if isinstance(one.work, _Chore)]
            engine = self._engine()
            try:
                durable = self._evaluate(
                    engine, [one for one in batch if one not in chores] if chores else batch
                )
                journal.flush(durable=durable)
            except BaseException:
                journal.distrust()
                engine.close_shares(committed=False)
                raise
            engine.close_shares(committed=True)
            compact.if_worthwhile(journal, self._clock)
            if chores:
                self._evaluate(engine, chores)

    def _engine(self) -> Engine:
        journal = self._journal
        return Engine(journal.index, self._clock, journal.change_at, self._backlog)

    def _evaluate(self, engine: Engine, batch: list[Operation[Engine]]) -> bool:
        """Do each on its own; gives whether what was done has to be synced."""
        durable = False
        for one in batch:
            try:
                if type(one.work) is not _Chore:
                    self._check_version()
                one.result = one.work(engine)
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

    def verify(self) -> Report:
        """Read the whole file and say what is wrong. Changes nothing."""
        return self._read(lambda _: audit.verify(self._journal, self.durability))

    def _alone(self, work: Callable[[], R]) -> R:
        self._check_writable()
        return self._run(_Chore(work), durable=False)

    def _check_writable(self) -> None:
        if self._read_only:
            msg = f"{self._place} was opened read-only"
            raise StoreReadOnly(msg)

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
                self._write(lambda engine: engine.write_rest(), durable=False)
            self._combiner.run(_Closing(), durable=True)
        except StoreError as error:
            log.warning("%s could not be synced when it was closed: %s", self._place, error)

    def listen(self) -> HintListener | None:
        """Return a listener for this store; see the contract."""
        return self._hints.listen()

    def _hint(self) -> None:
        self._hints.send()


_open_stores: weakref.WeakSet[JsonlStore] = weakref.WeakSet()


def _after_fork() -> None:
    for store in list(_open_stores):
        store.after_fork()


os.register_at_fork(after_in_child=_after_fork)
