"""Jobs kept in memory: for tests, demonstrations, and programs that may lose them.

The whole contract holds but durability: when the process ends, everything is gone.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from redrive.jobs.clock import Clock, SystemClock
from redrive.stores._combine import within_itself
from redrive.stores.index.base import Drafted
from redrive.stores.index.changes import Change
from redrive.stores.index.engine import EngineStore
from redrive.stores.index.entries import Index
from redrive.stores.index.outbox import Place
from redrive.stores.listening import HintListener
from redrive.stores.report import Report

if TYPE_CHECKING:
    from redrive.stores._wake import PairHintListener

R = TypeVar("R")


class MemoryStore(EngineStore):
    """A store that lives as long as the program.

    >>> store = MemoryStore()
    >>> store.counts()
    []
    """

    url = "memory:"
    durability = "memory"

    def __init__(self, *, clock: Clock = SystemClock()) -> None:  # noqa: B008 - it has no state
        super().__init__(clock)
        self._index = Index()
        self._lock = threading.RLock()
        self._working = False
        self._listeners: tuple[PairHintListener, ...] = ()

    @property
    def index(self) -> Index:
        """All that the store holds."""
        return self._index

    def _write(self, work: Callable[[], Drafted[R]], *, durable: bool) -> R:
        del durable
        return self._read(lambda: self._applied(work))

    def _applied(self, work: Callable[[], Drafted[R]]) -> R:
        committed = False
        try:
            result, changes = work()
            for change in changes:
                self.index.apply(change, change)
            committed = True
        finally:
            self._close_shares(committed=committed)
        return result

    def _read(self, work: Callable[[], R]) -> R:
        with self._lock:
            if self._working:  # a signal handler, in the middle of its own thread's work
                raise within_itself()
            try:
                self._working = True
                return work()
            finally:
                self._working = False

    def _change_at(self, place: Place) -> Change:
        assert not isinstance(place, int)  # noqa: S101 - this store puts nothing else there
        return place

    def verify(self) -> Report:
        """Count the jobs; memory has nothing to be damaged."""
        with self._lock:
            jobs = len(self.index.entries)
        return Report(jobs, [], {"store": self.url, "durability": self.durability})

    def close(self) -> None:
        """Do nothing: the jobs stay until the store is let go of."""

    def listen(self) -> HintListener | None:
        """Return a listener for hints of this program's own threads."""
        if os.name != "posix":
            return None
        from redrive.stores._wake import PairHintListener  # noqa: PLC0415 - it needs what POSIX has

        listener = PairHintListener()
        with self._lock:
            self._listeners = (*(one for one in self._listeners if one.fileno() >= 0), listener)
        return listener

    def _hint(self) -> None:
        for one in self._listeners:
            one.hint()
