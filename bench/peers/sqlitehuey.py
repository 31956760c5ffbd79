"""Huey on SQLite: WAL, and SQLite's own default FULL, so each submit is synced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jobs import PAYLOAD
from measure import Stage, Submit


@contextmanager
def opened(stage: Stage) -> Iterator[Submit]:
    """Call a task: it is put into the queue."""
    from huey import SqliteHuey  # noqa: PLC0415 - a peer may be missing

    huey = SqliteHuey("bench", filename=str(stage.fresh() / "huey.db"), results=False)
    task = huey.task()(nothing)

    def submit(number: int, _bulk: int) -> None:
        for _ in range(number):
            task(PAYLOAD)

    yield submit
    huey.storage.close()


def nothing(_payload: object) -> None:
    """Do nothing: it is never run here."""
