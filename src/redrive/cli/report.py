"""The error report: what failed and what is dead, as one JSON document for people and programs.

Its form is that of the fifth reference user. Unlike an export it is masked, and cannot be imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redrive.cli._errors import CONFLICT, Stop
from redrive.cli._filters import explained
from redrive.cli.output import Facts, View, fields
from redrive.desk.transfer.formats.quarantine import private
from redrive.jobs.clock import iso
from redrive.jobs.job import HOPELESS, Job, State

if TYPE_CHECKING:
    from redrive.cli._cli import Cli
    from redrive.desk.desk import Desk
    from redrive.desk.selection import Selection

REPORT = "report"


def is_report(format_: str | None, output: str | None) -> bool:
    """Return True if a report is asked for: by name, or by a file that is one JSON document."""
    return format_ == REPORT or (format_ is None and (output or "").endswith(".json"))


def write_report(cli: Cli, selection: Selection, output: str | None, *, force: bool) -> None:
    """Write the report to a file readable by its owner only, or to standard output."""
    to_stdout = output in {None, "-"}
    place = Path(output or "")
    if not to_stdout and place.exists() and not force:
        raise Stop("exists", f"{place} exists already", hint="add --force", exits=CONFLICT)
    with cli.reading() as desk, explained(selection):
        report = _report(desk, selection)
    text = json.dumps(report, indent=2, ensure_ascii=to_stdout) + "\n"
    if to_stdout:
        sys.stdout.write(text)
        return
    with private(place) as file:
        file.write(text.encode())
    data = {**report["summary"], "file": str(place)}
    shown = fields("failed_events dead_letter_queue retry_candidates file")
    cli.show(View(data, [Facts(shown, data)]), then="redrive dlq")


def _report(desk: Desk, selection: Selection) -> dict[str, Any]:
    """Return the report of the dead and failed jobs of a selection; of all where it is empty."""
    from redrive.contrib.event_log import event_line  # noqa: PLC0415 - only a report needs it

    def line(job: Job) -> dict[str, object]:
        most = job.own_max_attempts or job.max_attempts
        return event_line(desk.jobs.get(job.id), max(0, most - 1))

    if selection.is_empty:
        jobs = list(desk.jobs.each(state=[State.DEAD, State.PENDING]))
    else:
        jobs = list(desk.jobs.each(selection))
    dead = [job for job in jobs if job.state is State.DEAD]
    failed = [job for job in jobs if job.state is State.PENDING and job.spent]
    hopeful = [job for job in dead if not job.failure or job.failure.category not in HOPELESS]
    return {
        "generated_at": iso(desk.store.now()),
        "summary": {
            "failed_events": len(failed),
            "dead_letter_queue": len(dead),
            "retry_candidates": len(hopeful),
        },
        "dead_letter_queue": list(map(line, dead)),
        "failed_events": list(map(line, failed)),
        "retry_candidates": list(map(line, hopeful)),
    }
