"""The rows of a job table: from a file, one object a line, or out of the database itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, LiteralString

from redrive.desk.transfer.formats import fields, record, times
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.pieces import Piece
from redrive.desk.transfer.formats.record import EXTRA, Asked, Format, Line
from redrive.errors import StoreError, UsageError
from redrive.jobs import checks
from redrive.jobs.job import TERMINAL, Job, Reason, State

if TYPE_CHECKING:
    from psycopg.rows import DictRow

_KNOWN: Final = {
    "job_id": None,
    "article_id": None,
    "status": None,
    "retry_count": None,
    "max_retries": None,
    "error_message": None,
    "created_at": None,
    "completed_at": None,
    EXTRA: None,
}
_HANDLER: Final = "article.summarize"
_MAX: Final = 3
_TABLE = re.compile(r"(?:([A-Za-z_]\w*)\.)?([A-Za-z_]\w*)", re.ASCII)
_OUT: Final = {
    State.PENDING: "pending",
    State.RUNNING: "running",
    State.COMPLETED: "completed",
    State.RESOLVED: "completed",
    State.DEAD: "dead_letter",
}


def fits(value: Fields) -> bool:
    """Return True if a record has the shape of a row."""
    return value.keys() >= {"job_id", "article_id", "status"}


def job(lines: Sequence[Line], asked: Asked) -> Job:
    """Make a job of a row: its count of retries counts failures, and its most is of attempts."""
    line = lines[-1]
    value = line.value
    if type(value["job_id"]) not in (str, int):
        raise ValueError(f"job_id must be a text or a number; found {value['job_id']!r}")
    failed, most = fields.count(value, "retry_count", 0), fields.count(value, "max_retries", _MAX)
    status = value["status"]
    state, reason = _state(status, failed, most)
    created = asked.needed(value, "created_at")
    started, ended = asked.moment(value, "started_at"), asked.moment(value, "completed_at")
    ended = ended if state in TERMINAL else None
    last = max(at for at in (created, started, ended) if at is not None)
    payload = f'{{"article_id":{fields.cut(line.text, "article_id")}}}'
    message = fields.text(value, "error_message", "")
    failings = [record.failing(last, message, payload)] if message else []
    return record.made(
        asked,
        lines,
        format="summaries",
        ident=str(value["job_id"]),
        handler=_HANDLER,
        payload=payload,
        state=state,
        reason=reason,
        created=created,
        updated=last,
        attempts=failed + (state is State.COMPLETED),
        failed=failed,
        max_attempts=most,
        failings=failings,
        first_failed=last if failed or message else None,
        finished=last if ended is None else ended,
        origin={"job_id": value["job_id"], "fields": fields.rest(value, _KNOWN)},
        is_same=lambda one: one is state or _OUT[one] == status,
    )


def _state(status: object, failed: int, most: int) -> tuple[State, Reason | None]:
    match status:
        case "pending" | "running":
            return State.PENDING, None
        case "failed" if failed < most:
            return State.PENDING, None
        case "failed" | "dead_letter":
            return State.DEAD, Reason.EXHAUSTED
        case "completed":
            return State.COMPLETED, Reason.DONE
        case _:
            raise ValueError(f"status cannot be {status!r}")


def _write(job: Job, asked: Asked) -> Iterable[Fields]:
    del asked
    origin = record.origin_of(job, "summaries")
    row: Fields = {
        "job_id": origin.get("job_id", job.id),
        "article_id": record.members_of(job)["article_id"],
        "status": _OUT[job.state],
        "retry_count": sum(job.spent.values()),
        "max_retries": job.max_attempts,
        "error_message": job.failure.message if job.failure else None,
        "created_at": times.iso(job.created),
        "completed_at": None if job.finished is None else times.iso(job.finished),
        EXTRA: record.beside(job, _HANDLER, due=job.due),
    }
    ran = [attempt for attempt in job.history if attempt.worker != record.WORKER]
    if ran:
        row["started_at"] = times.iso(ran[-1].started)
    yield fields.joined(row, origin.get("fields", {"started_at": None}))


FORMAT: Final = Format(name="summaries", fits=fits, job=job, write=record.each(_write))


def rows(url: str, table: str) -> Iterator[Piece]:
    """Read a table as it stands at one moment, some rows at a time; nothing in it is changed."""
    named = _TABLE.fullmatch(checks.text(table, "table"))
    checks.text(url, "url")
    if named is None:
        raise UsageError(f"{table!r} is not the name of a table; write it like jobs or public.jobs")
    from redrive.stores.postgres.address import read_url  # noqa: PLC0415, I001 - says what is missing

    import psycopg  # noqa: PLC0415 - an extra
    from psycopg.rows import dict_row  # noqa: PLC0415
    from psycopg.sql import SQL, Identifier  # noqa: PLC0415

    query: LiteralString = "SELECT * FROM {table}"
    try:
        with psycopg.connect(read_url(url).conninfo) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            with connection.cursor("redrive_import", row_factory=dict_row) as cursor:
                cursor.itersize = 1000
                cursor.execute(SQL(query).format(table=Identifier(*filter(None, named.groups()))))
                for number, row in enumerate(cursor, 1):
                    yield Piece(number, 0, _row(row))
    except psycopg.Error as error:
        raise StoreError(f"the table {table} cannot be read: {error}") from error


def _row(row: DictRow) -> bytes:
    return json.dumps(row, default=_plain, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _plain(value: Any) -> str:
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
