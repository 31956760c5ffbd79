"""pgqueuer with a pool of asyncpg, its quickest driver, on uvloop."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from payload import BYTES, PAYLOAD
from peers import loop
from worker_runs import fails, ran


async def load(url: str, handler: str, number: int) -> None:
    """Make the tables and lay jobs in."""
    import asyncpg  # noqa: PLC0415 - a peer may be missing
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415
    from pgqueuer.queries import Queries  # noqa: PLC0415

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    texts = [json.dumps({**PAYLOAD, "id": one}).encode() for one in range(number)]
    for start in range(0, number, 1000):
        some = texts[start : start + 1000]
        await queries.enqueue([handler] * len(some), some, [0] * len(some))
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def sender(url: str) -> Any:
    """Give what enqueues a job that does nothing."""
    import asyncpg  # noqa: PLC0415 - a peer may be missing
    from pgqueuer.db import AsyncpgDriver  # noqa: PLC0415
    from pgqueuer.queries import Queries  # noqa: PLC0415

    queries = Queries(AsyncpgDriver(await asyncpg.connect(url)))
    return lambda: queries.enqueue("noop", BYTES)


async def work(url: str, batch: int) -> None:
    """Run jobs until the process is ended."""
    import asyncpg  # noqa: PLC0415 - a peer may be missing
    from pgqueuer import PgQueuer  # noqa: PLC0415
    from pgqueuer.db import AsyncpgPoolDriver  # noqa: PLC0415
    from pgqueuer.errors import RetryRequested  # noqa: PLC0415

    pool = await asyncpg.create_pool(url, min_size=4, max_size=10)
    queuer = PgQueuer(AsyncpgPoolDriver(pool))

    @queuer.entrypoint("noop")
    async def noop(job: Any) -> None:
        json.loads(job.payload)
        ran()

    @queuer.entrypoint("flaky")
    async def flaky(job: Any) -> None:
        if fails(json.loads(job.payload)["id"]):
            raise RetryRequested(delay=timedelta(0))

    await queuer.qm.run(batch_size=batch)


def main() -> None:
    url, handler, number, batch = sys.argv[1:]
    with loop.runner() as runner:
        if int(number):
            runner.run(load(url, handler, int(number)))
        runner.run(work(url, int(batch)))


if __name__ == "__main__":
    main()
