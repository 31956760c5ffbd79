"""Sabotage of what keeps processes from harming each other's jobs, each by one name.

A rig's child calls `sabotage` before it opens a store; nothing in `src` knows of it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from redrive.jobs import transitions
from redrive.jobs.job import Claim, Completed, Job, Reason, Retry, Settlement, State
from redrive.stores import _files, counting
from redrive.stores.index.base import Drafted, writes
from redrive.stores.index.draft import Draft
from redrive.stores.index.engine import EngineStore
from redrive.stores.jsonl import JsonlStore
from redrive.stores.outbox_verbs import OutboxEvent
from redrive.stores.postgres import PostgresStore, actions, database, opening, settling
from redrive.stores.postgres.connecting import BoundedConnection
from redrive.stores.postgres.tx import Line, PostgresTx, line_on, script_named
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite import SqliteStore, changing, ending
from redrive.stores.sqlite.tx import SqliteTx
from redrive.worker.deliveries import Deliveries

STALE = "mend the sabotage"
"""Said where there is nothing to be broken any more: then nothing was found out."""

_FENCE = "q.lease = g.was AND (q.holder = g.held) IS TRUE AND q.since = g.since"
"""How a settlement of PostgreSQL asks whether its claim still stands."""
_TAKING = "q.ctid = ANY(places) AND q.holder IS NULL"
"""How a claim of PostgreSQL takes what it has locked."""
_FOUND = "q.n = ANY(array(SELECT n FROM {schema}.open WHERE ctid = ANY(places)))"


def no_fence() -> None:
    """Settle without comparing the lease number, or the time of the claim that stands for it."""
    _compare(lambda _ours, _lease: True, lambda ours, holder: ours == holder)
    _rewrite_functions((_FENCE, "q.holder = g.held"))
    _forget_sqlite("lease = ?", "updated = ?")


def no_holder() -> None:
    """Settle without comparing the holder, or the time of the claim that stands for it."""
    _compare(lambda ours, lease: ours == lease, lambda _ours, _holder: True)
    _rewrite_functions((_FENCE, "q.lease = g.was"))
    _forget_sqlite("holder IS ?", "updated = ?")


def _rewrite_functions(*changes: tuple[str, str]) -> None:
    """Make the functions of a new schema of PostgreSQL with some text replaced."""

    def rewritten(name: str, schema: str) -> str:
        text = script_named(name, "{schema}")
        for old, new in changes if name == "functions" else ():
            assert old in text, f"no function has {old!r}: {STALE}"
            text = text.replace(old, new)
        return text.replace("{schema}", schema)

    _put(opening, "script_named", rewritten)


def _forget_sqlite(*conditions: str) -> None:
    """Leave conditions out of the fence of SQLite; their values are still given to it."""
    fence = changing._FENCE  # noqa: SLF001
    for condition in conditions:
        assert condition in fence, f"SQLite's fence has no {condition!r}: {STALE}"
        fence = fence.replace(condition, f"({condition} OR true)")
    _put(changing, "_FENCE", fence)


def _compare(
    is_lease: Callable[[int, int], bool], is_holder: Callable[[str | None, str], bool]
) -> None:
    """Put these two in the place of the fence of the engine in memory."""

    def held(self: EngineStore, draft: Draft, claim: Claim) -> Job | None:
        lease = self.index.running.get(claim.job.id)
        if lease is None or not is_lease(claim.job.lease, lease.number):
            return None
        if not is_holder(claim.job.holder, lease.holder or ""):
            return None
        now = draft.job(claim.job.id)
        return now if now is not None and now.state is State.RUNNING else None

    _put(EngineStore, "_held", held)


def sweep() -> None:
    """Sweep without compare-and-set: look which leases ended, and later write what was decided."""
    _sweep_engine()
    _sweep_sqlite()
    _sweep_postgres()


def _sweep_engine() -> None:
    real_held, real_seize = EngineStore._held, EngineStore.seize  # noqa: SLF001

    @writes(durable=False)
    def seize(self: EngineStore, **options: Any) -> Drafted[list[Claim]]:
        claims, _ = real_seize.__wrapped__(self, **options)  # type: ignore[attr-defined]
        return claims, []

    def held(self: EngineStore, draft: Draft, claim: Claim) -> Job | None:
        if not claim.lost_by:
            return real_held(self, draft, claim)
        now = draft.job(claim.job.id)
        return now and replace(now, state=State.RUNNING, lease=claim.job.lease)

    _put(EngineStore, "seize", seize)
    _put(EngineStore, "_held", held)


def _sweep_sqlite() -> None:
    real_seize, real_settle = ending.seize, ending.settle

    def seize(tx: SqliteTx, rows: Sequence[Row], **options: Any) -> list[Claim]:
        tx.execute("SAVEPOINT look")
        claims = real_seize(tx, rows, **options)
        tx.execute("ROLLBACK TO look")
        return claims

    def settle(tx: SqliteTx, results: Sequence[Settlement], *more: Any, **options: Any) -> Any:
        for job in _swept(results):
            tx.execute(
                "UPDATE jobs SET state = 'running', lease = ?, holder = ?, updated = ? WHERE id = ?",
                (job.lease, job.holder, job.updated, job.id),
            )
        return real_settle(tx, results, *more, **options)

    _put(ending, "seize", seize)
    _put(ending, "settle", settle)


def _sweep_postgres() -> None:
    real_seize, real_write = actions.seize, settling._write  # noqa: SLF001

    def seize(tx: PostgresTx, **options: Any) -> list[Claim]:
        with tx._cursor.connection.transaction(force_rollback=True):  # noqa: SLF001
            return real_seize(tx, **options)

    def write(tx: PostgresTx, ends: Sequence[settling.End], *more: Any) -> None:
        name = tx._queries.schema.encode()  # noqa: SLF001
        text = b"UPDATE %s.open SET lease = %%s, holder = %%s, since = %%s WHERE id = %%s" % name
        for job in _swept([end.asked.result for end in ends]):
            tx._execute(text, (job.lease, job.holder, job.updated, job.id))  # noqa: SLF001
        real_write(tx, ends, *more)

    _put(actions, "seize", seize)
    _put(settling, "_write", write)


def _swept(results: Sequence[Settlement]) -> list[Job]:
    return [result.claim.job for result in results if result.claim.lost_by]


def early() -> None:
    """Answer submits and settlements before they are written: a thread does it a moment later."""
    later: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def write() -> None:
        while True:
            one = later.get()
            time.sleep(0.01)
            one()

    threading.Thread(target=write, daemon=True).start()
    for kind in (SqliteStore, JsonlStore, PostgresStore):
        real_add, real_settle = kind.add, kind.settle

        def add(self: Any, jobs: Sequence[Job], *, do: Any = real_add, **_: object) -> list[Job]:
            later.put(lambda: do(self, jobs))
            return list(jobs)

        def end(self: Any, results: Sequence[Settlement], *, do: Any = real_settle) -> list[Job]:
            later.put(lambda: do(self, results))
            return [_as_settled(one, self.now()) for one in results]

        _put(kind, "add", add)
        _put(kind, "settle", end)


def _as_settled(result: Settlement, now: float) -> Job:
    failure = result.attempt.failure if result.attempt else None
    return transitions.settled(result.claim.job, result.verdict, failure, now=now, group=None)


def uncounted() -> None:
    """Let the counts of deaths wait as others may; a process that is killed takes them with it."""
    _put(counting, "_has_deaths", lambda _counts: False)


def no_lock() -> None:
    """Claim without locking what is claimed, or without the journal's lock."""

    @contextlib.contextmanager
    def held(_: object) -> Iterator[None]:
        yield

    _put(_files.FileLock, "held", held)
    _rewrite_functions((" FOR UPDATE SKIP LOCKED", ""), (_TAKING, _FOUND))


