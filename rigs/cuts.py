"""Cut connections to PostgreSQL while COMMIT is on its way: callers are told the truth, or an error.

    python rigs/cuts.py            200 cuts
    python rigs/cuts.py --short    42
    python rigs/cuts.py --control  builds that guess what became of a commit: must be found out

Four threads submit, claim, settle, sweep and count through a proxy, which cuts a connection that
sends COMMIT, or a statement that commits by itself: before the server gets it, while it works on it, or after it answered. One
cut in ten is followed by a time without any server, longer than the clients' patience: then an error
must say that the outcome is not known, and the caller repeats what may be repeated.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
from functools import partial

from broken import processes
from children import Crew, Line
from ledger import Ledger
from scene import main, place, settle_up

from kit import make_failure, make_job, make_settlement
from redrive.errors import StoreLost
from redrive.jobs.job import Claim, Completed, Reason, Retry, Verdict
from redrive.stores.contract import Store
from redrive.stores.postgres import PostgresStore
from stores.postgres.proxy import Cut, Proxy, proxied

_COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
WORDS = (_COMMIT, b"lease_jobs", _COMMIT, b"settle_jobs", b"store_jobs")
"""Messages whose answer says that something was committed; their number is none of threes, so that
each meets every way to cut."""
PATIENCE = 0.5
LEASE = 1.0
THREADS = 4


def rig(kind: str, cuts: int, broken: str) -> tuple[str, Ledger]:
    """Cut so often; the words for the figures, and the ledger."""
    ledger = Ledger()
    crew = Crew(ledger.hear)
    with place(kind) as url:
        # A child does it, because it has threads and is sabotaged; the rig has and is neither.
        crew.join(crew.start(partial(suffer, url, cuts, broken)), seconds=1800)
        settle_up(crew, url)
    return f"{cuts} cuts, {ledger.refused} late settlements refused", ledger


def suffer(url: str, cuts: int, broken: str, line: Line) -> None:
    """Work while connections are cut."""
    processes.sabotage(broken)
    schema = url.rpartition("schema=")[2]
    over = threading.Event()
    with proxied() as proxy:
        callers = [Caller(number, proxy.url(schema), line, over) for number in range(THREADS)]
        threads = [threading.Thread(target=caller.live) for caller in callers]
        for thread in threads:
            thread.start()
        while proxy.cuts < cuts and all(thread.is_alive() for thread in threads):
            cut(proxy, proxy.cuts)
        over.set()
        for thread in threads:
            thread.join(60)


def cut(proxy: Proxy, number: int) -> None:
    """Cut one connection, somewhere near the commit of what it does; each way in its turn."""
    before, end = proxy.cuts, time.monotonic() + 10
    proxy.arm(WORDS[number % len(WORDS)], tuple(Cut)[number % 3])
    while proxy.cuts == before and time.monotonic() < end:
        time.sleep(0.001)
    if number % 10 == 9:
        proxy.refuse()
        time.sleep(2 * PATIENCE)
        proxy.refuse(down=False)
    time.sleep(random.random() * 0.05)


class Caller:
    """A thread that does everything a program does, and tells what it was told."""

    def __init__(self, number: int, url: str, line: Line, over: threading.Event) -> None:
        self._me = f"w{number}"
        self._line, self._tell = line, line.tell
        self._over = over
        self._count_is = (0, 0)
        # Opened before anything is cut: a server that is away then is an error at once.
        self._store = PostgresStore(url, patience=PATIENCE)

    def live(self) -> None:
        """Work until it is over."""
        try:
            store = self._store
            for number in itertools.count():
                if self._over.is_set():
                    break
                self._step(store, number)
            self._look_up(store, self._count_is[0])
            store.close()
        except Exception as error:  # noqa: BLE001 - told to the rig
            self._line.complain(error)

    def _step(self, store: Store, number: int) -> None:
        name = f"{self._me}-{number}"
        self._submit(store, *((f"{name}-a", f"{name}-b") if number % 8 == 3 else (name,)))
        # Most sweeps find nothing, and to lose the commit of nothing proves nothing: they are few.
        for verb in (self._count, self._work, *((self._sweep,) if number % 8 == 0 else ())):
            with contextlib.suppress(StoreLost):
                verb(store)

    def _submit(self, store: Store, *names: str) -> None:
        jobs = [
            make_job(name, handler="work", payload='{"number":1}', key=f"key-{name}")
            for name in names
        ]
        while True:
            try:
                stored = store.add(jobs)
            except StoreLost:
                continue  # may be repeated, the docs say
            for name, job in zip(names, stored, strict=True):
                if job.id != name:
                    self._tell("problem", f"{name} came back as {job.id}")
                self._tell("accepted", name)
            return

    def _work(self, store: Store) -> None:
        for claim in store.claim(["work"], limit=2, holder=self._me, lease_for=LEASE):
            at = time.monotonic()
            self._tell("claimed", claim.job.id, claim.job.lease, self._me, at)
            first = claim.job.lease == 1 and random.random() < 0.2
            self._settle(store, claim, Retry(0.0) if first else Completed(Reason.DONE))

    def _sweep(self, store: Store) -> None:
        for claim in store.seize(by=self._me, lease_for=LEASE, limit=5):
            self._settle(store, claim, Retry(0.0))

    def _settle(self, store: Store, claim: Claim, verdict: Verdict) -> None:
        called, job = time.monotonic(), claim.job
        failure = make_failure() if isinstance(verdict, Retry) else None
        (taken,) = store.settle([make_settlement(claim, verdict, failure)])
        if taken is None:
            self._tell("refused", job.id, job.lease)
        else:
            words = (job.lease, self._me, called, time.monotonic(), taken.state)
            self._tell("ended", job.id, *words)

    def _count(self, store: Store) -> None:
        """Count in a note, by comparing and setting, without a look as long as all is clear."""
        value, version = self._count_is
        try:
            note = store.note(self._me, str(value + 1), expected=version)
        except StoreLost:
            self._look_up(store, value, value + 1)
            return
        if note is None:
            self._tell("problem", f"{self._me} counts alone and was told that another did")
            self._look_up(store, value)
        else:
            self._count_is = value + 1, note.version

    def _look_up(self, store: Store, *expected: int) -> None:
        """See what the count is; it must be one of those expected."""
        while True:
            with contextlib.suppress(StoreLost):
                found = store.notes(self._me)
                break
        value, version = (int(found[0].value), found[0].version) if found else (0, 0)
        if value not in expected:
            self._tell("problem", f"{self._me} should have counted {expected}; {value} is stored")
        self._count_is = value, version


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="cuts",
            runs={"postgresql": (42, 200)},
            controls=[("blind", "postgresql"), ("trusting", "postgresql")],
            control_runs=63,
            doc=__doc__,
        )
    )
