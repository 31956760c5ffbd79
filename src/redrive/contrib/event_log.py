"""The log of an event stream: one JSON line for each change of an event, in a private file."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import threading
from collections.abc import Generator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias, cast

from redrive.errors import StoreError, UsageError
from redrive.jobs import durations, logger
from redrive.jobs.job import Failure, Job, Reason, State
from redrive.payloads import masking, strict_json
from redrive.registry import Entry
from redrive.stores import _files

log = logger.log.getChild("stream")

Line: TypeAlias = dict[str, Any]
"""One line of the stream file: an event as it stands, with the same fields in every status."""


_LONGEST = 500  # characters of an error's text
LONGEST_VALUE = 10_000  # characters of a value that JSON cannot hold and that is kept as text
_STATUS = {
    State.RUNNING: "failed",
    State.COMPLETED: "success",
    State.RESOLVED: "success",
    State.DEAD: "dead_letter",
}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_serial = itertools.count(secrets.randbits(24))


class EventStatus(StrEnum):
    """What a line of the stream file says of its event."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"
    RETRYING = "retrying"
    DEAD_LETTER = "dead_letter"


class EventLog:
    """A file of lines, readable by its owner only, added to by any number of threads and processes.

    One line is one write to a file opened for appending, so lines never mix. Writing never raises:
    the log must not stop the program.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.place = Path(path).expanduser().absolute()
        self._lock = threading.Lock()  # half a line of another thread would look torn

    def write(self, line: Line) -> None:
        """Add one line. A line that a full disk or a crash cut short does not affect others.

        A line that another process is just writing looks cut short, too: an empty line follows it.
        """
        try:
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = _files.open_private(self.place, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            with os.fdopen(descriptor, "r+b", buffering=0) as file, self._lock:
                size = file.seek(0, os.SEEK_END)
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                data = b"\n" * torn + _encode(line).encode() + b"\n"
                if file.write(data) != len(data):
                    raise OSError("the disk has no room for the whole line")
        except (StoreError, OSError, ValueError) as error:
            log.error(  # noqa: TRY400 - the cause is the disk, a traceback says nothing more
                "the line %s of %s was not written to the event log: %s",
                line["status"],
                line["event_id"],
                masking.inert(masking.safe_text(error)),
            )

    def lines(self) -> Generator[Line]:
        """Return the lines that can be read, oldest first; damaged ones are skipped."""
        if not self.place.is_file():
            return
        with self.place.open("rb") as file:
            for raw in file:
                try:
                    value: Any = json.loads(raw)
                    known = isinstance(value["event_id"], str)
                except (ValueError, LookupError, TypeError, RecursionError):
                    continue
                if known:
                    yield value


def new_event_id(now: float) -> str:
    """Make an id like EVT-20250615-150640-3fa9c1.

    The last part counts up from a chance number, so that none comes twice in one process; the
    process's number keeps a forked child from counting along with its parent.
    """
    part = (next(_serial) + os.getpid() * 40503) % 2**24
    return f"EVT-{datetime.fromtimestamp(now, UTC):%Y%m%d-%H%M%S}-{part:06x}"


def event_line(job: Job, max_retries: int) -> Line:
    """Return an event as it stands, as a line of the log, secrets masked; `job` has its history."""
    about = job.origin or {}
    last = job.history[-1] if job.history else None
    failure = last.failure if last else job.failure
    has_failed = job.attempts or job.redrives
    status = _STATUS.get(job.state) or ("retrying" if has_failed else "pending")
    advice = {
        "retrying": f"next attempt in {durations.words(max(0.0, job.due - job.updated))}",
        "success": job.detail,
        "dead_letter": f"fix the cause, then: redrive retry {about.get('id', job.id)}",
    }.get(status)
    line = {
        "event_id": about.get("id", job.id),
        "timestamp": _stamp(job.updated),
        "event_type": about.get("event_type", job.handler),
        "source": about.get("source", job.lane),
        "data": strict_json.loads(job.payload),
        "parent_event_id": about.get("parent_event_id"),
        "tags": about.get("tags", []),
        "importance": about.get("importance", 3),
        "status": status,
        "error_info": _error_info(failure, job.attempts) if failure else None,
        "retry_info": _retry_info(job, status, max_retries),
        "recovery_actions": [advice] if advice else [],
        "latency_ms": round(last.duration * 1000, 3) if last else None,
        "exit_code": {"success": 0, "dead_letter": 1}.get(status),
        "related_hypothesis_id": about.get("related_hypothesis_id"),
        "job_id": job.id if status == "dead_letter" else None,
    }
    return cast("Line", masking.mask_payload(line))


def _retry_info(job: Job, status: str, max_retries: int) -> dict[str, object]:
    used = max(0, job.attempts - 1)
    most = max(used, max_retries)
    if status == "retrying":
        delay = round(job.due - job.updated, 3)
        coming = {"next_retry_at": _stamp(job.due), "backoff_seconds": delay}
        return {"count": job.attempts, "max_retries": most, **coming}
    ended = {"exhausted": job.reason is Reason.EXHAUSTED} if status == "dead_letter" else {}
    return {"count": used, "max_retries": most, **ended}


def plain(value: object) -> object:
    """Return a value as the stream file can hold it: as JSON, secrets masked."""
    text, _ = payload_of(Entry.unregistered("event"), {"value": value}, strict_json.MAX_BYTES)
    loaded = cast("dict[str, object]", strict_json.loads(text))
    return cast("dict[str, object]", masking.mask_payload(loaded)).get("value", loaded)


def payload_of(entry: Entry, data: Mapping[str, object], limit: int) -> tuple[str, str]:
    """Return what is kept of the data, and why it does not fit the action where it does not.

    What JSON cannot hold becomes text, so that no event is lost to it.
    """
    try:
        return entry.arguments.dump((), dict(data), limit), ""
    except UsageError as error:
        misfit = str(error)
    try:
        text = json.dumps(dict(data), default=lambda value: masking.safe_text(value, LONGEST_VALUE))
        return strict_json.dumps(json.loads(text, parse_constant=str), max_bytes=limit), misfit
    except (ValueError, TypeError, RecursionError) as error:
        why = masking.safe_text(error, _LONGEST)
        whole = masking.error_text(data, limit=LONGEST_VALUE)
        return strict_json.dumps({"not_kept": why, "text": whole}), misfit


def _error_info(failure: Failure, number: int) -> dict[str, object]:
    named = ("why", "code", "status", "request_id")
    info = {name: getattr(failure, name) for name in named if getattr(failure, name)}
    return {
        "category": failure.category.value,
        "message": failure.message,
        "type": failure.type,
        "stacktrace": failure.traceback,
        "context": {"attempt": number, **info},
    }


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
