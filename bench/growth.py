"""Whether work stays as quick when a store is full: claims beside very many other jobs, and counts.

A claim must not look at what it does not take: jobs that are not due, finished, waiting behind it, or
of a lane that stands still. So each kind of backlog is laid in, few and many, and jobs that are due
are claimed beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import postgres
import server
from jobs import HANDLER, new_job, settlement
from measure import Contestant, Goal, Measure, Round, Stage, seconds

from redrive.jobs.job import Attempt, Category, Claim, Failure, Job, Reason, State
from redrive.stores.contract import Query, Store
from redrive.stores.jsonl import JsonlStore
from redrive.stores.note_verbs import PAUSE
from redrive.stores.sqlite import SqliteStore

Make = Callable[[int], Job]
Prepare = Callable[[Stage], AbstractContextManager[Round]]

BATCH = 100
CLAIMS = 20
FEW = 100
"""Few jobs are this part of many."""
DAY = 86_400.0
PAUSED = "paused"


def future(number: int) -> Job:
    """Make a job that is due tomorrow."""
    return new_job(due=time.time() + DAY + number)


def finished(_number: int) -> Job:
    """Make a job that was done an hour ago, with its history."""
    then = time.time() - 3600
    attempt = Attempt(
        ordinal=1, number=1, life=0, started=then, duration=0.1, worker="bench", outcome="done"
    )
    return new_job(
        state=State.COMPLETED, reason=Reason.DONE, attempts=1, lease=1, finished=then,
        updated=then, history=(attempt,),
    )  # fmt: skip


def due(number: int) -> Job:
    """Make a job that waits since yesterday."""
    return new_job(due=time.time() - DAY + number / 1000)


def paused(number: int) -> Job:
    """Make one that waits in a lane that stands still."""
    return new_job(due=time.time() - DAY + number / 1000, lane=PAUSED)


def mixed(number: int) -> Job:
    """Make a job of a store in use: a quarter waits, a quarter is done, half is dead."""
    where = f"lane{number % 7}"
    if number % 4 == 0:
        return new_job(lane=where)
    if number % 4 == 1:
        return new_job(lane=where, state=State.COMPLETED, reason=Reason.DONE, finished=time.time())
    cause = f"cause{number % 101}"
    failure = Failure(
        category=(Category.PERMANENT, Category.TRANSIENT)[number % 2], type="ValueError",
        message=f"no order of {cause}", fingerprint=cause, title=f"ValueError: {cause}",
    )  # fmt: skip
    return new_job(
        lane=where, state=State.DEAD, reason=Reason.EXHAUSTED, failure=failure, attempts=3,
        spent={failure.category.value: 3}, finished=time.time(), first_failed=time.time(),
    )  # fmt: skip


def fill(store: Store, make: Make, number: int) -> None:
    """Lay jobs in."""
    for start in range(0, number, 1000):
        store.add([make(n) for n in range(start, start + min(1000, number - start))])
    if make is paused:
        store.note(PAUSE + PAUSED, "bench", durable=True)


KINDS: tuple[Make, ...] = (future, finished, due, paused)

Filled = Callable[[Stage, Make, int], AbstractContextManager[Store]]
"""Opens a store in which so many jobs of a kind were laid, settled down as after a while."""


def in_file(kind: Callable[[Path], Store], name: str) -> Filled:
    """Fill a file, and open it again."""

    @contextmanager
    def filled(stage: Stage, make: Make, number: int) -> Iterator[Store]:
        place = stage.fresh() / name
        with closing(kind(place)) as store:
            fill(store, make, number)
        with closing(kind(place)) as store:
            yield store

    return filled


@contextmanager
def in_postgres(_stage: Stage, make: Make, number: int) -> Iterator[Store]:
    """Fill a database, and do at once what its autovacuum would do a little later."""
    url = server.new_database()
    with closing(postgres.open_at(url)) as store:
        fill(store, make, number)
        with server.connect(url) as connection:
            connection.execute("VACUUM ANALYZE")
        yield store
    server.drop(url)


def claiming(filled: Filled, make: Make, part: int) -> Prepare:
    """Give the milliseconds that a claim takes beside a backlog: so many parts of a full store's."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        with filled(stage, make, stage.many // part) as store:
            _claims(store)  # warm
            yield lambda: _claims(store)

    return prepare


def _claims(store: Store) -> float:
    """Add as many jobs as will be claimed, claim them in time, and settle them."""
    for _ in range(CLAIMS * BATCH // 1000):
        store.add([new_job() for _ in range(1000)])
    taken: list[Claim] = []

    def work() -> None:
        for _ in range(CLAIMS):
            taken.extend(store.claim({HANDLER}, limit=BATCH, holder="bench", lease_for=600))

    cost = seconds(work) / CLAIMS * 1000
    assert len(taken) == CLAIMS * BATCH
    for start in range(0, len(taken), BATCH):
        store.settle([settlement(claim) for claim in taken[start : start + BATCH]])
    return cost


def counting(filled: Filled) -> dict[str, Prepare]:
    """Give the seconds that counts and groups take in one full store."""
    opened: list[Store] = []

    @contextmanager
    def counts(stage: Stage) -> Iterator[Round]:
        with filled(stage, mixed, stage.many) as store:
            opened.append(store)
            yield lambda: seconds(store.counts)

    @contextmanager
    def groups(_stage: Stage) -> Iterator[Round]:
        yield lambda: seconds(lambda: opened[-1].groups(Query()))

    return {"counts": counts, "groups": groups}


def claims_of(name: str, store: str, filled: Filled) -> Measure:
    """Measure claims beside every kind of backlog, few and many."""
    contestants = [
        Contestant(f"{size} {make.__name__}", "", claiming(filled, make, part))
        for make in KINDS
        for size, part in (("few", FEW), ("many", 1))
    ]
    goals = [
        Goal(f"many {make.__name__}", f"few {make.__name__}", 1.5, 1.15, at_most=True)
        for make in KINDS
    ]
    # And the other way round: few that are slow would flatter the many.
    goals.append(Goal("few due", "many due", 1.5, 1.15, at_most=True))
    return Measure(
        name=f"{name}-claims",
        title=f"{store}: a claim of 100 jobs beside others",
        unit="ms",
        contestants=tuple(contestants),
        goals=tuple(goals),
        note="Many: a full store; few: a hundredth of it. Due: they are claimed themselves. Paused: due, in"
        " a lane that stands still.",
    )


def counts_of(name: str, store: str, filled: Filled) -> Measure:
    """Measure the questions that people ask first."""
    return Measure(
        name=f"{name}-counts",
        title=f"{store}: counts and groups of a full store",
        unit="s",
        contestants=tuple(Contestant(what, "", one) for what, one in counting(filled).items()),
        goals=(
            Goal("counts", "", 0.2, 0.1, at_most=True),
            Goal("groups", "", 0.2, 0.1, at_most=True),
        ),
        note="A quarter pending, a quarter completed, half dead of 101 causes, in 7 lanes.",
    )


STORES: dict[str, tuple[str, Filled]] = {
    "sqlite": ("SQLite", in_file(SqliteStore, "jobs.db")),
    "jsonl": ("JSON Lines", in_file(JsonlStore, "jobs.jsonl")),
    "postgres": ("PostgreSQL", in_postgres),
}

MEASURES = tuple(of(name, *STORES[name]) for of in (claims_of, counts_of) for name in STORES)
