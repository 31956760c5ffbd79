"""The rows of a job table: from a file, one object a line, or out of the database itself."""

from __future__ import annotations

from typing import Final

from redrive.desk.transfer.formats import record, times
from redrive.desk.transfer.formats.declaration import Declaration, declared, has_shape
from redrive.desk.transfer.formats.fields import Fields
from redrive.jobs.job import Job, State
from redrive.jobs.reports import IMPORTED

_MAPPING: Final = Declaration.of(
    "summaries",
    [
        "key=job_id",
        "payload.article_id=article_id",
        "state=status:pending=pending,running=pending,failed=by_attempts,dead_letter=dead,"  # noqa: ISC004
        "completed=completed",
        "failures=retry_count",
        "max_attempts=max_retries",
        "error=error_message",
        "created=created_at",
        "updated=started_at",
        "finished=completed_at",
    ],
    set=["handler=article.summarize", "max_attempts=3"],
    words={State.RUNNING: "running"},
    one_way=frozenset({"updated"}),
)


def _with_start(job: Job, row: Fields) -> Fields:
    """Write when the latest attempt here began; else the row keeps what it had."""
    ran = [attempt for attempt in job.history if attempt.worker != IMPORTED]
    if ran or not record.origin_of(job, "summaries"):
        row["started_at"] = times.iso(ran[-1].started) if ran else None
    return {"due": job.due}


FORMAT: Final = declared(_MAPPING, has_shape("job_id article_id status"), wrote=_with_start)
