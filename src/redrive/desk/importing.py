"""Import by a function: each row of a file or a query becomes a job by a function of the user's.

    def to_job(row):                        # myapp.py
        return {"key": row["id"], "handler": "mail.send", "payload": {"to": row["rcpt"]},
                "state": "dead", "attempts": int(row["tries"]), "error": row["last_error"]}

    redrive import emails.csv --with myapp:to_job

A function that returns None leaves the row out; one that raises makes the row bad. A generator
function is called once with all rows, so it can fold several of them into one job. The key makes the
id of the job, so a repeat adds nothing.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
import sqlite3
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, cast
from urllib.parse import quote

from redrive.classify import tables
from redrive.classify.fingerprint import OUTSIDE, of_text
from redrive.errors import KeyConflict, RedriveError, StoreError, UsageError
from redrive.jobs import checks, ids
from redrive.jobs.clock import LATEST
from redrive.jobs.job import (
    HOPELESS,
    TERMINAL,
    Attempt,
    Category,
    Failure,
    Job,
    Reason,
    Resolution,
    State,
)
from redrive.jobs.reports import IMPORTED
from redrive.payloads import masking, strict_json
from redrive.registry import check_key, check_lane, check_name
from redrive.stores.contract import Query, Store

_BATCH, _BATCH_BYTES = 500, 4 * 1024 * 1024
_MOST: Final = 2**31 - 1
_LONGEST_CELL: Final = 64 * 1024 * 1024
_TIMES: Final = ("created", "due", "finished", "failed_at")
_FIELDS: Final = {
    *("key", "handler", "payload", "state", "attempts", "max_attempts", "error", "error_type"),
    *("traceback", "category", "tags", *_TIMES),
}
_REASONS: Final = {
    State.DEAD: Reason.EXHAUSTED,
    State.COMPLETED: Reason.DONE,
    State.RESOLVED: Reason.RESOLVED,
}
BAD = (RedriveError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError)
"""What is raised for a row that cannot be used."""
_ID = re.compile(r"(?![GgRrAa]\d{1,9}$)[0-9A-Za-z_][0-9A-Za-z_-]{3,63}")
"""No id may be read as another word of a selector: G7000 is a group, -abc is anything but abc."""
_STATUS = re.compile(r"\b(?:HTTP|status|code)\D{0,12}([45]\d\d)\b|^([45]\d\d)\b", re.IGNORECASE)
_QUARANTINED: Final = {"row", "reason", "record"}
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F))).replace("%", "")

Function = Callable[[Any], Any]
"""Returns the fields of a job for a row; or yields those of all jobs, called with all rows."""
Fate = Literal["added", "known", "skipped", "bad"]
"""Stored now; stored already; left out by the function; not usable."""


class BadRow(NamedTuple):
    """A row that cannot be used; a generator function may yield one and go on."""

    row: object
    reason: str


class Made(NamedTuple):
    """A row by its number from 1, and its job; None if it is left out, the reason if it is bad."""

    number: int
    row: object
    job: Job | str | None


class Result(NamedTuple):
    """What became of one row."""

    number: int
    row: object
    fate: Fate
    job: Job | None = None
    reason: str = ""

    def __repr__(self) -> str:
        return f"Result(number={self.number}, fate={self.fate})"


def made(
    rows: Iterable[object], function: Function, *, prefix: str, limit: int, now: float
) -> Iterator[Made]:
    """Call the function for the rows, and make jobs of what it returns."""
    seen: set[int] = set()
    for number, row, fields in _called(rows, function):
        if fields is None or isinstance(fields, BadRow):
            yield Made(number, row, fields and fields.reason)
            continue
        try:
            job = job_of(fields, prefix=prefix, limit=limit, now=now)
            if hash(job.id) in seen:
                raise ValueError(f"an earlier row has the key {job.key!r}")
        except BAD as error:
            yield Made(number, row, str(error) or type(error).__name__)
        else:
            seen.add(hash(job.id))
            yield Made(number, row, job)


def _called(
    rows: Iterable[object], function: Function
) -> Iterator[tuple[int, object, object | BadRow | None]]:
    """Yield what the function makes of the rows, with the number of the row that it read last."""
    number, last, unread = 0, object(), list[tuple[int, object, BadRow]]()

    def readable() -> Iterator[object]:
        nonlocal number, last
        for number, last in enumerate(rows, 1):
            if isinstance(last, BadRow):
                unread.append((number, last.row, last))
            else:
                yield last

    is_whole = inspect.isgeneratorfunction(function)
    try:
        for fields in function(readable()) if is_whole else each(readable(), function):
            yield from unread
            unread.clear()
            row = fields.row if isinstance(fields, BadRow) else fields if is_whole else last
            yield number, row, fields
        yield from unread
    except (RedriveError, OSError):
        raise
    except Exception as error:
        raise UsageError(
            f"the function failed at row {number}: {_raised(error)}. A generator cannot go on after"
            " that: catch the error in it and yield BadRow(row, reason). A repeat of the import"
            " finds what is stored already"
        ) from error


def each(rows: Iterable[Any], function: Function) -> Iterator[Any]:
    """Call a function for each row; one for which it raises is a BadRow."""
    for row in rows:
        try:
            yield function(row)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            yield BadRow(row, _raised(error))


def _raised(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({Path(frame.filename).name}, line {frame.lineno})"


def stored(
    store: Store, found: Iterable[Made], *, dry_run: bool, own: bool = False
) -> Iterator[list[Result]]:
    """Store jobs some at a time, and yield what became of their rows.

    `own` jobs bring their ids along: for them a key that another job has is an error.
    """
    batch, size = list[Made](), 0
    for one in found:
        batch.append(one)
        size += len(one.job.payload) if isinstance(one.job, Job) else 0
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            yield _kept(store, batch, dry_run=dry_run, own=own)
            batch, size = [], 0
    yield _kept(store, batch, dry_run=dry_run, own=own)


def _kept(store: Store, batch: Sequence[Made], *, dry_run: bool, own: bool) -> list[Result]:
    jobs = {one.job.id: one.job for one in reversed(batch) if isinstance(one.job, Job)}
    query = Query(ids=tuple(jobs), limit=_BATCH)
    known = {job.id: job for job in store.find(query).jobs} if jobs else {}
    fresh = [job for job in jobs.values() if job.id not in known]
    taken = _by_key(store, fresh) if dry_run else _added(store, fresh)
    new = {job.id for job in fresh} - taken.keys()
    results: list[Result] = []
    for number, row, job in batch:
        if job is None:
            results.append(Result(number, row, "skipped"))
        elif isinstance(job, str):
            text = row if isinstance(row, str) else json.dumps(row, default=str, skipkeys=True)
            why = masking.error_text(job, masking.secrets_of(text), limit=300)
            results.append(Result(number, row, "bad", reason=why))
        elif (other := taken.get(job.id) or (not own and known.get(job.id))) and (
            own or other.handler != job.handler
        ):
            why = f"the key {job.key!r} belongs to job {other.id} of the handler {other.handler}"
            why += "" if own else "; add --name to put a prefix before the keys"
            results.append(Result(number, row, "bad", reason=why))
        else:
            results.append(Result(number, row, "added" if job.id in new else "known", job))
            new.discard(job.id)
    return results


def _added(store: Store, jobs: Sequence[Job]) -> dict[str, Job]:
    """Store jobs; return the jobs that have the keys of some already, by the ids of these."""
    try:
        answers = store.add(jobs) if jobs else []
    except KeyConflict:
        if len(jobs) > 1:
            return {id_: old for job in jobs for id_, old in _added(store, [job]).items()}
        if not (taken := _by_key(store, jobs)):
            raise
        return taken
    return {job.id: old for job, old in zip(jobs, answers, strict=True) if job.id != old.id}


def _by_key(store: Store, jobs: Iterable[Job]) -> dict[str, Job]:
    """Return the stored jobs that have the keys of others, by the ids of these."""
    found = ((job.id, store.find(Query(key=job.key, limit=1)).jobs) for job in jobs if job.key)
    return {id_: stored[0] for id_, stored in found if stored}


def job_of(fields: object, *, prefix: str, limit: int, now: float) -> Job:
    """Make a job of the fields that a function returned; the error says what is wrong."""
    if not isinstance(fields, Mapping):
        raise TypeError(f"the function returned {fields!r:.80}; return a dict of fields, or None")
    fields = cast("Mapping[str, Any]", fields)
    if unknown := fields.keys() - _FIELDS:
        allowed = ", ".join(sorted(_FIELDS))
        raise ValueError(f"unknown field {', '.join(map(str, unknown))}; use {allowed}")
    given = {name: value for name, value in fields.items() if value is not None and value != ""}
    if missing := {"key", "handler", "payload"} - given.keys():
        raise ValueError(f"the function returned no {', '.join(sorted(missing))}")
    state, handler = given.get("state", State.DEAD), checks.text(given["handler"], "handler")
    if state != State.PENDING and state not in _REASONS:
        raise ValueError(f"unknown state {state!r}; use {State.PENDING}, {', '.join(_REASONS)}")
    if handler.startswith("redrive."):
        raise ValueError(f"handler {handler!r} is reserved: no name may begin with 'redrive.'")
    name = str(given["key"])
    if not name.isprintable():
        raise ValueError(f"key {name!r} has characters that cannot be printed")
    times = {name: _seconds(given[name], name) for name in _TIMES if name in given}
    ends = [times[name] for name in ("failed_at", "finished") if name in times]
    created = times.get("created", min(ends, default=now))
    ended, due = (ends or [created])[0], max(created, times.get("due", created))
    finished = times.get("finished", ended) if state != State.PENDING else None
    payload = given["payload"]
    if isinstance(payload, str):
        payload = strict_json.compact(payload, max_bytes=limit)
    else:
        payload = strict_json.dumps(dict(payload), max_bytes=limit)
    failure = _failure(given, payload, handler)
    attempts = checks.whole(
        given.get("attempts", 1 if failure else 0), "attempts", least=0, most=_MOST
    )
    most = checks.whole(given.get("max_attempts", 0), "max_attempts", least=0, most=_MOST)
    failures = attempts - (state == State.COMPLETED and attempts > 0)  # the last one succeeded
    is_told = failures and (failure or state != State.PENDING)
    spent = {(failure.category if failure else Category.UNKNOWN).value: failures} if is_told else {}
    reason = _REASONS.get(State(state))
    if reason is Reason.EXHAUSTED and failure and failure.category in HOPELESS:
        reason = Reason.PERMANENT
    resolution = Resolution(actor=IMPORTED, reason="", at=finished or now, was=Reason.EXHAUSTED)
    attempt = Attempt(
        ordinal=max(1, attempts),
        number=max(1, attempts),
        life=0,
        started=ended,
        duration=0.0,
        worker=IMPORTED,
        outcome="failed",
        failure=failure,
    )
    key = f"{prefix}:{name}" if prefix else name
    return checked(
        Job(
            id=ids.named_id(key),
            handler=handler,
            lane=handler,
            payload=payload,
            key=quote(key, safe=_PLAIN),
            created=created,
            updated=max(created, ended, finished or created),
            due=due,
            since=due if finished else max(due, now),  # `max_age` of a pending job begins now
            state=State(state),
            reason=reason,
            attempts=attempts,
            spent=spent,
            own_max_attempts=most or None,
            max_attempts=most,
            finished=finished,
            died_at=ended if state == State.DEAD else None,
            first_failed=ended if failure else None,
            failure=failure and replace(failure, traceback=""),
            lease=attempt.ordinal if failure else 0,
            folded=max(0, attempts - 1) if failure else attempts,
            tags=checks.texts(given.get("tags", ()), "tags"),
            origin={"format": prefix or IMPORTED, "id": name},
            resolution=resolution if state == State.RESOLVED else None,
            history=(attempt,) if failure else (),
        )
    )


def checked(job: Job) -> Job:
    """Refuse a job that no store of ours would have written."""
    if not _ID.fullmatch(job.id):
        raise ValueError(f"{job.id!r} is not an id")
    check_name(job.handler)
    check_lane(job.lane)
    check_key(job.key)
    for tag in job.tags:
        check_name(tag)
    if (job.finished is not None) != (job.state in TERMINAL):
        raise ValueError(f"is {job.state} and {'lacks' if job.finished is None else 'has'} an end")
    return job


def _failure(given: Mapping[str, Any], payload: str, handler: str) -> Failure | None:
    """Return the failure that the texts of a row tell of, masked and grouped like any other."""
    if not given.keys() & {"error", "error_type", "traceback"}:
        return None
    secrets = masking.secrets_of(payload)
    kind, message, trace = (
        masking.error_text(given.get(name, ""), secrets, limit=limit)
        for name, limit in (("error_type", 100), ("error", 1900), ("traceback", 64_000))
    )
    found = _STATUS.search(message)
    status = (found[1] or found[2]) if found else ""
    category = Category(given.get("category") or _category(kind, message, status))
    is_outside = category in OUTSIDE
    cause = of_text(kind or "Error", message, keep=(status,), handler=handler, outside=is_outside)
    why = "as the imported row says"
    texts: dict[str, Any] = {"type": kind, "message": message, "traceback": trace}
    return Failure(category=category, why=why, **texts, **cause._asdict())


def _category(kind: str, message: str, status: str) -> Category:
    """Judge an error by its type, its status, or a word in it that is a known code."""
    if message in {*Category}:
        return Category(message)
    known = tables.STDLIB.get(f"builtins.{kind}") or tables.STATUSES.get(status)
    if known is None and status:
        return Category.PERMANENT if status < "500" else Category.TRANSIENT
    codes = (tables.CODES.get(word) or tables.ERRNOS.get(word) for word in message.split())
    return known or next(filter(None, codes), Category.UNKNOWN)


def _seconds(value: object, name: str) -> float:
    """Read a time: a datetime or ISO 8601 with its zone, or a number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) > LATEST:
            raise ValueError(f"{name} is {value!r}; divide milliseconds by 1000")
        return float(value)
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime):
        raise TypeError(f"{name} must be a datetime, ISO 8601 or seconds; found {value!r}")
    if moment.tzinfo is None:
        raise ValueError(
            f"{name} has no time zone: {str(value)!r}; write"
            ' .replace(tzinfo=ZoneInfo("Asia/Tokyo")) in your function'
        )
    return moment.timestamp()


