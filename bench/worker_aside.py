"""What stands beside the worker: coroutines that submit, retries in place, and an idle process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

from jobs import HANDLER, PAYLOAD
from measure import Contestant, Goal, Measure, Round, Stage, timed
from worker_crew import huey_command, load, our_command, sqlite_url, worker

from redrive import Redrive, retry

Prepare = Callable[[Stage], AbstractContextManager[Round]]
IDLE = 1.0
"""Seconds after its first job in which a worker comes to rest."""


def crowd(coroutines: int, full: int, quick: int) -> Prepare:
    """Submit from so many coroutines of one loop."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number = stage.size(full, quick) // coroutines
        with closing(Redrive(sqlite_url(stage))) as app:
            send = app.handler(HANDLER)(_nothing)

            async def one() -> None:
                for _ in range(number):
                    await send.asubmit(**PAYLOAD)

            async def all_of_them() -> None:
                await asyncio.gather(*(one() for _ in range(coroutines)))

            with asyncio.Runner() as runner:
                yield lambda: timed(number * coroutines, lambda: runner.run(all_of_them()))

    return prepare


def _nothing(**message: object) -> None:
    """Do nothing: it is never run here."""


def answer() -> int:
    """Succeed."""
    return 42


async def aanswer() -> int:
    """Succeed, later."""
    return 42


def over_bare(decorate: Callable[[], Callable[[Any], Any]]) -> Prepare:
    """Give the microseconds that a decorated call takes more than a bare one."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number, wrapped = stage.size(200_000, 20_000), decorate()(answer)
        yield lambda: (_calls(wrapped, number) - _calls(answer, number)) / number * 1e6

    return prepare


def over_bare_async(decorate: Callable[[], Callable[[Any], Any]]) -> Prepare:
    """Give the same for a coroutine."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        number, wrapped = stage.size(100_000, 10_000), decorate()(aanswer)

        async def more() -> float:
            return await _awaits(wrapped, number) - await _awaits(aanswer, number)

        with asyncio.Runner() as runner:
            yield lambda: runner.run(more()) / number * 1e6

    return prepare


def _calls(function: Callable[[], object], number: int) -> float:
    began = time.process_time()
    for _ in range(number):
        function()
    return time.process_time() - began


async def _awaits(function: Callable[[], Awaitable[object]], number: int) -> float:
    began = time.process_time()
    for _ in range(number):
        await function()
    return time.process_time() - began


def tenacity() -> Callable[[Any], Any]:
    """Give the peer's decorator with a limit and a wait, as ours has them."""
    from tenacity import retry, stop_after_attempt, wait_random_exponential  # noqa: PLC0415

    decorate: Callable[[Any], Any] = retry(
        stop=stop_after_attempt(10), wait=wait_random_exponential(1, 300)
    )
    return decorate


def idle(which: str, start: Callable[[Stage], AbstractContextManager[int]]) -> Prepare:
    """Give the megabytes of a worker process that ran one job and rests."""

    @contextmanager
    def prepare(stage: Stage) -> Iterator[Round]:
        def one_round() -> float:
            with start(stage) as process:
                time.sleep(IDLE)
                return _memory(process, which)

        yield one_round

    return prepare


def _memory(process: int, which: str) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text("ascii").splitlines()
    (line,) = (one for one in lines if one.startswith(f"{which}:"))
    return int(line.split()[1]) / 1000


@contextmanager
def our_process(stage: Stage) -> Iterator[int]:
    """Start ours on SQLite."""
    url = sqlite_url(stage)
    load(url, "noop", 1)
    with worker(our_command(), "1", BENCH_URL=url) as working:
        working.stamp()
        yield working.pid


@contextmanager
def huey_process(stage: Stage) -> Iterator[int]:
    """Start Huey's consumer on SQLite."""
    command = huey_command("sqlite", str(stage.fresh()), "noop", "1")
    with worker(command, "1") as working:
        working.stamp()
        yield working.pid


CROWD = Measure(
    name="sqlite-coroutines",
    title="SQLite: coroutines that submit",
    unit="/s",
    contestants=(
        Contestant("100 coroutines", "P", crowd(100, 20_000, 2000)),
        Contestant("1 coroutine", "P", crowd(1, 2000, 300)),
    ),
    goals=(Goal("100 coroutines", "1 coroutine", 6, 15),),
    note="One loop, one job a call.",
)

RETRY = Measure(
    name="retry",
    title="@retry around a call that succeeds, over the bare call",
    unit="µs",
    contestants=(
        Contestant("Redrive", "", over_bare(lambda: retry)),
        Contestant("tenacity", "", over_bare(tenacity)),
        Contestant("Redrive, async", "", over_bare_async(lambda: retry)),
        Contestant("tenacity, async", "", over_bare_async(tenacity)),
    ),
    goals=(
        Goal("Redrive", "", 0.15, 0.1, at_most=True),
        Goal("Redrive, async", "", 0.5, 0.1, at_most=True),
    ),
    note="Processor time.",
)

MEMORY = Measure(
    name="idle",
    title="Memory of an idle worker process on SQLite",
    unit="MB",
    contestants=(
        Contestant("Redrive", "", idle("Rss", our_process)),
        Contestant("SqliteHuey", "", idle("Rss", huey_process)),
        Contestant("Redrive, shared pages shared out", "", idle("Pss", our_process)),
        Contestant("SqliteHuey, shared pages shared out", "", idle("Pss", huey_process)),
    ),
    goals=(Goal("Redrive", "SqliteHuey", 1.1, 0.9, at_most=True),),
    note="Resident, a second after its first job. Shared out: a page that others use too counts in part.",
)

MEASURES = (CROWD, RETRY, MEMORY)
