"""Huey's consumer with one thread, as it comes; more threads made it slower.

Jobs are laid in without syncs, which only saves time before the clock runs. Huey's log is silent:
it writes several lines a job.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Any

from payload import PAYLOAD
from worker_runs import fails, ran

if TYPE_CHECKING:
    from huey import Huey

KINDS: dict[str, dict[str, Any]] = {"sqlite": {}, "unsynced": {"fsync": False}, "file": {}}
LIVELY = {"initial_delay": 0.001, "max_delay": 0.01, "backoff": 1.1}
"""A consumer that looks for work every 10 ms at the least; the default is 100 ms to 10 s."""


def opened(kind: str, place: str) -> Huey:
    """Open a queue in a directory."""
    from huey import FileHuey, SqliteHuey  # noqa: PLC0415 - a peer may be missing

    if kind == "file":
        return FileHuey("bench", path=place, results=False)
    return SqliteHuey("bench", filename=f"{place}/huey.db", results=False, **KINDS[kind])


def tasks(huey: Huey) -> dict[str, Any]:
    """Declare the handlers."""

    def noop(_payload: object) -> None:
        ran()

    def flaky(payload: dict[str, Any]) -> None:
        if fails(payload["id"]):
            raise ConnectionError("the mail server is down")

    return {"noop": huey.task()(noop), "flaky": huey.task(retries=4, retry_delay=0)(flaky)}


def main() -> None:
    kind, place, handler, number, lively = sys.argv[1:]
    logging.getLogger("huey").setLevel(logging.CRITICAL)
    quick = opened("file" if kind == "file" else "unsynced", place)
    task = tasks(quick)[handler]
    for one in range(int(number)):
        task({**PAYLOAD, "id": one})
    quick.storage.close()
    huey = opened(kind, place)
    tasks(huey)
    huey.create_consumer(workers=1, **(LIVELY if lively else {})).run()
