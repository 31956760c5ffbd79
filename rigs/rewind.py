"""A store goes back in time under a worker: its lease number is given again, and its name is not.

    python rigs/rewind.py            100 times on each file store, 25 on PostgreSQL
    python rigs/rewind.py --short    4 and 2 times
    python rigs/rewind.py --control  a build that does not compare holders: must be found out

One process claims jobs. Then the past comes back: a copy of the files is restored, or a PostgreSQL
that commits without waiting for its disk is stopped at once and has forgotten the claims. Another
process claims the same jobs and gets the same numbers. Now the first one settles: all is refused.
Then the second one does: all is taken.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from broken import processes
from children import Crew, Line
from ledger import Ledger
from scene import main, place, settle_up

import pgkit
from kit import make_job, make_settlement
from redrive.jobs.job import Claim, Completed, Reason
from redrive.stores import open_store

JOBS = 5
LEASE = 3600.0


def rig(kind: str, rounds: int, broken: str) -> tuple[str, Ledger]:
    """Go back so often; the words for the figures, and the ledger."""
    ledger = Ledger(forgetful=True)
    again = 0
    with place(kind) as url, forgetting(kind):
        for number in range(rounds):
            crew = Crew(ledger.hear)
            again += rewound(crew, ledger, url, f"round{number}", broken)
            crew.close()
        crew = Crew(ledger.hear)
        settle_up(crew, url)
    if again < rounds * JOBS // 2:
        ledger.hear(["problem", f"only {again} claims of {rounds * JOBS} were forgotten"])
    words = f"{rounds} times back, {again} lease numbers given again"
    return f"{words}, {ledger.refused} late settlements refused", ledger


def rewound(crew: Crew, ledger: Ledger, url: str, name: str, broken: str) -> int:
    """Go back once; how many lease numbers were given again."""
    crew.join(crew.start(partial(submit, url, name, broken)))
    go_back = remembered(url)
    first = crew.start(partial(work, url, broken, f"a{name}"))
    crew.until_ready(first)
    go_back()
    second = crew.start(partial(work, url, broken, f"b{name}"))
    crew.until_ready(second)
    for one in (first, second):
        one.go()
        crew.join(one)
    claims = [ledger.claims[f"{name}-{number}"] for number in range(JOBS)]
    return sum(len({lease for lease, *_ in many}) < len(many) for many in claims)


def submit(url: str, name: str, broken: str, line: Line) -> None:
    """Submit the jobs of one round; the first one makes the tables, broken as the rest."""
    processes.sabotage(broken)
    with contextlib.closing(open_store(url)) as store:
        for number in range(JOBS):
            job = make_job(f"{name}-{number}", handler="work", payload='{"number":1}')
            line.tell("accepted", store.add([job])[0].id)


def work(url: str, broken: str, me: str, line: Line) -> None:
    """Claim, let go of the store, and settle when told."""
    processes.sabotage(broken)
    store = open_store(url)
    claims = store.claim(["work"], limit=JOBS, holder=me, lease_for=LEASE)
    if not url.startswith("postgresql"):
        store.close()  # a file that is replaced under an open store is refused anyway
    at = time.monotonic()
    for claim in claims:
        line.tell("claimed", claim.job.id, claim.job.lease, me, at)
    line.tell("ready")
    line.wait()
    store = store if url.startswith("postgresql") else open_store(url)
    for claim in claims:
        called = time.monotonic()
        (taken,) = store.settle([make_settlement(claim, Completed(Reason.DONE))])
        tell(line, claim, me, called, taken is not None)
    store.close()


def tell(line: Line, claim: Claim, me: str, called: float, taken: bool) -> None:
    """Tell what became of a settlement."""
    job = claim.job
    if taken:
        line.tell("ended", job.id, job.lease, me, called, time.monotonic(), "completed")
    elif me.startswith("a"):
        line.tell("refused", job.id, 0)  # the number says nothing here
    else:
        line.tell("problem", f"{job.id} was refused to {me}, whose claim is the last")


def remembered(url: str) -> Callable[[], None]:
    """Keep the store as it is now; what comes back brings this moment back."""
    if url.startswith("postgresql"):
        with pgkit.connect() as connection:
            connection.execute("CHECKPOINT")
        return stop
    directory = Path(url.partition(":")[2]).parent
    copy = directory.with_name(directory.name + ".copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(directory, copy)

    def restore() -> None:
        shutil.rmtree(directory)
        copy.rename(directory)

    return restore


def stop() -> None:
    """Stop the server at once, and start it again."""
    pgkit.stop_at_once()
    pgkit.start_again()


@contextlib.contextmanager
def forgetting(kind: str) -> Iterator[None]:
    """Let PostgreSQL answer before anything is on its disk, for a while."""
    if kind != "postgresql":
        yield
        return
    settings = {"synchronous_commit": "off", "wal_writer_delay": "10s"}
    for name, value in settings.items():
        _set(f"SET {name} = '{value}'")
    try:
        yield
    finally:
        for name in settings:
            _set(f"RESET {name}")


def _set(words: str) -> None:
    with pgkit.connect() as connection:
        connection.execute(f"ALTER SYSTEM {words}")
        connection.execute("SELECT pg_reload_conf()")


if __name__ == "__main__":
    sys.exit(
        main(
            rig,
            name="rewind",
            runs={"sqlite": (4, 100), "jsonl": (4, 100), "postgresql": (2, 25)},
            controls=[("no-holder", kind) for kind in ("sqlite", "jsonl", "postgresql")],
            control_runs=2,
            doc=__doc__,
        )
    )
