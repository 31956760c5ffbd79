"""Huey in a directory, a file a job; nothing is synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs import PAYLOAD
from measure import Stage, Submit

from peers.sqlitehuey import nothing


@contextmanager
def opened(stage: Stage) -> Iterator[Submit]:
    """Call a task: it is put into the queue."""
    from huey import FileHuey  # noqa: PLC0415 - a peer may be missing

    huey = FileHuey("bench", path=str(stage.fresh()), results=False)
    task = huey.task()(nothing)

    def submit(number: int, _bulk: int) -> None:
        for _ in range(number):
            task(PAYLOAD)

    yield submit
