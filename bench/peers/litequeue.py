"""litequeue on SQLite: WAL and NORMAL, so a power cut may take the last ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from jobs import PAYLOAD
from measure import Stage, Submit


@contextmanager
def opened(stage: Stage) -> Iterator[Submit]:
    """Put messages, which are text."""
    from litequeue import LiteQueue  # noqa: PLC0415 - a peer may be missing

    queue = LiteQueue(stage.fresh() / "queue.db")

    def submit(number: int, _bulk: int) -> None:
        for _ in range(number):
            queue.put(json.dumps(PAYLOAD))

    yield submit
    queue.conn.close()
