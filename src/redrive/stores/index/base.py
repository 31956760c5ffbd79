"""What the memory and the journal store share: how a verb meets the index.

A verb is a method that looks at the index and changes nothing. One that reads (`@reads`) returns its result;
one that writes (`@writes`) also returns the changes it drafted, which the store keeps (a journal writes
their lines) and applies before the caller gets the result. A verb that raises has changed nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from redrive.jobs.clock import Clock
from redrive.jobs.job import Job
from redrive.stores.contract import Store
from redrive.stores.counting import FOLD_EVERY, Backlog, Counts, Share
from redrive.stores.index.changes import Change, Put
from redrive.stores.index.counts import View, view
from redrive.stores.index.draft import Draft
from redrive.stores.index.entries import Entry, Index
from redrive.stores.index.outbox import Place

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="IndexStore")
Drafted = tuple[R, list[Change]]
"""What a verb returns, and what must be kept before it may."""


class IndexStore(Store):
    """A store that evaluates its verbs against an index."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._backlog = Backlog()
        self._shares: list[Share] = []
        """What the verbs so far do with their counts: to be closed once they are committed."""

    @property
    @abstractmethod
    def index(self) -> Index:
        """What the store holds, without the bodies of jobs."""

    @abstractmethod
    def _write(self, work: Callable[[], Drafted[R]], *, durable: bool) -> R:
        """Run a verb and keep what it drafts before returning its result."""

    @abstractmethod
    def _read(self, work: Callable[[], R]) -> R:
        """Run a verb that changes nothing."""

    @abstractmethod
    def _change_at(self, place: Place) -> Change:
        """Return the change at a place, such as a whole job."""

    def now(self) -> float:
        """Return the store's wall time."""
        return self._clock.now()

    def _load(self, entry: Entry) -> Job:
        put = self._change_at(entry.place)
        assert isinstance(put, Put)  # noqa: S101 - entries have no other places
        return put.job

    def _draft(self) -> Draft:
        return Draft(self.index, self._load, self._clock.now())

    def _view(self) -> View:
        return view(self.index, self._backlog.waiting(), self._clock.now())

    def _count(self, draft: Draft, counts: Counts) -> None:
        """Write the counts of an operation, or leave them in the process for a while."""
        if not counts.lanes:
            return
        if self.index.ticks and not 0 <= draft.now - self.index.folded_at < FOLD_EVERY:
            draft.changes += view(self.index, (), draft.now).fold()
        share = self._backlog.share(counts, draft.now)
        self._shares.append(share)
        draft.changes += share.write

    def _rest(self) -> Drafted[None]:
        """Write the counts that wait in this process."""
        rest = self._backlog.rest()
        self._shares.append(rest)
        return None, [*rest.write]

    def _close_shares(self, *, committed: bool, after: int = 0) -> None:
        """Keep the counts of operations, after the first so many, that were not written."""
        for share in self._shares[after:]:
            self._backlog.close(share, committed=committed)
        del self._shares[after:]


def reads(verb: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Have the store run a verb that changes nothing."""

    @wraps(verb)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._read(lambda: verb(self, *args, **kwargs))

    return run


def writes(
    *, durable: bool
) -> Callable[[Callable[Concatenate[S, P], Drafted[R]]], Callable[Concatenate[S, P], R]]:
    """Have the store run a verb and keep what it drafts; synced if `durable`."""

    def decorated(
        verb: Callable[Concatenate[S, P], Drafted[R]],
    ) -> Callable[Concatenate[S, P], R]:
        @wraps(verb)
        def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            return self._write(lambda: verb(self, *args, **kwargs), durable=durable)

        return run

    return decorated
