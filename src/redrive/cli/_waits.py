"""Why jobs that are driven again would wait: their lane is paused, or nobody is there to run them."""

from __future__ import annotations

from collections.abc import Collection

from redrive.cli.status import lane_of, pause_words
from redrive.desk.reading import Looking, Note
from redrive.runs.run_records import Run

_OPEN = ("pending", "dead")


def of_lanes(app: Looking, lanes: Collection[str]) -> list[str]:
    """Say what jobs in these lanes wait for, each with the command that mends it."""
    return _lines(app, [note for note in app.pauses() if lane_of(note) in lanes])


def of_run(app: Looking, run: Run) -> list[str]:
    """Say what a run waits for; nothing once it is over or a person holds it."""
    if run.phase != "live":
        return []
    return _lines(app, [note for note in app.pauses() if _has(app, run, lane_of(note))])


def _has(app: Looking, run: Run, lane: str) -> bool:
    return bool(app.find(run=run.number, lane=lane, state=_OPEN, limit=1, reveal=False).jobs)


def _lines(app: Looking, pauses: list[Note]) -> list[str]:
    said = [
        f"lane {lane_of(note)} is paused by {pause_words(note)[0]}: redrive resume {lane_of(note)}"
        for note in pauses
    ]
    if not app.workers():
        until = "" if app.last_pass() is None else ", so it waits for the next pass"
        said.append(f"no worker is alive{until}: redrive work module:app")
    return said
