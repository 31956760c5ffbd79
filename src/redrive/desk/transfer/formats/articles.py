"""The queue of an article summariser: one document around its items, with times of the wall clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from redrive.desk.transfer.formats import fields, record
from redrive.desk.transfer.formats.fields import Fields, written
from redrive.desk.transfer.formats.record import EXTRA, Asked, Format, Line
from redrive.jobs.job import Job, Reason, State

_KNOWN: Final = {
    "id": None,
    "article_data": None,
    "failure_reason": None,
    "failure_timestamp": None,
    "retry_count": None,
    "next_retry_time": None,
    "max_retries": None,
    "created_at": None,
    EXTRA: None,
}
_HANDLER: Final = "article.summarize"
_MAX: Final = 5
_VERSION: Final = "1.0"


def fits(value: Fields) -> bool:
    """Return True if a record has the shape of an item."""
    return isinstance(value.get("article_data"), dict) and "retry_count" in value


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make a job of an item: the first failure queued it, so it was tried once more than retried.

    Unless it is one of ours that was never tried, or not since a person retried it.
    """
    line = lines[-1]
    value = line.value
    ident = fields.text(value, "id")
    failed_at = asked.needed(value, "failure_timestamp", "created_at")
    created = asked.moment(value, "created_at")
    created = failed_at if created is None else created
    retries, most = fields.count(value, "retry_count"), fields.count(value, "max_retries", _MAX)
    is_dead = retries >= most
    payload = f'{{"article":{fields.cut(line.text, "article_data")}}}'
    why = fields.text(value, "failure_reason", "")
    is_new = not retries and fields.inner(value, EXTRA).get("attempts") == 0
    has_failed = bool(why) or not is_new
    return record.made(
        asked,
        lines,
        format="articles",
        ident=ident,
        handler=_HANDLER,
        payload=payload,
        state=State.DEAD if is_dead else State.PENDING,
        reason=Reason.EXHAUSTED if is_dead else None,
        created=created,
        updated=max(created, failed_at),
        due=asked.moment(value, "next_retry_time"),
        attempts=0 if is_new else retries + 1,
        max_attempts=most + 1,
        failings=[record.failing(failed_at, why, payload)] if has_failed else [],
        first_failed=failed_at if has_failed else None,
        finished=max(created, failed_at),
        origin={"fields": fields.rest(value, _KNOWN)},
        is_same=lambda state: (state is State.DEAD) == is_dead,
    )


def _item(job: Job, asked: Asked) -> Fields:
    failure, most = job.failure, max(0, job.max_attempts - 1)
    at = job.created if job.first_failed is None else job.first_failed
    is_dead, retries = job.state is State.DEAD, job.attempts - 1
    item: Fields = {
        "id": record.origin_of(job, "articles").get("id") or job.id,
        "article_data": record.members_of(job)["article"],
        "failure_reason": failure.message if failure else "",
        "failure_timestamp": asked.naive(at),
        "retry_count": max(most, retries) if is_dead else max(0, min(retries, most - 1)),
        "next_retry_time": asked.naive(job.due),
        "max_retries": most,
        "created_at": asked.naive(job.created),
        EXTRA: record.beside(job, _HANDLER, attempts=None if job.attempts else 0),
    }
    origin = record.origin_of(job, "articles")
    return fields.joined(item, origin.get("fields", {"provider_failures": {}}))


def write(jobs: Iterable[Job], asked: Asked) -> Iterator[str]:
    """Write the document: what waits, runs or died; what succeeded is only counted."""
    saved = asked.naive(asked.now)
    head = written({"version": _VERSION, "saved_at": saved})
    yield f'{head[:-1]},"queue":{{"items":['
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


FORMAT: Final = Format(name="articles", fits=fits, job=job, write=write)
