"""Somebody else holds a lock: every verb ends in time, and nothing is lost.

    python rigs/locks.py            every table and mode of PostgreSQL, rows, and the lock of file stores
    python rigs/locks.py --short    a few of them
    python rigs/locks.py --control  a build that waits for locks without limit: must be found out

While the lock is held, all verbs are called at once, each on a thread or in a process of its own, and a
worker works. Each must end, well or with a StoreBusy; commands that only look at a
file store must show what they found. Then the lock is let go: what was refused works now, the worker
does all jobs, and each job that was accepted is completed in one attempt.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from scene import place

import pgkit
from kit import make_job
from redrive import Redrive
from redrive.errors import StoreBusy
from redrive.stores import _files
from redrive.stores.jsonl import JsonlStore
from redrive.stores.postgres import connecting, database, opening, tx
from redrive.stores.sqlite import SqliteStore
from stores.contract.verbs import claim, claim_one, move, settle

WAIT = 1.0
"""Seconds that a store waits for locks here; the last try of PostgreSQL may take 4 more."""
BOUND = 60.0
"""Seconds in which every verb must end, on a machine that is busy."""
TABLES = ("jobs", "open", "ended", "attempts", "notes", "groups", "acts", "ticks")
MODES = ("SHARE", "EXCLUSIVE", "ACCESS EXCLUSIVE")
_LOCKING = """
import fcntl, sys
with open(sys.argv[1], "a") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@dataclass
class Case:
    """What is run: which store, and which lock on it."""

    kind: str
    lock: str
    broken: bool = False
    faults: list[str] = field(default_factory=list[str])
    refused: int = 0
    longest: float = 0.0

    @property
    def bound(self) -> float:
        """How long to wait for a verb before it is called stuck."""
        return 15.0 if self.broken else BOUND

    def __str__(self) -> str:
        return f"locks {self.kind}, {self.lock}{' (unbounded)' if self.broken else ''}"


FULL = [
    *(
        Case("postgresql", f"LOCK TABLE {{schema}}.{table} IN {mode} MODE")
        for table in TABLES
        for mode in MODES
    ),
    *(Case("postgresql", f"SELECT FROM {{schema}}.{table} FOR UPDATE") for table in TABLES),
    Case("postgresql", "LOCK TABLE {schema}.redrive_version IN ACCESS EXCLUSIVE MODE"),
    Case("sqlite", "flock"),
    Case("jsonl", "flock"),
]
SHORT = [
    Case("postgresql", "LOCK TABLE {schema}.open IN SHARE MODE"),
    Case("postgresql", "LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE"),
    Case("postgresql", "SELECT FROM {schema}.open FOR UPDATE"),
    Case("sqlite", "flock"),
    Case("jsonl", "flock"),
]
CONTROLS = [
    Case("postgresql", "LOCK TABLE {schema}.jobs IN ACCESS EXCLUSIVE MODE", broken=True),
    Case("sqlite", "flock", broken=True),
]


@contextlib.contextmanager
def holding(case: Case, url: str) -> Iterator[None]:
    """Hold the lock."""
    if case.kind == "postgresql":
        schema = url.rpartition("schema=")[2].partition("&")[0]
        with (
            pgkit.connect() as other,
            other.transaction(force_rollback=True),
        ):
            other.execute(case.lock.format(schema=f'"{schema}"'))
            yield
        return
    file = url.partition(":")[2] + ".lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", _LOCKING, file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    try:
        yield
    finally:
        holder.communicate()


class Verbs:
    """Everything that is called while the lock is held, each with a store of its own."""

    def __init__(self, case: Case, url: str) -> None:
        self._url = url
        self._apps = [self._app() for _ in range(6)]
        stores = [app.store for app in self._apps]
        stores[0].add([make_job("dead", handler="other"), make_job("held", handler="other")])
        mine = claim_one(stores[1], "other", limit=1, lease_for=600)
        self.refused: dict[str, Callable[[], object]] = {
            "submit": lambda: stores[0].add([make_job("new", handler="work")]),
            "settle": lambda: settle(stores[1], mine),
            "discard": lambda: move(stores[2], "discard", "dead"),
            "claim": lambda: claim(stores[3], "nobody"),
            "counts": stores[4].counts,
            "status": lambda: self._command(case, "status"),
            "list": lambda: self._command(case, "list"),
            "close": stores[5].close,
        }

    def _app(self) -> Redrive:
        app = Redrive(self._url)
        app.store.counts()
        return app

    def _command(self, case: Case, name: str) -> None:
        """Run a command in a process of its own."""
        words = [sys.executable, "-m", "redrive", "--store", self._url, name]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=case.bound
        )
        if done.returncode == 5 and case.kind == "postgresql":
            raise StoreBusy(done.stderr)
        assert done.returncode == 0, done.stderr
        assert done.stdout

    def close(self) -> None:
        """Close what is open."""
        for app in self._apps:
            app.close()


