"""Jobs in a SQLite file: the default store, for many threads and processes of one host.

The file is in WAL mode. What was promised to a caller (submits, actions) is synced before
the call returns; claims and settlements survive kill -9 and are synced with the next promise.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from redrive.errors import StoreError, UsageError
from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.job import Claim, Job, Settlement, State
from redrive.jobs.transitions import Changed, Verb
from redrive.stores import _files
from redrive.stores.contract import Count, Durability, Page, Query
from redrive.stores.counting import FOLD_EVERY, Backlog, Counts, Share, Tick, counts_added
from redrive.stores.listening import HintListener
from redrive.stores.report import Report
from redrive.stores.sql.actions import SqlActions
from redrive.stores.sql.groups import Places, Placing, add_ticks, fold
from redrive.stores.sql.lists import SqlLists
from redrive.stores.sql.notes import SqlNotes
from redrive.stores.sql.outbox import write_events
from redrive.stores.sql.tx import Row, Tx
from redrive.stores.sqlite import adding, audit, claiming, ending, opening, searching
from redrive.stores.sqlite.changing import FenceFell, write_changes
from redrive.stores.sqlite.claiming import Wanted
from redrive.stores.sqlite.file import Settings, SqliteFile
from redrive.stores.sqlite.rows import job_from_row
from redrive.stores.sqlite.tx import SqliteTx

if TYPE_CHECKING:
    from redrive.stores._wake import Hints

R = TypeVar("R")
_NO_SHARE = Share([], [], [])


class SqliteStore(SqlLists, SqlActions, SqlNotes):
    """A store in one file, made if it is missing.

    `patience` is how many seconds to wait for other processes. `durability="relaxed"` gives up the
    sync at every submit: a power cut may then lose the last ones.
    """

    schema = opening.VERSION

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        patience: float = _files.PATIENCE,
        read_only: bool = False,
        durability: Literal["full", "relaxed"] = "full",
    ) -> None:
        place = _files.prepare(Path(path), create=create and not read_only)
        self.url = opening.url_of(place)
        self._clock = clock
        self._name = os.urandom(8).hex()
        self._places = Places()
        self._backlog = Backlog()
        self._hints = None if read_only else _hints_of(place)
        self._file = SqliteFile(
            Settings(
                place=place,
                clock=clock,
                create=create,
                patience=patience,
                read_only=read_only,
                relaxed=durability == "relaxed",
            )
        )
        self._file.open()
        self.durability: Durability = self._found_durability(durability)
        weakref.finalize(self, self._file.give_up)

    def _found_durability(self, asked: Literal["full", "relaxed"]) -> Durability:
        """Promise no more than what SQLite was found to keep."""
        if asked == "full" and not self._file.settings.read_only:
            return "full" if self._file.synchronous() >= opening.FULL else "relaxed"
        return asked

    def _write(
        self,
        work: Callable[[SqliteTx], R],
        *,
        durable: bool,
        landed: Callable[[Tx, R], bool] | None = None,  # noqa: ARG002 - a commit here always answers
    ) -> R:
        return self._file.write(work, durable=durable)

    def _read(self, work: Callable[[SqliteTx], R]) -> R:
        return self._file.read(work)

    def _count(self, work: Callable[[SqliteTx, Placing], tuple[R, Counts]], *, durable: bool) -> R:
        """Run work that places failures and counts; what it counts is written with it, or waits."""
        tries: list[tuple[Placing, Share]] = []

        def counted(tx: SqliteTx) -> R:
            placing = self._places.begin(tx)
            answer, counts = work(tx, placing)
            share = self._backlog.share(counts, tx.now()) if counts.lanes else _NO_SHARE
            tries.append((placing, share))
            if share.write:
                _write_ticks(tx, share.write)
            return answer

        committed = False
        try:
            answer = self._file.write(counted, durable=durable)
            committed = True
        finally:
            for place, (placing, share) in enumerate(tries, 1):
                is_done = committed and place == len(tries)
                if share is not _NO_SHARE:
                    self._backlog.close(share, committed=is_done)
                if is_done:
                    self._places.keep(placing)
        return answer

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, whole; see the contract."""
        if within is not None:
            msg = f"`within` needs PostgreSQL; {self.url} has no transactions of yours to join"
            raise UsageError(msg)
        if not jobs:
            return []

        def work(tx: SqliteTx, placing: Placing) -> tuple[list[Job], Counts]:
            answers, fresh = adding.add(tx, jobs, placing)
            counts = counts_added(fresh, tx.now())
            if counts.lanes:
                write_events(tx, reports, ((None, job) for job in fresh))
            return answers, counts

        reports = self._reports()
        stored = self._count(work, durable=True)
        self._hint_of(stored)
        return stored

    def claim(
        self,
        handlers: Collection[str],
        *,
        limit: int,
        holder: str,
        lease_for: float,
        lanes: Collection[str] | None = None,
        only: Collection[str] | None = None,
        suspects: bool = False,
        ignore_waits: bool = False,
        past_pauses: bool = False,
    ) -> list[Claim]:
        """Lease due jobs, earliest due first; see the contract."""
        if limit < 1 or not handlers:
            return []

        def work(tx: SqliteTx) -> list[Claim]:
            wanted = Wanted(
                handlers=handlers,
                lanes=lanes,
                past_pauses=ignore_waits or past_pauses,
                only=only,
                suspects=suspects,
                latest=float("inf") if ignore_waits else tx.now(),
                limit=limit,
            )
            return claiming.claim(tx, wanted, holder, lease_for, self._name)

        return self._file.write(work, durable=False)

    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> list[bool]:
        """Lengthen leases from now; see the contract."""
        return self._file.write(
            lambda tx: ending.renew(tx, claims, lease_for, self._name), durable=False
        )

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""

        def work(tx: SqliteTx, placing: Placing) -> tuple[list[Job | None], Counts]:
            return ending.settle(tx, results, placing, reports, file=self._name, careful=careful)

        careful, reports = False, self._reports()
        try:
            return self._count(work, durable=False)
        except FenceFell:
            careful = True
            return self._count(work, durable=False)

    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None = None,
        handlers: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[Claim]:
        """Take over running jobs whose lease has ended; see the contract."""

        def work(tx: SqliteTx) -> list[Claim]:
            rows = ending.lost(tx, holder, handlers, max(limit, 0))
            return ending.seize(tx, rows, by=by, lease_for=lease_for, file=self._name)

        return self._file.write(work, durable=False)

    def _find(self, tx: Tx, query: Query) -> Page:
        return searching.find(cast("SqliteTx", tx), query)

    def _counts(self, tx: Tx) -> Iterable[Count]:
        return searching.counts(cast("SqliteTx", tx))

    def _tally(self, tx: Tx, query: Query) -> Iterable[Row]:
        return searching.tally(cast("SqliteTx", tx), query)

    def _job_of(self, row: Row) -> Job:
        return job_from_row(row)

    def _write_changes(self, tx: Tx, changes: Sequence[Changed], verb: Verb | None) -> None:  # noqa: ARG002
        write_changes(cast("SqliteTx", tx), [one for one in changes if one.changes])

    def _kinds(self, tx: Tx, state: State) -> Iterable[Row]:
        return tx.all("kinds", (state._value_, 0))

    def now(self) -> float:
        """Return the wall time of this host."""
        return self._clock.now()

    def size(self) -> int:
        """Return the bytes of the file and its log."""
        place = self._file.place
        return _files.size_of(place, place.with_name(place.name + "-wal"))

    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
        facts = {"store": self.url, "durability": self.durability}
        return self._file.read(lambda tx: audit.verify(tx, self._file.place, facts))

    def close(self) -> None:
        """Write the counts that wait here, and let go of the file; twice is fine."""
        with contextlib.suppress(StoreError):  # counts are not worth a failure to close
            self._write_waiting()
        self._file.close()

    def listen(self) -> HintListener | None:
        """Return a listener for this store; see the contract."""
        return None if self._hints is None else self._hints.listen()

    def _hint(self) -> None:
        if self._hints:
            self._hints.send()


def _write_ticks(tx: SqliteTx, ticks: Sequence[Tick]) -> None:
    """Append counts, and fold all there are if the oldest has waited for long enough."""
    add_ticks(tx, ticks)
    (oldest,) = tx.one("oldest_tick") or (tx.now(),)
    if abs(tx.now() - oldest) >= FOLD_EVERY:
        fold(tx)


def _hints_of(place: Path) -> Hints:
    from redrive.stores._wake import Hints  # noqa: PLC0415 - slow to load; who only looks needs none

    return Hints(place)
