"""Which other groups fail in the same statement of the program, reached through other handlers.

The handler is part of a group's fingerprint, so a helper that many handlers call fails in several groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.desk import shapes

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.jobs.job import Group, Job

MOST = 20
"""How many groups of the same function are compared, those that died last first."""


def same_statement(desk: Desk, group: Group) -> list[shapes.SameStatement]:
    """Return the other groups whose newest dead job failed in the same statement."""
    function = group.title.rpartition(" @ ")[2]
    own = _newest(desk, group.number)
    statement = _statement(own, function)
    if own is None or not statement:
        return []
    records = [
        record
        for record in desk.groups.records().values()
        if record.number != group.number and record.title.endswith(f" @ {function}")
    ]
    records.sort(key=lambda record: -(record.last_seen or 0.0))
    found: list[shapes.SameStatement] = []
    for record in records[:MOST]:
        job = _newest(desk, record.number)
        if job is not None and _statement(job, function) == statement:
            found.append(
                {"group": f"G{record.number}", "handler": job.handler, "title": record.title}
            )
    return found


def _newest(desk: Desk, number: int) -> Job | None:
    jobs = desk.jobs.find(group=number, state="dead", by_change=True, limit=1).jobs
    return desk.jobs.get(jobs[0].id) if jobs else None  # with its history, which has the tracebacks


def _statement(job: Job | None, function: str) -> str:
    """Return the source line of the last frame of a function in a job's traceback; empty without."""
    failures = [attempt.failure for attempt in job.history if attempt.failure] if job else []
    lines = failures[-1].traceback.splitlines() if failures else []
    ends = f", in {function}"
    places = [place for place, line in enumerate(lines[:-1]) if line.endswith(ends)]
    return lines[places[-1] + 1].strip() if places else ""
