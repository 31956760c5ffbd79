"""Jobs in PostgreSQL: for many threads, processes and hosts; the database's clock counts alone.

Submits, actions and claims are on disk before they are answered. Settlements are committed
before they are answered too, but the server may sync them a moment later: they survive the death of
every client, and after a power cut of the server the last ones may be undone and run again.

Nothing is kept in a session (no prepared statement, no setting, no lock outlives its transaction),
so a pooler in transaction mode may stand between.
"""

from __future__ import annotations

import contextlib
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeVar, cast

import psycopg

from redrive.errors import RedriveError, StoreError, UsageError
from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.job import Claim, Job, Settlement, State
from redrive.jobs.threads import Threads, hop
from redrive.jobs.transitions import Changed, Verb
from redrive.stores.contract import Count, Page, Query
from redrive.stores.counting import FOLD_EVERY, Backlog, Tick, counts_added, last_release
from redrive.stores.listening import HintListener
from redrive.stores.postgres import (
    actions,
    adding,
    audit,
    claiming,
    opening,
    search,
    settling,
    view,
)
from redrive.stores.postgres.address import read_url
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.listener import HINT_HOLDS, PostgresListener
from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.transactions import atalk, caller_of, talk
from redrive.stores.postgres.tx import VERSION, PostgresTx
from redrive.stores.postgres.within import Adding, Extras
from redrive.stores.refusals import not_writable
from redrive.stores.report import Report
from redrive.stores.sql.actions import SqlActions
from redrive.stores.sql.groups import Places, Placing
from redrive.stores.sql.lists import SqlLists
from redrive.stores.sql.notes import SqlNotes
from redrive.stores.sql.outbox import EventRow
from redrive.stores.sql.tx import Row, Tx

R = TypeVar("R")


