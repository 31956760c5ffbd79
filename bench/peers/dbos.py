"""dbos through its client, which runs nothing in the background."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import server
from jobs import PAYLOAD
from measure import Stage, Submit


@contextmanager
def opened(_stage: Stage) -> Iterator[Submit]:
    """Enqueue a workflow; it has no bulk verb, but can be part of a transaction."""
    import sqlalchemy  # noqa: PLC0415 - a peer may be missing
    from dbos import DBOS, DBOSClient, EnqueueOptions  # noqa: PLC0415

    logging.getLogger("dbos").setLevel(logging.CRITICAL)
    url = server.new_database()
    DBOS.migrate(system_database_url=url)
    client = DBOSClient(system_database_url=url)
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:", 1))
    options: EnqueueOptions = {"queue_name": "bench", "workflow_name": "noop"}

    def enqueue(number: int, bulk: int) -> None:
        for _ in range(number // bulk):
            if bulk == 1:
                client.enqueue(options, PAYLOAD)
                continue
            with engine.begin() as connection:
                for _ in range(bulk):
                    client.enqueue_in_transaction(connection, options, PAYLOAD)

    yield enqueue
    engine.dispose()
    client.destroy()