def unsynced() -> None:
    """Commit everything in PostgreSQL without waiting for its disk."""
    _connect(prepare_threshold=None, options="-c synchronous_commit=off")


def blind() -> None:
    """Repeat a commit that went unanswered, without a look at what became of it."""
    _put(database.Database, "_came_true", lambda *_: False)
    _put(database.Database, "_recalled", lambda *_: None)


def trusting() -> None:
    """Believe that a commit that went unanswered was made."""
    _put(database.Database, "_came_true", lambda *_: True)


def prepared() -> None:
    """Keep statements in the session, where a pooler gives each transaction another one."""

    def execute(self: PostgresTx, text: bytes, args: Any) -> psycopg.Cursor[Row]:
        return self._cursor.execute(text, args, prepare=True, binary=True)

    _connect(prepare_threshold=0)
    _put(PostgresTx, "_execute", execute)


def beforehand() -> None:
    """Remove an event before its listener is called."""
    real = Deliveries._take  # noqa: SLF001

    def take(self: Deliveries, is_free: Callable[[str], bool]) -> OutboxEvent | None:
        if event := real(self, is_free):
            self._runtime.store.settle_events([event.number], [], holder=self._holder)
        return event

    _put(Deliveries, "_take", take)


def in_memory() -> None:
    """Keep a failed delivery in the process until it is tried again."""
    real_take, real_settle = Deliveries._take, Deliveries._settle  # noqa: SLF001
    kept: list[OutboxEvent] = []

    def take(self: Deliveries, is_free: Callable[[str], bool]) -> OutboxEvent | None:
        return kept.pop(0) if len(kept) > 1 else real_take(self, is_free)

    def settle(self: Deliveries, event: OutboxEvent, settlement: Settlement) -> None:
        if isinstance(settlement.verdict, Retry):
            kept.append(event)
            settlement = replace(settlement, verdict=Completed(Reason.DONE))
        real_settle(self, event, settlement)

    _put(Deliveries, "_take", take)
    _put(Deliveries, "_settle", settle)


def _connect(**options: Any) -> None:
    """Make connections to PostgreSQL in another way."""

    def connect(self: database.Database) -> Line:
        connection = BoundedConnection.connect(self.address.conninfo, autocommit=True, **options)
        return line_on(connection)

    _put(database.Database, "_connect", connect)


def _put(where: Any, name: str, what: object) -> None:
    """Replace something that is there; a name that is gone is a mistake of ours."""
    assert hasattr(where, name), f"{where!r} has no {name} any more: {STALE}"
    setattr(where, name, what)


_ALL: dict[str, Callable[[], None]] = {
    "no-fence": no_fence,
    "no-holder": no_holder,
    "sweep": sweep,
    "early": early,
    "uncounted": uncounted,
    "no-lock": no_lock,
    "unsynced": unsynced,
    "blind": blind,
    "trusting": trusting,
    "prepared": prepared,
    "beforehand": beforehand,
    "in-memory": in_memory,
}

LOUD = frozenset({"no-lock", "prepared"})
"""Builds that are so broken that they raise errors."""


def sabotage(name: str) -> None:
    """Break this process; without a name it stays whole."""
    if name:
        _ALL[name]()
