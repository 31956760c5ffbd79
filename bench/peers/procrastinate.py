"""procrastinate with its async connector."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import server
from jobs import PAYLOAD
from measure import Stage, Submit

from peers import loop


@contextmanager
def opened(_stage: Stage) -> Iterator[Submit]:
    """Defer a task."""
    import procrastinate  # noqa: PLC0415 - a peer may be missing

    logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
    connector = procrastinate.PsycopgConnector(conninfo=server.new_database())
    app = procrastinate.App(connector=connector)
    task = app.task(name="noop")(nothing)

    arguments: dict[str, Any] = {"payload": PAYLOAD}

    async def defer(number: int, bulk: int) -> None:
        for _ in range(number // bulk):
            if bulk == 1:
                await task.defer_async(payload=PAYLOAD)
            else:
                await task.batch_defer_async(*[arguments] * bulk)

    async def start() -> None:
        await app.open_async()
        await app.schema_manager.apply_schema_async()

    with loop.runner() as runner:
        runner.run(start())
        yield lambda number, bulk: runner.run(defer(number, bulk))
        runner.run(app.close_async())


async def nothing(payload: object) -> None:
    """Do nothing: it is never run here."""
