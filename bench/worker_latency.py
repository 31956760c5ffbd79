"""How soon a job begins that another process submits: from the call, synced, to its handler."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import server
import worker_huey
import worker_pgqueuer
from jobs import PAYLOAD
from measure import Contestant, Goal, Measure, Round, Stage
from peers import loop
from worker_crew import (
    Working,
    huey_command,
    our_command,
    postgres_url,
    sqlite_url,
    worker,
)
from worker_runs import EACH

from redrive import Redrive

Send = Callable[[], object]
Pair = Callable[[Stage], AbstractContextManager[tuple[Send, Working]]]
"""Opens a worker process and what submits to it."""

_tails: dict[str, float] = {}
"""The slowest of a hundred, of each contestant's last round."""


def ours(url: Callable[[Stage], str]) -> Pair:
    """Submit by a handler, work by the command."""

    @contextmanager
    def pair(stage: Stage) -> Iterator[tuple[Send, Working]]:
        place = url(stage)
        with closing(Redrive(place)) as app:
            noop = app.handler("noop")(_nothing)
            with worker(our_command(), EACH, BENCH_URL=place) as working:
                yield lambda: noop.submit(**PAYLOAD), working

    return pair


def _nothing(**message: object) -> None:
    """Do nothing: it is run elsewhere."""


@contextmanager
def sqlite_huey(stage: Stage) -> Iterator[tuple[Send, Working]]:
    """Call a task; a lively consumer looks for it."""
    place = str(stage.fresh())
    huey = worker_huey.opened("sqlite", place)
    task = worker_huey.tasks(huey)["noop"]
    with worker(huey_command("sqlite", place, "noop", "0", "lively"), EACH) as working:
        yield lambda: task(PAYLOAD), working
    huey.storage.close()


@contextmanager
def pgqueuer(_stage: Stage) -> Iterator[tuple[Send, Working]]:
    """Enqueue; its worker is notified."""
    url = server.new_database()
    with loop.runner() as runner:
        runner.run(worker_pgqueuer.load(url, "noop", 0))
        send = runner.run(worker_pgqueuer.sender(url))
        with worker(["worker_pgqueuer.py", url, "noop", "0", "10"], EACH) as working:
            yield lambda: runner.run(send()), working


def waiting(name: str, pair: Pair) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Make a contestant of a pair: the milliseconds that half of the jobs waited at most."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = stage.size(150, 40)

        def one_round() -> float:
            with pair(stage) as (send, working):
                _waited(send, working, 0)  # until it is up
                times = sorted(_waited(send, working, one) for one in range(number))
            _tails[name] = times[int(len(times) * 0.99)]
            return statistics.median(times)

        yield one_round

    return prepare


def _waited(send: Send, working: Working, number: int) -> float:
    time.sleep(0.02 + number % 7 * 0.003)
    began = time.monotonic()
    send()
    return (working.stamp() - began) * 1000


def tail(name: str) -> Callable[[Stage], AbstractContextManager[Round]]:
    """Tell the slowest of a hundred of a contestant who had his turn before."""

    @contextmanager
    def prepare(_stage: Stage) -> Iterator[Round]:
        yield lambda: _tails[name]

    return prepare


def measure(name: str, title: str, goal: Goal, note: str, **pairs: Pair) -> Measure:
    """Make a measure of both: half of the jobs, and all but one of a hundred."""
    half = [Contestant(one, "P", waiting(one, pair)) for one, pair in pairs.items()]
    most = [Contestant(f"{one}, p99", "P", tail(one)) for one in pairs]
    return Measure(name, title, "ms", (*half, *most), (goal,), note)


NOTE = "Two processes; the worker is idle between the jobs. From the call of submit; p50, then p99."

SQLITE = measure(
    "sqlite-latency",
    "SQLite: from submit to the handler's start",
    Goal("Redrive", "SqliteHuey", 0.6, 0.3, at_most=True),
    NOTE + " Huey polls at least every 10 ms here; its default is 100 ms to 10 s.",
    Redrive=ours(sqlite_url),
    SqliteHuey=sqlite_huey,
)

POSTGRES = measure(
    "postgres-latency",
    "PostgreSQL: from submit to the handler's start",
    Goal("Redrive", "pgqueuer", 1.0, 0.8, at_most=True, why="the submit is dearer; see there"),
    NOTE,
    Redrive=ours(postgres_url),
    pgqueuer=pgqueuer,
)

MEASURES = (SQLITE, POSTGRES)
