"""Jobs in PostgreSQL: for many threads, processes and hosts; the database's clock counts alone.

Submits, deeds of people and claims are on disk before they are answered. Settlements are committed
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
from operator import itemgetter
from typing import TypeVar, cast

import psycopg

from redrive.errors import RedriveError, StoreError, StoreReadOnly
from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.job import Attempt, Claim, Group, Job, Settlement, State
from redrive.jobs.transitions import Changed, Verb, settle_all
from redrive.stores.contract import Count, Members, Page, Query
from redrive.stores.counting import FOLD_EVERY, Backlog, Share, Tick, counts_added, counts_of
from redrive.stores.listening import HintListener
from redrive.stores.postgres import (
    actions,
    adding,
    audit,
    claiming,
    lists,
    opening,
    search,
    settling,
    view,
)
from redrive.stores.postgres.address import read_url
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.listener import HINT_HOLDS, PostgresListener
from redrive.stores.postgres.rows import job_from_row
from redrive.stores.postgres.settling import End
from redrive.stores.postgres.transactions import connection_of
from redrive.stores.postgres.tx import PostgresTx, line_on
from redrive.stores.report import Report
from redrive.stores.sql.actions import SqlActions
from redrive.stores.sql.groups import Places, Placing, Seen, SqlGroups
from redrive.stores.sql.notes import SqlNotes
from redrive.stores.sql.tx import Row, Tx

R = TypeVar("R")


class PostgresStore(SqlGroups, SqlActions, SqlNotes):
    """A store in the schema of a database, made if it is missing.

    `patience` is how many seconds to wait for locks that others hold, or for a server that is away; by
    default what the URL says (`?max_wait=`), else 15. The last try may take 4 seconds more.
    `migrating` brings an older store up to this version; without it one that has jobs is StoreOutdated.
    `clock` is for tests: one that stands still counts in place of the database's. The machine's own
    never does.
    """

    is_server = True

    def __init__(
        self,
        url: str,
        *,
        create: bool = True,
        clock: Clock | None = None,
        patience: float | None = None,
        read_only: bool = False,
        migrating: bool = False,
    ) -> None:
        address = read_url(url)
        self.url = address.url
        self.channel = address.channel
        self._read_only = read_only
        self._hinted = 0.0
        self._backlog = Backlog()
        self._places = Places()
        self._damaged = claiming.Damaged()
        self._folded: float | None = None
        stands_in = None if isinstance(clock, SystemClock) else clock
        self._patience = address.max_wait if patience is None else patience
        self._database = Database(address, clock=stands_in, patience=self._patience)
        weakref.finalize(self, self._database.pool.close)
        try:
            if migrating and not read_only:
                opening.migrate(self._database)
            opening.open_schema(self._database, create=create, read_only=read_only)
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
            msg = f"{self.url} was opened for reading only; open it for writing to change it"
            raise StoreReadOnly(msg)

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, whole; see the contract. With `within` they are there once it commits."""
        if not jobs:
            return []
        self._check_writable()
        jobs = self._as_new(jobs)
        if within is not None:
            return self._add_within(within, jobs)
        stored = self._add_at_once(jobs) if adding.are_distinct(jobs) else None
        while stored is None:
            with contextlib.suppress(adding.Taken):
                work = lambda tx: self._add(cast("PostgresTx", tx), jobs)  # noqa: E731
                stored = self._write(work, durable=True)
        self._hint_of(stored)
        return stored

    def _as_new(self, jobs: Sequence[Job]) -> list[Job]:
        failed = [(job.failure, job.release) for job in jobs if job.failure is not None]
        self._places.learn(self._place, failed)
        return [adding.as_new(job, self._places.place) for job in jobs]

    def _place(self, work: Callable[[Tx], Placing]) -> Placing:
        return self._database.write(work, synced=False)

    def _add_at_once(self, jobs: Sequence[Job]) -> list[Job] | None:
        """Store jobs in one statement; None if one of them is there already."""
        try:
            self._database.direct(lambda tx: self._insert(tx, jobs))
        except adding.Taken:
            return None
        return [adding.without_history(job) for job in jobs]

    def _add(self, tx: PostgresTx, jobs: Sequence[Job]) -> list[Job]:
        answers, fresh = adding.sorted_out(tx, jobs)
        self._insert(tx, fresh)
        return answers

    def _insert(self, tx: PostgresTx, jobs: Sequence[Job]) -> None:
        """Store jobs; those that have just died are counted and told with them."""
        if not any(job.state is State.DEAD for job in jobs):
            adding.insert(tx, jobs, (), ())
            return
        now = self.now()
        events = self._reports().rows(((None, job) for job in jobs), now)
        counts = counts_added(jobs, now)
        share = self._backlog.share(counts, now) if counts.lanes else Share([], [], [])
        stored = False
        try:
            adding.insert(tx, jobs, share.write, events)
            stored = True
        finally:
            self._backlog.close(share, committed=stored)

    def _add_within(self, within: object, jobs: Sequence[Job]) -> list[Job]:
        """Add in the caller's transaction, under a savepoint: what fails here leaves it as it was."""
        connection = connection_of(within)
        line, queries = line_on(connection), self._database.queries
        limit = f"{max(self._patience, 0.001) * 1000:.0f}"
        try:
            # This begins the transaction if nothing was done in it yet, or ours would be the whole.
            now, theirs, _ = PostgresTx(line, queries).one("within", (limit, limit)) or (
                0.0,
                "0",
                "",
            )
            tx = PostgresTx(line, queries, now=now)
            try:
                with connection.transaction():
                    _, version = tx.one("glance") or (0.0, None)
                    self._database.check_version(version)
                    stored = self._add_savely(tx, jobs)
                    tx.run("hint", (theirs,))
            except BaseException:
                with contextlib.suppress(psycopg.Error):
                    tx.run("restore", (theirs,))
                raise
        except (psycopg.Error, OverflowError, UnicodeError) as error:
            raise self._database.explained(error) from error
        return stored

    def _add_savely(self, tx: PostgresTx, jobs: Sequence[Job]) -> list[Job]:
        while True:
            with contextlib.suppress(adding.Taken), tx.savepoint():
                return self._add(tx, jobs)

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
        if not claims:
            return []
        numbers = settling.numbers_of(self._database, claims)
        fences = [
            (number, claim.job.lease, claim.job.holder, claim.job.updated)
            for number, claim in zip(numbers, claims, strict=True)
        ]
        each = sorted(set(fences), key=itemgetter(0))
        columns = list(zip(*each, strict=True))
        end = self.now() + lease_for
        rows = self._database.direct(
            lambda tx: tx.all("renew", (tx.version, *tx.packed("renew", columns), end))
        )
        ours = {each[place - 1] for (place,) in rows}
        return [fence in ours for fence in fences]

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        self._check_writable()
        ends, places = self._ends(results)
        took = self._settled(ends) if ends else set[int]()
        answers: list[Job | None] = [None] * len(results)
        for place in took:
            answers[places[place]] = ends[place].job
        return answers

    def _ends(self, results: Sequence[Settlement]) -> tuple[list[End], list[int]]:
        """Compute what claims come to, each fence once; with their places in the batch, by number."""
        numbers = settling.numbers_of(self._database, [result.claim for result in results])
        attempts = [result.attempt for result in results]
        self._places.learn(self._place, _failures(attempts, results))
        now, reports = self.now(), self._reports()
        jobs = ((result.claim.job, result) for result in results)
        changes = settle_all(jobs, now=now, place=self._places.place)
        found: dict[tuple[object, ...], tuple[int, End]] = {}
        for place, (number, result, change) in enumerate(
            zip(numbers, results, changes, strict=True)
        ):
            was = change.was
            told = reports.of(was, change.job, now)
            end = End(number, result, change, change.job, told)
            found.setdefault((number, was.lease, was.holder, was.updated), (place, end))
        ordered = sorted(found.values(), key=lambda one: one[1].number)
        return [end for _, end in ordered], [place for place, _ in ordered]

    def _settled(self, ends: list[End]) -> set[int]:
        """End claims in one statement; where that is not enough, in a transaction around it."""
        now = ends[0].job.updated
        if settling.are_long(ends):
            return self._settle_within(ends, now)
        share, committed = self._share(ends, now), False

        def again(tx: PostgresTx) -> set[int]:
            """Do it once more, then look: what is refused, but is as we left it, was done before."""
            rest = lambda done: self._rest(share, done, now)  # noqa: E731
            return settling.settle_within(tx, ends, rest, again=True)

        try:
            took = self._database.once(
                lambda tx: settling.settle_at_once(tx, ends, share.write), again
            )
            committed = True
        except settling.SomeLost:
            took = None
        finally:
            self._backlog.close(share, committed=committed)
        if took is None:
            return self._settle_within(ends, now)
        self._fold_now_and_then(share, now)
        return took

    def _settle_within(self, ends: Sequence[End], now: float) -> set[int]:
        """End claims in a transaction; only those that took are counted."""
        share, committed, tries = self._share((), now), False, 0

        def work(tx: PostgresTx) -> set[int]:
            nonlocal tries
            tries += 1
            rest = lambda done: self._rest(share, done, now)  # noqa: E731
            short = settling.shortened(tx, ends)
            return settling.settle_within(tx, short, rest, again=tries > 1)

        try:
            took = self._database.write(
                work, synced=False, landed=lambda tx, took: took <= settling.landed(tx, ends)
            )
            committed = True
        finally:
            self._backlog.close(share, committed=committed)
        self._fold_now_and_then(share, now)
        return took

    def _rest(self, share: Share, done: Sequence[End], now: float) -> list[Tick]:
        """Return what to write with those ends that took, beside what waited before."""
        counts = counts_of((end.result, end.change) for end in done)
        return [*share.back, Tick(now, counts)] if counts.lanes else share.back

    def _share(self, ends: Iterable[End], now: float) -> Share:
        counts = counts_of((end.result, end.change) for end in ends)
        return self._backlog.share(counts, now)

    def _fold_now_and_then(self, share: Share, now: float) -> None:
        """Fold if counts were written, and this process has not folded for a while."""
        if not share.write:
            return
        if self._folded is None:
            self._folded = now
        elif now - self._folded >= FOLD_EVERY:
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
        if "\0" in job_id:
            return None
        return self._database.read(lambda tx: lists.get(tx, job_id))

    def find(self, query: Query) -> Page:
        """Return a page of jobs, newest first; see the contract."""
        return self._database.read(lambda tx: search.find(tx, query))

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._database.read(lists.counts)

    def groups(self, query: Query) -> list[Group]:
        """Count the query's jobs by group; see the contract."""

        def work(tx: PostgresTx) -> list[Group]:
            most = lists.tallies(tx, query)
            found = self._records(tx, [number for number, _ in most])
            return [lists.group_of(number, tally, found.get(number)) for number, tally in most]

        return self._database.read(work)

    def members(self, run: int, *, limit: int = 0) -> Members:
        """Count the jobs that are tagged so; see the contract."""
        return self._database.read(lambda tx: lists.members(tx, run, max(limit, 0)))

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
        """Give the database's time."""
        return self._database.now()

    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
        facts = {"store": self.url, "durability": self.durability}
        return self._database.read(lambda tx: audit.verify(tx, self.url, facts))

    def migrate(self) -> list[str]:
        """Bring an older store up to this version; opening it for `migrating` does so too."""
        self._check_writable()
        return opening.migrate(self._database)

    def make_view(self, name: str, handler: str) -> str:
        """Show a handler's jobs as a table; gives the view's name with its schema. See `view`."""
        self._check_writable()
        return view.make(self._database, name, handler)

    def close(self) -> None:
        """Write the counts that wait here; let go of the connections. Twice is fine."""
        if not self._read_only:
            with contextlib.suppress(RedriveError):
                self._write_waiting()
        self._database.pool.close()


def _failures(attempts: Iterable[Attempt | None], results: Sequence[Settlement]) -> list[Seen]:
    return [
        (attempt.failure, attempt.release or result.claim.job.release)
        for attempt, result in zip(attempts, results, strict=True)
        if attempt is not None and attempt.failure is not None
    ]
