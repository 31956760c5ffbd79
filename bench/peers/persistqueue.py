"""persist-queue on SQLite with acknowledgements: WAL and FULL, so each put is synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs import PAYLOAD
from measure import Stage, Submit


@contextmanager
def opened(stage: Stage) -> Iterator[Submit]:
    """Put items, each in a transaction of its own."""
    from persistqueue import SQLiteAckQueue  # noqa: PLC0415 - a peer may be missing

    queue = SQLiteAckQueue(str(stage.fresh()), auto_commit=True)

    def submit(number: int, _bulk: int) -> None:
        for _ in range(number):
            queue.put(PAYLOAD)

    yield submit
    queue.close()