def rows_of_file(file: IO[bytes], suffix: str) -> Iterator[object]:
    """Read CSV or TSV with a line of names, one JSON document, or else JSON Lines.

    A JSON list is its rows, any other document one row. What cannot be read is a BadRow.
    """
    if suffix in {".csv", ".tsv"}:
        yield from _cells(file)
    elif suffix == ".json":
        try:
            value = json.loads(file.read())
        except ValueError as error:
            raise UsageError(f"not a JSON document: {error}; name JSON Lines .jsonl") from error
        yield from value if isinstance(value, list) else [value]
    else:
        yield from (_parsed(line) for line in file if line.strip())


def _parsed(line: bytes) -> object:
    """Read a line of JSON; one of a quarantine file is the record in it."""
    try:
        value: Any = json.loads(line)
        found = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if found.keys() == _QUARANTINED:
            value = found["record"]
            return json.loads(value) if isinstance(value, str) else value
        return cast("object", value)
    except (ValueError, RecursionError) as error:
        text = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        return BadRow(text, f"is not JSON in UTF-8: {error}")


def _cells(file: IO[bytes]) -> Iterator[object]:
    """Read a file of cells, separated by the most frequent separator of its first line."""
    csv.field_size_limit(_LONGEST_CELL)
    lines = (line.decode("utf-8", "surrogateescape") for line in file)
    first = next(lines, "").removeprefix("\ufeff")
    sign = max(",;\t|", key=first.count)
    reader = csv.reader(chain([first], lines), delimiter=sign, strict=True)
    names = next(reader, list[str]())
    if re.search("[\udc80-\udcff]", first) or len({*names}) < len(names):
        raise UsageError(
            "the first line must name each column once, in UTF-8; convert another encoding with,"
            " for example, iconv -f CP932 -t UTF-8"
        )
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield BadRow("", f"line {reader.line_num} is not CSV: {error}")
            continue
        if len(cells) == len(names):
            yield dict(zip(names, cells, strict=True))
        elif cells:
            yield BadRow(cells, f"has {len(cells)} cells, and the first line {len(names)}")


