"""One event of a stream, and the lines that tell what became of it.

A line is plain JSON with the same fields in every status, so that `jq` needs no special cases. Dead
letters are jobs; what the event knew beyond its data travels in the job's `origin`, and `dead_line`
gives such a job the shape of a line again.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NotRequired, TypedDict

from redrive import _duration, _json
from redrive.errors import BadPayload, UsageError
from redrive.job import Attempt, Failure, Job, Reason
from redrive.redact import safe_text

Status = Literal["pending", "success", "failed", "retrying", "dead_letter"]
"""retrying: waits for its next try. failed: the last try failed and nothing more is planned here."""

FORMAT = "events"
"""How the `origin` of a dead letter names this kind of record."""

_LEAST, _MOST = 1, 5
_LONGEST = 500
"""Characters of a type, a source, a tag; what is longer is cut."""


class ErrorInfo(TypedDict):
    """What went wrong in the last try."""

    category: str
    message: str
    type: str
    stacktrace: str
    context: dict[str, Any]


class RetryInfo(TypedDict):
    """How many retries there were (the coming one counts), and when the next one is, if any."""

    count: int
    max_retries: int
    next_retry_at: NotRequired[str]
    backoff_seconds: NotRequired[float]
    exhausted: NotRequired[bool]


class Line(TypedDict):
    """One line of the stream file; the last line of an event says where it stands."""

    event_id: str
    timestamp: str
    event_type: str
    source: str
    data: Any
    parent_event_id: str | None
    tags: list[str]
    importance: int
    status: Status
    error_info: ErrorInfo | None
    retry_info: RetryInfo | None
    recovery_actions: list[str]
    latency_ms: float | None
    exit_code: int | None
    job_id: NotRequired[str]
    """Of a dead letter: the job that people retry, resolve or discard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """What was emitted; it never changes."""

    id: str
    type: str
    source: str
    data: Any
    """Plain JSON."""
    parent: str | None = None
    tags: tuple[str, ...] = ()
    importance: int = 3

    def __post_init__(self) -> None:
        for name, text in (("event_type", self.type), ("source", self.source)):
            if not isinstance(text, str) or not text:
                msg = f"{name} must be a text that is not empty; found {text!r}"
                raise UsageError(msg)
        level = self.importance
        if isinstance(level, bool) or not isinstance(level, int) or not _LEAST <= level <= _MOST:
            msg = f"importance must be a whole number from {_LEAST} to {_MOST}; found {level!r}"
            raise UsageError(msg)
        for name in ("type", "source", "parent"):
            text = getattr(self, name)
            object.__setattr__(self, name, None if text is None else safe_text(text, _LONGEST))

    def origin(self) -> dict[str, object]:
        """Give what the event's job remembers about it."""
        return {
            "format": FORMAT,
            "id": self.id,
            "event_type": self.type,
            "source": self.source,
            "parent_event_id": self.parent,
            "tags": list(self.tags),
            "importance": self.importance,
        }

    @classmethod
    def of(cls, job: Job) -> StreamEvent:
        """Give the event a dead letter once was; one that came another way gets what it has."""
        known: Mapping[str, Any] = job.origin or {}
        known = known if known.get("format") == FORMAT else {}
        return cls(
            id=known.get("id") or job.key or job.id,
            type=known.get("event_type") or job.handler,
            source=known.get("source") or job.lane,
            data=_data(job),
            parent=known.get("parent_event_id"),
            tags=tags_of(known.get("tags", job.tags)),
            importance=known.get("importance", 3),
        )


def _data(job: Job) -> Any:
    try:
        return _json.loads(job.payload)
    except BadPayload:
        return job.payload


def tags_of(tags: str | Iterable[str] | None) -> tuple[str, ...]:
    """Give tags as a tuple; one text is one tag, not many letters."""
    given = (tags,) if isinstance(tags, str) else tuple(tags or ())
    return tuple(safe_text(tag, _LONGEST) for tag in given)


class EventIds:
    """Makes ids like EVT-20250615-150640-3fa9c1; none twice in one process.

    Six hexadecimal digits meet by chance about once in a few thousand events of one second, so
    those given in this second are remembered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._second = ""
        self._given: set[str] = set()

    def make(self, now: float) -> str:
        """Give a new id for this moment (UTC)."""
        second = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
        with self._lock:
            if second != self._second:
                self._second, self._given = second, set()
            while (part := secrets.token_hex(3)) in self._given:
                pass
            self._given.add(part)
        return f"EVT-{second}-{part}"


def line(
    event: StreamEvent,
    status: Status,
    at: float,
    *,
    retry: RetryInfo,
    attempt: Attempt | None = None,
    actions: Iterable[str] = (),
    exit_code: int | None = None,
) -> Line:
    """Put together one line; without an attempt nothing has been tried yet."""
    failure = attempt.failure if attempt else None
    return Line(
        event_id=event.id,
        timestamp=stamp(at),
        event_type=event.type,
        source=event.source,
        data=event.data,
        parent_event_id=event.parent,
        tags=list(event.tags),
        importance=event.importance,
        status=status,
        error_info=_error_info(failure, attempt.number) if attempt and failure else None,
        retry_info=retry,
        recovery_actions=list(actions),
        latency_ms=round(attempt.duration * 1000, 3) if attempt else None,
        exit_code=exit_code,
    )


def waiting(count: int, limit: int, delay: float, at: float) -> RetryInfo:
    """Say when the next retry comes."""
    return RetryInfo(
        count=count,
        max_retries=limit - 1,
        next_retry_at=stamp(at + delay),
        backoff_seconds=round(delay, 3),
    )


def dead_line(job: Job, limit: int, *, exit_code: int = 1) -> Line:
    """Give a dead letter the shape of a line; `job` has its history."""
    last = job.history[-1] if job.history else None
    used = max(0, job.attempts - 1)
    told = line(
        StreamEvent.of(job),
        "dead_letter",
        job.updated if job.finished is None else job.finished,
        retry=RetryInfo(
            count=used,
            max_retries=max(used, limit - 1),
            exhausted=job.reason is Reason.EXHAUSTED,
        ),
        attempt=last,
        actions=[f"mend the cause, then: redrive retry {job.id}"],
        exit_code=exit_code,
    )
    if told["error_info"] is None and job.failure is not None:
        told["error_info"] = _error_info(job.failure, job.attempts)
    told["job_id"] = job.id
    return told


def planned(number: int, limit: int, delay: float) -> str:
    """Say which retry comes next, and when."""
    return f"retry {number} of {limit - 1} in {_duration.words(delay)}"


def stamp(at: float) -> str:
    """Write a moment for people and programs: ISO 8601, UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def _error_info(failure: Failure, number: int) -> ErrorInfo:
    context = {
        "attempt": number,
        "why": failure.why,
        "code": failure.code,
        "status": failure.status,
        "request_id": failure.request_id,
    }
    return ErrorInfo(
        category=failure.category.value,
        message=failure.message,
        type=failure.type,
        stacktrace=failure.traceback,
        context={name: value for name, value in context.items() if value not in (None, "")},
    )
