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
from typing import TypeVar, cast

import psycopg

from redrive.errors import RedriveError, StoreReadOnly
from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.job import Claim, Job, Settlement, State
from redrive.stores._pending import Pending
from redrive.stores.contract import Count
from redrive.stores.listening import HintListener
from redrive.stores.postgres import adding, audit, claiming, ending, opening, view
from redrive.stores.postgres.address import read_url
from redrive.stores.postgres.database import Database
from redrive.stores.postgres.listener import HINT_HOLDS, PostgresListener
from redrive.stores.postgres.transactions import connection_of
from redrive.stores.postgres.tx import PostgresTx, line_on
from redrive.stores.record_codec import category_from
from redrive.stores.report import Report
from redrive.stores.sql.engine import SqlStore
from redrive.stores.sql.settle import settle, settlements_landed
from redrive.stores.sql.simple import is_simple
from redrive.stores.sql.tx import Tx

R = TypeVar("R")


class PostgresStore(SqlStore, Pending):
    """A store in the schema of a database, made if it is missing.

    `patience` is how many seconds to wait for locks that others hold, or for a server that is away; by
    default what the URL says (`?max_wait=`), else 15. The last try may take 4 seconds more.
    `clock` is for tests: one that stands still counts in place of the database's. The machine's own
    never does.
    """

    is_server = True
    _claims_are_synced = True

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
        stands_in = None if isinstance(clock, SystemClock) else clock
        self._patience = address.max_wait if patience is None else patience
        self._database = Database(address, clock=stands_in, patience=self._patience)
        weakref.finalize(self, self._database.pool.close)
        try:
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
        if within is not None:
            return self._add_within(within, jobs)
        if not (is_simple(jobs) and self._database.direct(lambda tx: self._fast(tx, jobs))):
            jobs = self._write(lambda tx: self._add(tx, jobs), durable=True)
        self._hint_of(jobs)
        return list(jobs)

    def _fast(self, tx: PostgresTx, jobs: Sequence[Job]) -> bool:
        return adding.add_simple(tx, jobs, self._database.queries.version)

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
                    stored = self._add(tx, jobs)
                    tx.run("hint", (theirs,))
            except BaseException:
                with contextlib.suppress(psycopg.Error):
                    tx.run("restore", (theirs,))
                raise
        except (psycopg.Error, OverflowError, UnicodeError) as error:
            raise self._database.explained(error) from error
        return stored

    def get(self, job_id: str) -> Job | None:
        """Give one job with its history; none has an id that PostgreSQL cannot even compare."""
        return None if "\0" in job_id else super().get(job_id)

    def _insert(self, tx: Tx, jobs: Sequence[Job]) -> bool:
        return adding.add_whole(cast("PostgresTx", tx), jobs)

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
        return claiming.claim(self._database, limit, which, (holder, lease_for))

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        self._check_writable()
        ends, others = ending.sorted_out(results, self._database.address.url)
        ids = {result.claim.job.id for result in results}
        if not ends or len(ids) < len(results):
            return super().settle(results)
        if not others and ending.are_few(ends):
            took = ending.end(self._database, ends)
            return [took.get(result.claim.job.id) for result in results]
        return self._write(
            lambda tx: self._settle_mixed(cast("PostgresTx", tx), results, ends, others),
            durable=False,
            landed=lambda tx, answers: settlements_landed(tx, results, answers),
        )

    def _settle_mixed(
        self,
        tx: PostgresTx,
        results: Sequence[Settlement],
        ends: ending.Ends,
        others: Sequence[Settlement],
    ) -> list[Job | None]:
        """End claims in one transaction, the usual ones by the shorter way."""
        rest = zip(others, settle(tx, others), strict=True) if others else ()
        took: dict[str, Job | None] = {result.claim.job.id: answer for result, answer in rest}
        took |= ending.end_within(tx, self._database, ends)
        return [took.get(result.claim.job.id) for result in results]

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return [
            Count(
                State(state),
                lane,
                category_from(category),
                jobs,
                at if state != "running" else None,
            )
            for state, lane, category, jobs, at in self._read(lambda tx: tx.all("counts"))
        ]

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
        """Bring an older store up to this version; opening it for writing does so too."""
        self._check_writable()
        return opening.migrate(self._database)

    def make_view(self, name: str, handler: str) -> str:
        """Show a handler's jobs as a table; gives the view's name with its schema. See `view`."""
        self._check_writable()
        return view.make(self._database, name, handler)

    def close(self) -> None:
        """Let go of the connections; twice is fine."""
        self._database.pool.close()