class PostgresStore(SqlLists, SqlActions, SqlNotes):
    """A store in the schema of a database, made if it is missing.

    `patience` is how many seconds to wait for locks that others hold, or for a server that is away; by
    default what the URL says (`?max_wait=`), else 15. The last try may take 4 seconds more.
    `clock` is for tests: one that stands still counts in place of the database's. The machine's own
    never does.
    """

    is_server = True
    schema = VERSION

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        clock: Clock | None = None,
        patience: float | None = None,
        read_only: bool = False,
    ) -> None:
        address = read_url(url)
        self.url = address.url
        self.channel = address.channel
        self._read_only = read_only
        self._hinted = 0.0
        self._backlog = Backlog()
        self._places = Places()
        self._damaged = claiming.Damaged()
        self._folded = time.monotonic()
        stands_in = None if isinstance(clock, SystemClock) else clock
        self._patience = address.max_wait if patience is None else patience
        self._database = Database(address, clock=stands_in, patience=self._patience)
        self._database.pool.on_loss = self._places.forget
        self._settler = settling.Settler(self._database, self._places, self._backlog)
        weakref.finalize(self, self._database.pool.close)
        try:
            opening.open_schema(self._database, create=create and not read_only)
            self.durability = opening.durability_of(self._database)
        except BaseException:
            self._database.pool.close()
            raise

    def _write(
        self,
        work: Callable[[Tx], R],
        *,
        durable: bool,
        landed: Callable[[Tx, R], bool] | None = None,
    ) -> R:
        self._check_writable()
        return self._database.write(work, synced=durable, landed=landed)

    def _read(self, work: Callable[[Tx], R]) -> R:
        return self._database.read(work)

    def _check_writable(self) -> None:
        if self._read_only:
            raise not_writable(self.url)

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Store jobs; see the contract. With `within` they are stored when it commits."""
        if not jobs:
            return []
        self._check_writable()
        if within is not None:
            return self._add_within(within, jobs)
        stored = self._add_at_once(jobs) if adding.are_distinct(jobs) else None
        while stored is None:
            with contextlib.suppress(adding.Taken):
                stored, placing = self._database.write(lambda tx: self._add(tx, jobs), synced=True)
                self._places.keep(placing)
        self._hint_of(stored)
        return stored

    async def aadd(self, threads: Threads, jobs: Sequence[Job], *, within: object) -> list[Job]:
        """Add jobs in the caller's transaction, from async code; see the contract."""
        caller = caller_of(within)
        if caller.is_of_thread:
            msg = (
                "Django's connection belongs to its thread: call the sync `submit` beside the rest of "
                "your transaction, in the function that you give to sync_to_async"
            )
            raise UsageError(msg)
        if not caller.is_async:
            return await super().aadd(threads, jobs, within=within)
        if not jobs:
            return []
        return await atalk(caller, (await hop(threads, self._adding, jobs)).conversation())

    def _add_at_once(self, jobs: Sequence[Job]) -> list[Job] | None:
        """Store jobs in one statement; None if one is there already, or its group is not known here."""
        try:
            new = [adding.as_new(job, self._group(job)) for job in jobs]
            extras = self._extras(new)
            self._database.direct(lambda tx: adding.insert(tx, new, *extras(new)))
        except (adding.Taken, KeyError):
            return None
        return [adding.without_history(job) for job in new]

    def _add(self, tx: PostgresTx, jobs: Sequence[Job]) -> tuple[list[Job], Placing]:
        """Store those that are new; groups are made only for failures that are stored."""
        placing = self._places.begin(tx)

        def place(job: Job) -> int | None:
            failure = job.failure
            return placing.place(failure, release=last_release(job)) if failure else None

        fresh, answers = adding.sorted_out(jobs, adding.look_up(tx, jobs), place)
        adding.insert(tx, fresh, *self._extras(fresh)(fresh))
        return answers, placing

    def _group(self, job: Job) -> int | None:
        return self._places.place(job.failure) if job.failure else None

    def _extras(self, jobs: Sequence[Job]) -> Extras:
        """Return how to count and report those of these jobs that have just died."""
        if not any(job.state is State.DEAD for job in jobs):
            return lambda _: ((), ())
        now, reports = self.now(), self._reports()

        def extras(new: Sequence[Job]) -> tuple[list[Tick], list[EventRow]]:
            counts = counts_added(new, now)
            events = reports.rows(((None, job) for job in new), now)
            return [Tick(now, counts)] if counts.lanes else [], events

        return extras

    def _add_within(self, within: object, jobs: Sequence[Job]) -> list[Job]:
        caller = caller_of(within)
        if caller.is_async:
            msg = f"{type(within).__name__} is async: use `await` and `asubmit`, not `submit`"
            raise UsageError(msg)
        return talk(caller, self._adding(jobs).conversation())

    def _adding(self, jobs: Sequence[Job]) -> Adding:
        """Ask our own connections for all that is needed to add jobs in a transaction of the caller's.

        Groups are made before it, or all other new groups would wait for the caller's commit.
        """
        self._check_writable()
        failed = [(job.failure, last_release(job)) for job in jobs if job.failure is not None]
        self._places.learn(lambda work: self._database.write(work, synced=True), failed)
        names = self._database.names
        return Adding(self._database, *names, jobs, self._group, self._extras(jobs), self._patience)

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
        self._check_writable()
        if limit < 1 or not handlers:
            return []
        which = claiming.which(
            handlers,
            lanes,
            only,
            suspects=suspects,
            ignore_waits=ignore_waits,
            past_pauses=past_pauses,
        )
        return claiming.claim(self._database, self._damaged, limit, which, (holder, lease_for))

    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> list[bool]:
        """Lengthen leases from now; see the contract."""
        self._check_writable()
        return settling.renew(self._database, claims, lease_for) if claims else []

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        self._check_writable()
        answers = self._settler.settle(results, self._reports())
        self._fold_now_and_then()
        return answers

    def _fold_now_and_then(self) -> None:
        """Fold if this process has not folded for a while."""
        now = time.monotonic()
        if now - self._folded >= FOLD_EVERY:
            self._folded = now
            with contextlib.suppress(StoreError):
                self.fold()

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
        self._check_writable()
        return self._database.write(
            lambda tx: actions.seize(
                tx,
                by=by,
                lease_for=lease_for,
                holder=holder,
                handlers=handlers,
                damaged=self._damaged.numbers(),
                limit=limit,
                place=self.url,
            ),
            synced=True,
            landed=actions.claims_landed,
        )

    def get(self, job_id: str) -> Job | None:
        """Return one job with its history; none has an id that PostgreSQL cannot even compare."""
        return None if "\0" in job_id else super().get(job_id)

    def _find(self, tx: Tx, query: Query) -> Page:
        return search.find(cast("PostgresTx", tx), query)

    def _counts(self, tx: Tx) -> Iterable[Count]:
        return search.counts(cast("PostgresTx", tx))

    def _tally(self, tx: Tx, query: Query) -> Iterable[Row]:
        return search.tally(cast("PostgresTx", tx), query)

    def _job_of(self, row: Row) -> Job:
        return job_from_row(row)

    def _write_changes(self, tx: Tx, changes: Sequence[Changed], verb: Verb | None) -> None:
        actions.write_changes(cast("PostgresTx", tx), changes, verb)

    def _kinds(self, tx: Tx, state: State) -> Iterable[Row]:
        return tx.all("kinds", (state._value_,))

    def listen(self) -> HintListener | None:
        """Return a listener for this store; see the contract."""
        return PostgresListener(self._database.address)

    def _hint_of(self, jobs: Iterable[Job]) -> None:
        with contextlib.suppress(RedriveError):  # the server's time may have to be asked for
            super()._hint_of(jobs)

    def _hint(self) -> None:
        """Send a hint that stands for all that is added within the next HINT_HOLDS seconds."""
        now = time.monotonic()
        if now - self._hinted > HINT_HOLDS:
            self._hinted = now
            with contextlib.suppress(RedriveError, psycopg.Error):
                self._database.send("notify")

    def now(self) -> float:
        """Return the database's time."""
        return self._database.now()

    def size(self) -> int:
        """Return the bytes of the tables and their indexes."""
        (size,) = self._database.read(lambda tx: tx.one("size")) or (0,)
        return int(size)

    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
        facts = {"store": self.url, "durability": self.durability}
        return self._database.read(lambda tx: audit.verify(tx, self.url, facts))

    def make_view(self, name: str, handler: str, columns: Sequence[str] | None = None) -> str:
        """Show a handler's jobs as a table; return the view's name with its schema. See `view`."""
        self._check_writable()
        return view.make(self._database, name, handler, columns)

    def close(self) -> None:
        """Write the counts that wait here; let go of the connections. Twice is fine."""
        if not self._read_only:
            with contextlib.suppress(RedriveError):
                self._write_waiting()
        self._database.pool.close()
