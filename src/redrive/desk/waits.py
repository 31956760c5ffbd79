"""What retried jobs wait for: their lane is paused, or no worker is running for them."""

from __future__ import annotations

from collections.abc import Collection

from redrive.desk.desk import Desk
from redrive.desk.lanes import LanePause
from redrive.runs.run_records import Run

_OPEN = ("pending", "dead")


def of_lanes(desk: Desk, lanes: Collection[str]) -> list[str]:
    """Return what jobs in these lanes wait for, each with the command that helps."""
    return _lines(desk, [pause for pause in desk.lanes.pauses() if pause.lane in lanes])


def of_run(desk: Desk, run: Run) -> list[str]:
    """Return what a run waits for; nothing once it is over or a person paused it."""
    if run.phase != "live":
        return []
    return _lines(desk, [pause for pause in desk.lanes.pauses() if _has(desk, run, pause.lane)])


def _has(desk: Desk, run: Run, lane: str) -> bool:
    return bool(desk.jobs.find(run=run.number, lane=lane, state=_OPEN, limit=1).jobs)


def _lines(desk: Desk, pauses: list[LanePause]) -> list[str]:
    lines = [
        f"lane {pause.lane} is paused by {pause.by}: redrive resume {pause.lane}"
        for pause in pauses
    ]
    if not desk.lanes.workers():
        until = "" if desk.lanes.last_pass() is None else ", so it waits for the next pass"
        lines.append(f"no worker is alive{until}: redrive work module:app")
    return lines
