"""chancy, without plugins."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import server
from jobs import PAYLOAD
from measure import Stage, Submit

from peers import loop


@contextmanager
def opened(_stage: Stage) -> Iterator[Submit]:
    """Push a job."""
    from chancy import Chancy, Job, Queue  # noqa: PLC0415 - a peer may be missing

    job = Job(func="peers.procrastinate.nothing", kwargs={"payload": PAYLOAD})
    chancy = Chancy(server.new_database(), plugins=[], no_default_plugins=True)

    async def start() -> None:
        await chancy.__aenter__()
        await chancy.migrate()
        await chancy.declare(Queue("default"))

    async def push(number: int, bulk: int) -> None:
        for _ in range(number // bulk):
            if bulk == 1:
                await chancy.push(job)
            else:
                async for _ in chancy.push_many([job] * bulk, batch_size=bulk):
                    pass

    with loop.runner() as runner:
        runner.run(start())
        yield lambda number, bulk: runner.run(push(number, bulk))
        runner.run(chancy.__aexit__(None, None, None))
