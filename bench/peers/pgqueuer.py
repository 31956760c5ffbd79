"""pgqueuer with asyncpg, its quickest driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import server
from jobs import BYTES
from measure import Stage, Submit

from peers import loop


@contextmanager
def opened(_stage: Stage) -> Iterator[Submit]:
    """Enqueue bytes."""
    import asyncpg  # noqa: PLC0415 - a peer may be missing
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415
    from pgqueuer.queries import Queries  # noqa: PLC0415

    with loop.runner() as runner:
        connection = runner.run(asyncpg.connect(server.new_database()))
        queries = Queries(AsyncpgDriver(connection))
        runner.run(queries.install())

        async def enqueue(number: int, bulk: int) -> None:
            for _ in range(number // bulk):
                if bulk == 1:
                    await queries.enqueue("noop", BYTES)
                else:
                    await queries.enqueue(["noop"] * bulk, [BYTES] * bulk, [0] * bulk)

        yield lambda number, bulk: runner.run(enqueue(number, bulk))
        runner.run(connection.close())
