"""procrastinate with its async connector, on uvloop."""

from __future__ import annotations

import logging
import sys
from typing import Any

import psycopg
from payload import PAYLOAD
from peers import loop
from worker_runs import fails, ran


def declared(url: str) -> Any:
    """Give an app that knows the handlers."""
    import procrastinate  # noqa: PLC0415 - a peer may be missing

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="noop")
    async def noop(payload: object) -> None:  # noqa: ARG001 - like everybody's
        ran()

    @app.task(name="flaky", retry=procrastinate.RetryStrategy(max_attempts=5, wait=0))
    async def flaky(payload: dict[str, Any]) -> None:
        if fails(payload["id"]):
            raise ConnectionError("the mail server is down")

    return app


async def work(url: str, handler: str, number: int, concurrency: int) -> None:
    """Lay jobs in and run them until the process is ended."""
    app = declared(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        for start in range(0, number, 1000):
            some = range(start, min(start + 1000, number))
            await app.tasks[handler].batch_defer_async(
                *({"payload": {**PAYLOAD, "id": one}} for one in some)
            )
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
        await app.run_worker_async(concurrency=concurrency)


def main() -> None:
    url, handler, number, concurrency = sys.argv[1:]
    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    with loop.runner() as runner:
        runner.run(work(url, handler, int(number), int(concurrency)))


if __name__ == "__main__":
    main()
