"""Eight processes on one store: nothing is lost, nothing is run by two, whoever is late changes nothing.

    python rigs/crowd.py            200 jobs a process, then a minute of workers that are late
    python rigs/crowd.py --short    10 jobs, 3 seconds
    python rigs/crowd.py --control  builds without fence, compare-and-set or locks: must be found out

Each process has two threads under one holder's name: on PostgreSQL that makes 16 sessions. First all
submit and work with long leases: every settlement must be taken, no claim may give more than was
asked for, and no job be held by two. Then a few jobs go round and round under short leases, with
workers that sleep through theirs and sweepers in every thread: a settlement may be taken only as long
as nobody else has been given the job.
"""

from __future__ import annotations

import itertools
import random
import sys
import threading
import time
from dataclasses import dataclass
from functools import partial

from broken import processes
from children import Crew, Line
from ledger import Ledger
from scene import main, place, settle_up

from kit import make_failure, make_job, make_settlement
from redrive.jobs.job import Claim, Completed, Reason, Retry, State
from redrive.stores import open_store
from redrive.stores.contract import Store

PROCESSES, THREADS = 8, 2
_LONGEST = 120.0
"""Seconds in which the work must be done where nobody is late."""


@dataclass(frozen=True)
class Phase:
    """How the crowd works."""

    jobs: int
    """That each process submits."""
    lease: float
    ends: float
    """How likely a settlement completes its job; else the job is tried again at once."""
    late_for: float = 0.0
    """For how many seconds workers sleep through their leases now and then; else until all is done."""


def rig(kind: str, jobs: int, broken: str) -> tuple[str, Ledger]:
    """Let the crowd work, in time and late; the words for the figures, and the ledger."""
    ledger = Ledger()
    for phase in (
        Phase(jobs=jobs, lease=600.0, ends=0.7),
        Phase(jobs=3, lease=0.2, ends=0.1, late_for=20.0 if broken else 0.3 * jobs),
    ):
        with place(kind) as url:
            gather(Crew(ledger.hear), ledger, url, broken, phase)
    ends = sum(len(ends) for ends in ledger.ends.values())
    words = f"{PROCESSES} processes, {ends:,} settlements, {ledger.refused:,} late ones refused"
    return words, ledger


def gather(crew: Crew, ledger: Ledger, url: str, broken: str, phase: Phase) -> None:
    """Let the crowd work on one store; a broken build only until it is found out."""
    members = [
        crew.start(partial(member, url, broken, phase, f"{phase.late_for > 0:d}{number}"))
        for number in range(PROCESSES)
    ]
    for one in members:
        crew.until_ready(one)
    for one in members:
        one.go()
    while crew.children and not (broken and ledger.is_broken()):
        crew.listen(0.5)
    if broken and ledger.is_broken():
        ledger.looked = False
        crew.close()
    else:
        settle_up(crew, url)


def member(url: str, broken: str, phase: Phase, me: str, line: Line) -> None:
    """Be one process of the crowd."""
    processes.sabotage(broken)
    random.seed()
    store = open_store(url)
    line.tell("ready")
    line.wait()
    hands = [Hand(store, line, phase, f"h{me}", f"{me}{number}") for number in range(THREADS)]
    for _ in range(phase.jobs):
        hands[0].submit()
    threads = [threading.Thread(target=hand.work) for hand in hands]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()


class Hand:
    """One thread: submits, claims, holds, settles, sweeps."""

    def __init__(self, store: Store, line: Line, phase: Phase, holder: str, name: str) -> None:
        self._store, self._line, self._phase = store, line, phase
        self._holder, self._name = holder, name
        self._numbers = itertools.count()

    def work(self) -> None:
        """Work until all is done, or the time is over for those who are late."""
        began = time.monotonic()
        try:
            while self._round():
                spent = time.monotonic() - began
                if self._phase.late_for and spent > self._phase.late_for:
                    return
                assert spent < _LONGEST, "there is no end to it"
        except Exception as error:  # noqa: BLE001 - told to the rig
            self._line.complain(error)

    def submit(self) -> None:
        """Submit one job."""
        name = f"{self._name}-{next(self._numbers)}"
        job = make_job(name, handler="work", payload='{"number":1}', max_attempts=1_000_000)
        self._line.tell("accepted", self._store.add([job])[0].id)

    def _round(self) -> bool:
        asked = random.randint(1, 3)
        claims = self._store.claim(
            ["work"], limit=asked, holder=self._holder, lease_for=self._phase.lease
        )
        if len(claims) > asked:
            self._line.tell("problem", f"asked for {asked}, got {len(claims)}")
        self._note(claims)
        if self._phase.late_for and random.random() < 0.3:
            time.sleep(self._phase.lease * random.uniform(1.0, 2.0))
        for claim in claims:
            self._end(claim, completes=random.random() < self._phase.ends)
        if not self._phase.late_for:
            return bool(claims) or self._is_more()
        self._sweep()
        if not claims:
            self.submit()
        return True

    def _is_more(self) -> bool:
        time.sleep(0.01)
        return any(one.state in {State.PENDING, State.RUNNING} for one in self._store.counts())

    def _sweep(self) -> None:
        claims = self._store.seize(by=self._holder, lease_for=self._phase.lease)
        self._note(claims)
        for claim in claims:
            self._end(claim, completes=False)

    def _note(self, claims: list[Claim]) -> None:
        at = time.monotonic()
        for claim in claims:
            self._line.tell("claimed", claim.job.id, claim.job.lease, self._holder, at)

    def _end(self, claim: Claim, *, completes: bool) -> None:
        job, called = claim.job, time.monotonic()
        if completes:
            result = make_settlement(claim, Completed(Reason.DONE))
        else:
            result = make_settlement(claim, Retry(0.0), make_failure())
        (taken,) = self._store.settle([result])
        at = time.monotonic()
        if taken is not None:
            self._line.tell("ended", job.id, job.lease, self._holder, called, at, taken.state)
        elif self._phase.late_for:
            self._line.tell("refused", job.id, job.lease)
        else:
            self._line.tell("problem", f"{job.id} was refused, and nobody else may have it")


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="crowd",
            runs={"sqlite": (10, 200), "jsonl": (10, 200), "postgresql": (10, 200)},
            controls=[
                *(("no-fence", kind) for kind in ("sqlite", "jsonl", "postgresql")),
                *(("sweep", kind) for kind in ("sqlite", "jsonl", "postgresql")),
                ("no-lock", "jsonl"),
                ("no-lock", "postgresql"),
            ],
            control_runs=10,
            doc=__doc__,
        )
    )