def call(case: Case, name: str, verb: Callable[[], object], left: set[str]) -> None:
    """Call one verb and note how it ended."""
    began = time.monotonic()
    try:
        verb()
        left.discard(name)
    except StoreBusy:
        case.refused += 1
    except Exception as error:  # noqa: BLE001 - a fault of what is tried
        case.faults.append(f"{name}: {error!r}")
    case.longest = max(case.longest, time.monotonic() - began)


def run(case: Case) -> bool:
    """Run one case and print its figures; whether all held."""
    began = time.monotonic()
    with place(case.kind) as where, contextlib.ExitStack() as stack:
        url = f"{where}&max_wait={WAIT:g}" if case.kind == "postgresql" else where
        verbs = Verbs(case, url)
        stack.callback(verbs.close)
        app, work, ran = program(url)
        stack.enter_context(app)
        accepted = [work.submit(number).id for number in range(20)]
        left = set(verbs.refused)
        with app.worker(concurrency=2):
            with holding(case, url):
                threads = {
                    name: threading.Thread(target=call, args=(case, name, verb, left))
                    for name, verb in verbs.refused.items()
                }
                for thread in threads.values():
                    thread.start()
                end = time.monotonic() + case.bound
                for name, thread in threads.items():
                    thread.join(max(0.0, end - time.monotonic()))
                    if thread.is_alive():
                        case.faults.append(f"{name}: still waits after {case.bound:g} s")
            for thread in threads.values():
                thread.join()
            if not case.broken:
                for name in sorted(left):
                    call(case, f"{name} afterwards", verbs.refused[name], set())
                wait_for(case, app, [*accepted, "new"])
        judge(case, app, accepted, ran)
    print(
        f"{case}: {len(threads)} verbs, {case.refused} refused, the longest after "
        f"{case.longest:.1f} s, {len(case.faults)} faults, {time.monotonic() - began:.0f} s",
        flush=True,
    )
    return not case.faults


def program(url: str) -> tuple[Redrive, Any, list[int]]:
    """Give an app with a handler, and what it ran."""
    app, ran = Redrive(url, lease=120), list[int]()

    @app.handler("work")
    def work(number: int = -1) -> None:
        time.sleep(0.02)
        ran.append(number)

    return app, work, ran


def wait_for(case: Case, app: Redrive, ids: list[str]) -> None:
    """Wait until the worker has done all jobs."""
    end = time.monotonic() + BOUND
    while any(state_of(app, one) != "completed" for one in ids):
        if time.monotonic() > end:
            case.faults.append("the worker did not go on")
            return
        time.sleep(0.1)


def state_of(app: Redrive, job_id: str) -> str:
    """Give the state of a job; empty if there is none."""
    job = app.store.get(job_id)
    return "" if job is None else str(job.state)


def judge(case: Case, app: Redrive, accepted: list[str], ran: list[int]) -> None:
    """Look at what is stored when all is over."""
    if case.broken:
        return
    jobs = [app.get(one) for one in accepted]
    paid = [job.id for job in jobs if job.attempts != 1]
    if paid:
        case.faults.append(f"{len(paid)} jobs paid for it with an attempt")
    if sorted(number for number in ran if number >= 0) != list(range(len(accepted))):
        case.faults.append(f"not every job ran once: {sorted(ran)}")
    case.faults += [f"{one.where}: {one.what}" for one in app.store.verify().problems]


def sabotage() -> None:
    """Wait without limit, as before."""
    real = tx.queries_for
    bounded = real("x").texts["bounded"]
    once = b"set_config('lock_timeout', '4s', true)"

    def unbounded(schema: str) -> tx.Queries:
        queries = real(schema)
        for name, text in queries.texts.items():
            new = text.replace(bounded, b"SET LOCAL lock_timeout = 0")
            queries.texts[name] = new.replace(once, once.replace(b"4s", b"0"))
        return queries

    database.queries_for = unbounded
    scripts = opening.script_named
    opening.script_named = lambda name, schema: scripts(name, schema).replace("'4s'", "'0'")
    connecting.BoundedConnection.limit = 1e9
    _files.FileLock._wait = _wait  # type: ignore[method-assign]  # noqa: SLF001


def _wait(lock: _files.FileLock) -> None:
    while not lock._try():  # noqa: SLF001
        time.sleep(0.01)


def main() -> int:
    """Run what is asked for; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--control", action="store_true", help="prove that the rig can fail")
    given = parser.parse_args()
    os.environ.setdefault("NO_COLOR", "1")
    if given.control:
        sabotage()
        missed = [case for case in CONTROLS if run(case)]
        print(*(f"NOT FOUND OUT: {case}" for case in missed), sep="\n", end="")
        return 1 if missed else 0
    shorten()
    cases = SHORT if given.short else FULL
    held = [run(case) for case in cases]
    for case in cases:
        print(*case.faults[:5], sep="\n", end="\n" if case.faults else "")
    return 0 if all(held) else 1


def shorten() -> None:
    """Let file stores wait as short as PostgreSQL does here; their default is half a minute."""
    for kind in (SqliteStore, JsonlStore):
        defaults = kind.__init__.__kwdefaults__
        assert defaults is not None
        defaults["patience"] = WAIT


if __name__ == "__main__":
    sys.exit(main())
