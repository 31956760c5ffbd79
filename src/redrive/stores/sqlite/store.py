"""Jobs in a SQLite file: the default store, for many threads and processes of one host.

The file is in WAL mode. What was promised to a caller (submits, deeds of people) is synced before
the call returns; claims and settlements survive kill -9 and are synced with the next promise.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, cast

from redrive.jobs.clock import Clock, SystemClock
from redrive.jobs.job import Claim, Job, Settlement
from redrive.stores import _files
from redrive.stores._codec import attempt_to_json
from redrive.stores._pending import Pending
from redrive.stores.contract import Durability
from redrive.stores.listening import HintListener
from redrive.stores.note_verbs import PAUSE
from redrive.stores.report import Report
from redrive.stores.sql.engine import SqlStore
from redrive.stores.sql.notes import live_notes
from redrive.stores.sql.rows import job_to_row
from redrive.stores.sql.simple import is_simple, simple_row
from redrive.stores.sql.tx import Tx
from redrive.stores.sqlite import audit, claiming, first_attempts, opening
from redrive.stores.sqlite.claiming import Wanted
from redrive.stores.sqlite.file import Settings, SqliteFile
from redrive.stores.sqlite.tx import SqliteTx

if TYPE_CHECKING:
    from redrive.stores._wake import Hints

R = TypeVar("R")


class SqliteStore(SqlStore, Pending):
    """A store in one file, made if it is missing.

    `patience` is how many seconds to wait for other processes. `durability="relaxed"` gives up the
    sync at every submit: a power cut may then lose the last ones.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        clock: Clock = SystemClock(),  # noqa: B008 - it has no state
        allow_network: bool = False,
        patience: float = _files.PATIENCE,
        read_only: bool = False,
        durability: Literal["full", "relaxed"] = "full",
    ) -> None:
        place = _files.prepare(
            Path(path), create=create and not read_only, allow_network=allow_network
        )
        self.url = f"sqlite:{place}"
        self._clock = clock
        self._name = os.urandom(8).hex()
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
        """Promise no more than what the file system and SQLite were found to keep."""
        place = self._file.place
        if asked == "relaxed" or _files.is_network(place.parent):
            return "relaxed"
        if self._file.settings.read_only:
            return "full"
        return "full" if self._file.synchronous() >= opening.FULL else "relaxed"

    def _write(
        self,
        work: Callable[[Tx], R],
        *,
        durable: bool,
        landed: Callable[[Tx, R], bool] | None = None,  # noqa: ARG002 - a commit here always answers
    ) -> R:
        return self._file.write(work, durable=durable)

    def _read(self, work: Callable[[Tx], R]) -> R:
        return self._file.read(work)

    def _add(self, tx: Tx, jobs: Sequence[Job]) -> list[Job]:
        if is_simple(jobs):
            quickly = _add_one if len(jobs) == 1 else _add_many
            if quickly(cast("SqliteTx", tx), jobs):
                return list(jobs)
        return super()._add(tx, jobs)

    def _insert(self, tx: Tx, jobs: Sequence[Job]) -> bool:
        (last,) = tx.one("last_number") or (0,)
        numbered = list(enumerate(jobs, last + 1))
        tx.many("insert_job", [(n, *job_to_row(job)) for n, job in numbered])
        tx.many("insert_payload", [(n, job.payload, job.original) for n, job in numbered])
        tx.many(
            "insert_attempt",
            [
                (n, attempt.ordinal, attempt_to_json(attempt))
                for n, job in numbered
                for attempt in job.history
            ],
        )
        return True

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
            paused = [] if ignore_waits or past_pauses else live_notes(tx, PAUSE)
            wanted = Wanted(
                handlers=frozenset(handlers),
                lanes=None if lanes is None else frozenset(lanes),
                paused=frozenset(note.name.removeprefix(PAUSE) for note in paused),
                only=only,
                suspects=suspects,
                latest=float("inf") if ignore_waits else tx.now(),
                limit=limit,
            )
            return claiming.claim(tx, wanted, holder, lease_for, self._name)

        return self._file.write(work, durable=False)

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        try:
            return self._file.write(
                lambda tx: first_attempts.end(tx, results, self._name), durable=False
            )
        except first_attempts.Fallen:
            return super().settle(results)

    def now(self) -> float:
        """Give the wall time of this host."""
        return self._clock.now()

    def verify(self) -> Report:
        """Look at everything that is stored and say what is wrong. Changes nothing."""
        facts = {"store": self.url, "durability": self.durability}
        return self._file.read(lambda tx: audit.verify(tx, self._file.place, facts))

    def migrate(self) -> list[str]:
        """Bring an older store up to this version; opening it for writing does so too."""
        return self._file.migrate()

    def close(self) -> None:
        """Let go of the file; twice is fine."""
        self._file.close()

    def listen(self) -> HintListener | None:
        """Return a listener for this store; see the contract."""
        return None if self._hints is None else self._hints.listen()

    def _hint(self) -> None:
        if self._hints:
            self._hints.send()


def _add_one(tx: SqliteTx, jobs: Sequence[Job]) -> bool:
    """Write a job that was just submitted; False if its id or key is taken."""
    *row, payload = simple_row(jobs[0])
    made = tx.made("add_one", [None, *row])
    if made:
        tx.run("add_payload", (payload,))
    return made


def _add_many(tx: SqliteTx, jobs: Sequence[Job]) -> bool:
    """Do the same for many; False, and nothing is written, if an id is taken."""
    (last,) = tx.one("last_number") or (0,)
    rows = [(n, *simple_row(job)) for n, job in enumerate(jobs, last + 1)]
    if not tx.made_all("add_one", [row[:-1] for row in rows]):
        tx.run("take_back", (last,))
        return False
    tx.many("insert_payload", [(row[0], row[-1], None) for row in rows])
    return True


def _hints_of(place: Path) -> Hints:
    from redrive.stores._wake import Hints  # noqa: PLC0415 - slow to load; who only looks needs none

    return Hints(place)
