"""Sabotage of what keeps processes from harming each other's jobs, each by one name.

A rig's child calls `sabotage` before it opens a store; nothing in `src` knows of it.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg

from redrive.jobs import transitions
from redrive.jobs.job import Claim, Job, Settlement, State
from redrive.stores import _files
from redrive.stores.index.base import Drafted, writes
from redrive.stores.index.draft import Draft
from redrive.stores.index.engine import EngineStore
from redrive.stores.jsonl import JsonlStore
from redrive.stores.postgres import PostgresStore, database
from redrive.stores.postgres.connecting import BoundedConnection
from redrive.stores.postgres.tx import Line, PostgresTx, Queries, line_on, queries_for
from redrive.stores.sql import engine, settle
from redrive.stores.sql.rows import readable
from redrive.stores.sql.tx import Migration, Row, Tx
from redrive.stores.sqlite import SqliteStore
from redrive.stores.sqlite.tx import QUERIES

Held = dict[str, tuple[int, int, str]]

_TAKING = re.compile(r"DELETE (FROM \S+ WHERE ctid = ANY\(places\)) RETURNING n")
"""How a claim takes its jobs out of the line."""

STALE = "mend the sabotage"
"""Said where there is nothing to be broken any more: then nothing was found out."""


def no_fence() -> None:
    """Settle without comparing the lease number, or the time of the claim that stands for it."""
    _compare(lambda _ours, _lease: True, lambda ours, holder: ours == holder)
    _misspell("l.lease = old_lease", "l.since = old_since")
    _misspell_sqlite("lease = ?5", "updated = ?7")


def no_holder() -> None:
    """Settle without comparing the holder."""
    _compare(lambda ours, lease: ours == lease, lambda _ours, _holder: True)
    _misspell("l.holder = old_holder", "l.since = old_since")
    _misspell_sqlite("holder = ?6", "updated = ?7")


def _misspell(*conditions: str) -> None:
    """Leave conditions out of what a schema of PostgreSQL is made of."""

    def misspelt(schema: str) -> Queries:
        queries = queries_for(schema)
        steps = [
            Migration(one.version, one.name, _without(one.script, conditions))
            for one in queries.migrations
        ]
        assert steps != queries.migrations, f"no function asks for {conditions}: {STALE}"
        return replace(queries, migrations=steps)

    _put(database, "queries_for", misspelt)


def _misspell_sqlite(*conditions: str) -> None:
    """Leave conditions out of the statements by which SQLite ends first attempts."""
    for name in ("complete_some", "complete_range"):
        text = QUERIES[name]
        QUERIES[name] = _without(text, conditions)
        assert QUERIES[name] != text, f"{name} does not ask for {conditions}: {STALE}"


def _without(text: str, conditions: Iterable[str]) -> str:
    for condition in conditions:
        text = text.replace(condition, "true")
    return text


def _compare(
    is_lease: Callable[[int, int], bool], is_holder: Callable[[str | None, str], bool]
) -> None:
    """Put these two in the place of the fence, in both engines."""

    def taken(held: Held, job: Job) -> int:
        number, lease, holder = held.get(job.id, (0, 0, ""))
        if number > 0 and is_lease(job.lease, lease) and is_holder(job.holder, holder):
            del held[job.id]
            return number
        return 0

    def held(self: EngineStore, draft: Draft, claim: Claim) -> Job | None:
        lease = self.index.running.get(claim.job.id)
        if lease is None or not is_lease(claim.job.lease, lease.number):
            return None
        if not is_holder(claim.job.holder, lease.holder or ""):
            return None
        now = draft.job(claim.job.id)
        return now if now is not None and now.state is State.RUNNING else None

    _put(settle, "_taken", taken)
    _put(EngineStore, "_held", held)


def sweep() -> None:
    """Sweep without compare-and-set: look which leases ended, and later write what was decided."""
    real_held_by_id, real_held = settle.held_by_id, EngineStore._held  # noqa: SLF001
    real_seize = EngineStore.seize

    def look(tx: Tx, rows: list[Row], by: str, lease_for: float) -> list[Claim]:
        boot, seconds = tx.lease_clock()
        return [
            Claim(
                transitions.seized(lost, by=by, lease_end=seconds + lease_for, boot=boot),
                lost_by=lost.holder,
            )
            for _, lost in readable(rows)
        ]

    def held_by_id(tx: Tx, claims: Iterable[Claim]) -> Held:
        claims = list(claims)
        swept = {claim.job.id: claim.job for claim in claims if claim.lost_by}
        held = real_held_by_id(tx, claims)
        for number, job_id, *_ in tx.all("by_ids", (tx.array(swept),)):
            held[job_id] = number, swept[job_id].lease, swept[job_id].holder or ""
        return held

    @writes(durable=False)
    def seize(self: EngineStore, **options: Any) -> Drafted[list[Claim]]:
        claims, _ = real_seize.__wrapped__(self, **options)  # type: ignore[attr-defined]
        return claims, []

    def held(self: EngineStore, draft: Draft, claim: Claim) -> Job | None:
        if not claim.lost_by:
            return real_held(self, draft, claim)
        now = draft.job(claim.job.id)
        return now and replace(now, state=State.RUNNING, lease=claim.job.lease)

    _put(engine, "_seize", look)
    _put(settle, "held_by_id", held_by_id)
    _put(EngineStore, "seize", seize)
    _put(EngineStore, "_held", held)


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


def no_lock() -> None:
    """Claim without taking what was claimed out of the line, or without the journal's lock."""

    @contextlib.contextmanager
    def held(_: object) -> Iterator[None]:
        yield

    def left_in_line(schema: str) -> Queries:
        queries = queries_for(schema)
        steps = [
            Migration(one.version, one.name, _TAKING.sub(r"SELECT n \1", one.script))
            for one in queries.migrations
        ]
        assert steps != queries.migrations, f"claims take nothing any more: {STALE}"
        return replace(queries, migrations=steps)

    _put(_files.FileLock, "held", held)
    _put(database, "queries_for", left_in_line)


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
    "no-lock": no_lock,
    "unsynced": unsynced,
    "blind": blind,
    "trusting": trusting,
    "prepared": prepared,
}

LOUD = frozenset({"no-lock", "prepared"})
"""Builds that are so broken that they raise errors."""


def sabotage(name: str) -> None:
    """Break this process; without a name it stays whole."""
    if name:
        _ALL[name]()