def rows_of_query(url: str, query: str) -> Iterator[object]:
    """Read what a query returns, in SQLite or PostgreSQL; nothing is changed."""
    is_postgres = url.startswith(("postgresql:", "postgres:"))
    found = (_postgres if is_postgres else _sqlite)(url, query)
    names = next(found)
    if len({*names}) < len(names):
        raise UsageError("the query returns two columns of one name; rename one of them with AS")
    for row in found:
        yield dict(zip(names, row, strict=True))


def _postgres(url: str, query: str) -> Iterator[Sequence[Any]]:
    from redrive.stores.postgres.address import read_url  # noqa: PLC0415, I001 - says what is missing

    import psycopg  # noqa: PLC0415 - an extra

    try:
        with psycopg.connect(read_url(url).conninfo) as connection:
            connection.read_only = True
            with connection.cursor("redrive_import") as cursor:
                cursor.itersize = _BATCH
                cursor.execute(query.encode())
                yield [column.name for column in cursor.description or ()]
                yield from cursor
    except psycopg.Error as error:
        why = str(error).partition("\n")[0]
        raise StoreError(f"the query cannot be read: {why}") from error


def _sqlite(url: str, query: str) -> Iterator[Sequence[Any]]:
    place = Path(url.removeprefix("sqlite:")).expanduser().absolute()
    if not place.is_file():
        raise StoreError(f"there is no SQLite file {place}; name the database with --from")
    try:
        with closing(sqlite3.connect(f"{place.as_uri()}?mode=ro", uri=True)) as db:
            # What is no UTF-8 makes its row a bad one, and does not end the import.
            db.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            cursor = db.execute(query)
            yield [column[0] for column in cursor.description or ()]
            yield from cursor
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise StoreError(f"the query cannot be read from {place}: {error}") from error
