"""A resilient event stream: actions retried in place, a log of what happened, dead letters kept.

The stream file is a log, one JSON line a change; the dead-letter file is an ordinary store, so that
every command works on it. Nothing here decides about a failure: an event is handled like any job
(`Execution`, `conclude`), in memory. Only a dead letter is stored, whole.
"""

from __future__ import annotations

import inspect
import itertools
import json
import os
import random
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeAlias, cast

from redrive.app import Redrive
from redrive.attempts.executions import Execution
from redrive.errors import BadPayload, GiveUp, StoreError, UsageError
from redrive.handler import Handler
from redrive.jobs import durations, logger
from redrive.jobs.clock import Clock
from redrive.jobs.job import Category, Dead, Failure, Job, Reason, Retry, Settlement, State
from redrive.payloads import masking, strict_json
from redrive.policies import presets
from redrive.registry import Entry
from redrive.stores import _files
from redrive.strategies import Rand, RetryStrategy, exponential
from redrive.submission import Options

log = logger.log.getChild("stream")

Action: TypeAlias = "Callable[[], object] | Handler[..., object]"
Line: TypeAlias = dict[str, Any]
"""One line of the stream file: an event as it stands, with the same fields in every status."""

_LONGEST = 500
"""Characters of a type, a source, a tag; what is longer is cut."""
_LONGEST_VALUE = 10_000
"""Characters of a value that JSON cannot hold and that is kept as text."""
_UNFIT = re.compile(r"^\.|[^A-Za-z0-9._-]")
_STATUS = {State.RUNNING: "failed", State.COMPLETED: "success", State.DEAD: "dead_letter"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_serial = itertools.count(secrets.randbits(24))


class ResilientEventStream:
    """Runs the actions of events, retries them in place, and keeps those that cannot succeed.

    `stream_path` is a log of every change; `dead_letter_path` a store for the `redrive` commands,
    open as `app`, where handlers can be registered. Safe to use from many threads.
    """

    def __init__(  # noqa: PLR0917 - callers give these by place
        self,
        stream_path: str | os.PathLike[str] | None = None,
        dead_letter_path: str | os.PathLike[str] | None = None,
        max_retries: int = 3,
        retry_backoff_base: float = 2.0,
        enable_metrics: bool = True,
        retry_strategy: RetryStrategy | None = None,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        rand: Rand = random.random,
    ) -> None:
        self._usual = exponential(1, base=retry_backoff_base, cap=300, jitter=0.2)
        self._policy = replace(presets.EVENTS, attempts=max_retries + 1)
        self.retry_strategy = retry_strategy
        dead_letters = os.fspath(dead_letter_path or "logs/dead_letter_queue.jsonl")
        self.app = Redrive(f"jsonl:{dead_letters}", policy=self._policy, clock=clock, rand=rand)
        _ = self.app.store  # a file that is no store is refused now, not at the first death
        self._log = EventLog(stream_path or "logs/event_stream.jsonl")
        self._sleep = sleep
        self._lock = threading.Lock()
        self._has_metrics = enable_metrics
        self._counts: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()

    @property
    def retry_strategy(self) -> RetryStrategy:
        """How long to wait; may be replaced at any time, None is the default again."""
        return self._policy.wait or self._usual

    @retry_strategy.setter
    def retry_strategy(self, strategy: RetryStrategy | None) -> None:
        self._policy = replace(self._policy, wait=strategy or self._usual)

    def emit_with_retry(  # noqa: PLR0917 - callers give these by place
        self,
        event_type: str,
        source: str,
        action: Action,
        data: Mapping[str, object] | None = None,
        parent_event_id: str | None = None,
        tags: Iterable[str] | None = (),
        importance: int = 3,
        *,
        max_retries: int | None = None,
    ) -> str:
        """Run the action of an event until it succeeds or the policy gives up; return its id.

        The id is returned whatever the action does: if it failed permanently, the event is a dead
        letter. Only Ctrl-C and a UsageError (before anything has run) are raised. A function is
        called without arguments; a registered handler gets `data` as its arguments, as from a
        worker, and only a handler can be retried later.
        """
        data = {} if data is None else data
        _check(isinstance(event_type, str) and event_type, "event_type must be a text", event_type)
        _check(isinstance(source, str) and source, "source must be a text", source)
        _check(callable(action), "action must be a function or a registered handler", action)
        _check(isinstance(data, Mapping), "data must be a mapping of names to values", data)
        _check(not isinstance(tags, str), "tags must be a list of texts", tags)
        _check(importance in {1, 2, 3, 4, 5}, "importance must be from 1 to 5", importance)
        _check((max_retries or 0) >= 0, "max_retries must be 0 or more", max_retries)
        submitter = self.app.submitter
        entry = self._entry(action, event_type)
        payload, misfit = _payload(entry, data, submitter.settings.payload_limit)
        event_id = new_event_id(submitter.settings.clock.now())
        origin: dict[str, object] = {
            "format": "events",
            "id": event_id,
            "event_type": masking.safe_text(event_type, _LONGEST),
            "source": masking.safe_text(source, _LONGEST),
            "parent_event_id": parent_event_id and masking.safe_text(parent_event_id, _LONGEST),
            "tags": [masking.safe_text(tag, _LONGEST) for tag in tags or ()],
            "importance": importance,
        }
        attempts = None if max_retries is None else max_retries + 1
        options = Options(tags=(event_id,), attempts=attempts)
        job = submitter.draft(replace(entry, policy=self._policy), payload, options)
        job = replace(job, origin=origin)
        self._tell(job)
        self._walk(job, entry, lambda execution: _run(execution, action, misfit))
        return event_id

    def get_failed_events(self, limit: int = 100) -> list[Line]:
        """Return the lines of the stream file with the status `failed`, newest first."""
        failed = [line for line in self._log.lines() if line.get("status") == "failed"]
        return failed[::-1][: max(0, limit)]

    def get_dead_letter_queue(self, limit: int = 100) -> list[Line]:
        """Return the dead letters, newest first; each line's `job_id` is what commands take."""
        if limit < 1:
            return []
        dead = self.app.desk.jobs.find(state=State.DEAD, by_change=True, limit=limit).jobs
        return [self._line(self.app.store.get(job.id) or job) for job in dead]

    def get_retry_candidates(self) -> list[Line]:
        """Return the dead letters that a retry may help, newest first."""
        dead = sum(count.jobs for count in self.app.desk.jobs.counts() if count.state is State.DEAD)
        lines = self.get_dead_letter_queue(dead)
        return [line for line in lines if line["error_info"] and self._can_pass(line["error_info"])]

    def get_metrics(self) -> Mapping[str, object]:
        """Return the numbers since this object was made; empty with `enable_metrics=False`."""
        if not self._has_metrics:
            return {}
        with self._lock:
            return {
                "emitted": self._counts["pending"],
                "succeeded": self._counts["success"],
                "retries": self._counts["retrying"],
                "dead_lettered": self._counts["dead_letter"],
                "failed": self._counts["failed"],
                "failures_by_category": dict(self._categories),
            }

    def close(self) -> None:
        """Close the dead-letter store; the next use opens it again."""
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _entry(self, action: Action, event_type: str) -> Entry:
        """Return the entry of an action; a plain function has only a name."""
        if not isinstance(action, Handler):
            return Entry.unregistered(_UNFIT.sub("_", event_type)[:64])
        _check(
            action.chosen == Options(), "an event cannot use the options of a handler", action.name
        )
        registry = self.app.submitter.registry
        with self._lock:
            if registry.get(action.name) is not action.entry:
                registry.add(action.entry)
        return action.entry

    def _walk(self, job: Job, entry: Entry, run: Callable[[Execution], None]) -> None:
        """Run it until it succeeds or is dead; write each change to the stream file."""
        submitter = self.app.submitter
        while True:
            execution = Execution(entry, submitter.take(job), submitter.settings.clock)
            try:
                run(execution)
            except KeyboardInterrupt:
                note = "interrupted by Ctrl-C"
                self._tell(execution.job, error_info=None, recovery_actions=[note])
                raise
            # Asked only now: the strategy may be replaced while events are on their way.
            execution.entry = replace(entry, policy=self._policy)
            settlement = submitter.conclude(execution)
            job = submitter.settled(settlement)
            match settlement.verdict:
                case Retry(delay):
                    self._tell(job)
                    self._sleep(delay)
                case Dead():
                    return self._bury(job, settlement)
                case _:  # done or skipped
                    return self._tell(job)

    def _bury(self, job: Job, settlement: Settlement) -> None:
        """Store a dead letter; if the store fails, the stream file still has it."""
        try:
            self.app.submitter.keep_failed(settlement, Options())
        except Exception:
            log.exception("the dead letter of event %s could not be kept", job.tags[0])
            note = "the dead-letter store could not keep it; see the program's log"
            self._tell(job, status="failed", recovery_actions=[note], job_id=None)
        else:
            self._tell(job)

    def _tell(self, job: Job, **other: object) -> None:
        line: Line = {**self._line(job), **other}
        with self._lock:
            self._counts[line["status"]] += 1
            if line["error_info"]:
                self._categories[line["error_info"]["category"]] += 1
        self._log.write(line)

    def _line(self, job: Job) -> Line:
        """Show an event as it stands, secrets masked; `job` has its history."""
        about = job.origin or {}
        last = job.history[-1] if job.history else None
        failure = last.failure if last else job.failure
        status = _STATUS.get(job.state) or ("retrying" if job.attempts else "pending")
        advice = {
            "retrying": f"next attempt in {durations.words(max(0.0, job.due - job.updated))}",
            "success": job.detail,
            "dead_letter": f"fix the cause, then: redrive retry {job.id}",
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
            "retry_info": self._retry_info(job, status),
            "recovery_actions": [advice] if advice else [],
            "latency_ms": round(last.duration * 1000, 3) if last else None,
            "exit_code": {"success": 0, "dead_letter": 1}.get(status),
            "job_id": job.id if status == "dead_letter" else None,
        }
        return cast("Line", masking.mask_payload(line))

    def _retry_info(self, job: Job, status: str) -> dict[str, object]:
        used = max(0, job.attempts - 1)
        most = max(used, self._policy.limited(job.own_max_attempts).max_attempts - 1)
        if status == "retrying":
            delay = round(job.due - job.updated, 3)
            coming = {"next_retry_at": _stamp(job.due), "backoff_seconds": delay}
            return {"count": job.attempts, "max_retries": most, **coming}
        ended = {"exhausted": job.reason is Reason.EXHAUSTED} if status == "dead_letter" else {}
        return {"count": used, "max_retries": most, **ended}

    def _can_pass(self, error: dict[str, str]) -> bool:
        return not self._policy.rule(Category(error["category"])).dead


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
                    msg = "the disk has no room for the whole line"
                    raise OSError(msg)
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


def _run(execution: Execution, action: Action, misfit: str) -> None:
    with execution:
        if isinstance(action, Handler) and misfit:
            raise BadPayload(misfit)
        arguments = execution.arguments if isinstance(action, Handler) else {}
        value = cast("Callable[..., object]", action)(**arguments)
        if inspect.iscoroutine(value):
            value.close()
            msg = "the action is async, which is not supported here; pass a plain function"
            raise GiveUp(msg)


def _payload(entry: Entry, data: Mapping[str, object], limit: int) -> tuple[str, str]:
    """Return what is kept of the data, and why it does not fit the action where it does not.

    What JSON cannot hold becomes text, so that no event is lost to it.
    """
    try:
        return entry.arguments.dump((), dict(data), limit), ""
    except UsageError as error:
        misfit = str(error)
    try:
        text = json.dumps(
            dict(data), default=lambda value: masking.safe_text(value, _LONGEST_VALUE)
        )
        return strict_json.dumps(json.loads(text, parse_constant=str), max_bytes=limit), misfit
    except (ValueError, TypeError, RecursionError) as error:
        why = masking.safe_text(error, _LONGEST)
        whole = masking.error_text(data, limit=_LONGEST_VALUE)
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


def _check(is_right: object, wanted: str, value: object) -> None:
    if not is_right:
        msg = f"{wanted}; found {masking.safe_text(value, 200)!r}"
        raise UsageError(msg)
