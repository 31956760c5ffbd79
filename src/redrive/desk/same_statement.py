"""Which other groups fail in the same statement of the program, reached through other handlers.

The handler is part of a group's fingerprint, so a helper that many handlers call fails in several groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from redrive.desk import shapes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from redrive.desk.desk import Desk
    from redrive.jobs.job import Group, Job

MOST = 20  # how many groups of the same function are compared, those that died last first


def same_statement(desk: Desk, group: Group) -> list[shapes.SameStatement]:
    """Return the other groups whose newest dead job failed in the same statement."""
    function = group.title.rpartition(" @ ")[2]
    statement = "".join(_statement(job, function) for job in _newest(desk, [group.number]))
    if not statement:
        return []
    records = [
        record
        for record in desk.groups.records().values()
        if record.number != group.number and record.title.endswith(f" @ {function}")
    ]
    records.sort(key=lambda record: -(record.last_seen or 0.0))
    titles = {record.number: record.title for record in records[:MOST]}
    jobs = {job.group: job for job in _newest(desk, titles)}
    return [
        {"group": f"G{number}", "handler": jobs[number].handler, "title": title}
        for number, title in titles.items()
        if number in jobs and _statement(jobs[number], function) == statement
    ]


def _newest(desk: Desk, groups: Iterable[int]) -> list[Job]:
    """Return the newest dead job of each group, with its history, which has the tracebacks."""
    pages = (desk.jobs.find(group=group, state="dead", by_change=True, limit=1) for group in groups)
    return desk.jobs.with_history([job.id for page in pages for job in page.jobs])


def _statement(job: Job, function: str) -> str:
    """Return the source line of the last frame of a function in a job's traceback; empty without."""
    failures = [attempt.failure for attempt in job.history if attempt.failure]
    lines = failures[-1].traceback.splitlines() if failures else []
    ends = f", in {function}"
    places = [place for place, line in enumerate(lines[:-1]) if line.endswith(ends)]
    return lines[places[-1] + 1].strip() if places else ""
