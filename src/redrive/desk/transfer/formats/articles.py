"""The queue of an article summariser: one document around its items, with times of the wall clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from redrive.desk.transfer.formats import fields, record
from redrive.desk.transfer.formats.declaration import Declaration, complete, declared, has_shape
from redrive.desk.transfer.formats.fields import Fields, written
from redrive.desk.transfer.formats.record import EXTRA, Draft, Line, TransferOptions
from redrive.jobs.job import Job, State

_MAPPING: Final = Declaration.of(
    "articles",
    [
        "key=id",
        "payload.article=article_data",
        "error=failure_reason",
        "failed_at=failure_timestamp,created_at:naive",
        "attempts=retry_count:+1",  # the first failure queued it
        "due=next_retry_time:naive",
        "max_attempts=max_retries:+1",
        "created=created_at,failure_timestamp:naive",
    ],
    set=["handler=article.summarize", "state=by_attempts", "max_attempts=6"],
)


def _never_tried(draft: Draft, line: Line) -> None:
    """Take back the first attempt of one of ours that was never tried, or not since a retry."""
    if draft.attempts == 1 and fields.inner(line.value, EXTRA).get("attempts") == 0:
        draft.attempts = draft.failed = 0
        draft.failed_at = None


def _item(job: Job, asked: TransferOptions) -> Fields:
    item = _MAPPING.row(job, asked)
    retries, most = job.attempts - 1, max(0, job.max_attempts - 1)
    is_dead = job.state is State.DEAD
    item["retry_count"] = max(most, retries) if is_dead else max(0, min(retries, most - 1))
    item["failure_reason"] = item["failure_reason"] or ""
    item["failure_timestamp"] = item["failure_timestamp"] or item["created_at"]
    item = complete(_MAPPING, job, item, attempts=None if job.attempts else 0)
    if not record.origin_of(job, "articles"):
        item["provider_failures"] = {}
    return item


def _write(jobs: Iterable[Job], asked: TransferOptions) -> Iterator[str]:
    """Write the document: what waits, runs or died; what succeeded is only counted."""
    saved = asked.naive(asked.now)
    yield f'{written({"version": "1.0", "saved_at": saved})[:-1]},"queue":{{"items":['
    ended: Counter[State] = Counter()
    mark = ""
    for job in jobs:
        ended[job.state] += 1
        if job.state in {State.COMPLETED, State.RESOLVED}:
            continue
        try:
            item = written(_item(job, asked))
        except ValueError as error:
            asked.skip(job, str(error))
            continue
        yield mark + item
        mark = ","
    done, dead = ended[State.COMPLETED], ended[State.DEAD]
    totals = {"total_processed": done + dead, "total_succeeded": done, "total_failed": dead}
    yield f"],{written({'last_updated': saved, **totals})[1:]}}}"


FORMAT: Final = declared(
    _MAPPING, has_shape("article_data{} retry_count"), read=_never_tried, write=_write
)
