"""A resilient event stream: actions retried in place, a log of what happened, dead letters kept.

The stream file is a log, one JSON line a change; the dead-letter file is an ordinary store, so that
every command works on it. Nothing here decides about a failure: an event is handled like any job
(`Execution`, `conclude`). From its first failure on it is a job in the store: pending while it waits
for its retry, under a lease while it runs. So commands see it, and a killed program loses none.
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
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeAlias, cast

from redrive.app import Redrive
from redrive.attempts.executions import Execution, failure_of, text_failure
from redrive.errors import BadPayload, GiveUp, StoreError, UsageError
from redrive.events import Event
from redrive.handler import Handler
from redrive.jobs import durations, logger
from redrive.jobs.clock import Clock
from redrive.jobs.job import (
    Category,
    Claim,
    Completed,
    Dead,
    Failure,
    Job,
    Reason,
    Retry,
    Settlement,
    State,
)
from redrive.jobs.outcomes import Failed, Returned
from redrive.payloads import masking, strict_json
from redrive.policies import presets
from redrive.registry import Entry
from redrive.stores import _files
from redrive.stores.contract import Query, every
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
_STATUS = {
    State.RUNNING: "failed",
    State.COMPLETED: "success",
    State.RESOLVED: "success",
    State.DEAD: "dead_letter",
}
_HEARD = {
    "retried": "a person retried it",
    "succeeded": "it succeeded when it was run again",
    "failed": "it was run again and failed",
    "died": "a dead letter again",
    "resolved": "a person resolved it",
    "discarded": "a person discarded it",
    "reopened": "a person reopened it",
}
"""What the log says of changes that workers and people made, by the kind of event."""
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_serial = itertools.count(secrets.randbits(24))


class EventStatus(StrEnum):
    """What a line of the stream file says of its event."""

    PENDING = "pending"
    SUCCESS = "success"
    FAILED = "failed"
    RETRYING = "retrying"
    DEAD_LETTER = "dead_letter"


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
        self._here: set[str] = set()
        """The jobs of the events that are being retried by this object."""
        self.app.listen(self._heard)
        self._end_killed()
        self.app.cleanup()

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
        related_hypothesis_id: str | None = None,
        timeout_seconds: float | None = None,
    ) -> str:
        """Run the action of an event until it succeeds or the policy gives up; return its id.

        The id is returned whatever the action does: if it failed permanently, the event is a dead
        letter. Only Ctrl-C and a UsageError (before anything has run) are raised. A function is
        called without arguments; a registered handler gets `data` as its arguments, as from a
        worker, and only a handler can be retried later. Without `data`, a mapping that the action
        returns is the data of its success line. After `timeout_seconds` an attempt has failed: the
        action goes on in a thread of its own, whose result is ignored.
        """
        _check(callable(action), "action must be a function or a registered handler", action)
        _check((max_retries or 0) >= 0, "max_retries must be 0 or more", max_retries)
        _check((timeout_seconds or 1) > 0, "timeout_seconds must be above 0", timeout_seconds)
        entry = replace(self._entry(action, event_type), timeout=timeout_seconds)
        job, misfit = self._draft(
            entry,
            {} if data is None else data,
            None if max_retries is None else max_retries + 1,
            event_type=event_type,
            source=source,
            parent_event_id=parent_event_id,
            related_hypothesis_id=related_hypothesis_id,
            tags=tags,
            importance=importance,
            function=None if isinstance(action, Handler) else _name_of(action),
        )
        self._tell(job)
        with self._lock:
            self._here.add(job.id)
        try:
            self._walk(job, entry, lambda execution: _run(execution, action, misfit), data is None)
        finally:
            with self._lock:
                self._here.discard(job.id)
        return str(job.event)

    def emit(  # noqa: PLR0917 - callers give these by place
        self,
        event_type: str,
        source: str,
        data: Mapping[str, object],
        parent_event_id: str | None = None,
        related_hypothesis_id: str | None = None,
        tags: Iterable[str] | None = None,
        importance: int = 3,
        status: str = EventStatus.SUCCESS,
        error_info: Mapping[str, object] | None = None,
        retry_info: Mapping[str, object] | None = None,
        recovery_actions: Iterable[object] | None = None,
        latency_ms: float | None = None,
        exit_code: int | None = None,
    ) -> str:
        """Write one line about something that happened elsewhere; return the id of its event.

        With the status `dead_letter` it is also stored, as a dead letter that was captured.
        """
        _check(status in set(EventStatus), f"status must be one of {[*EventStatus]}", status)
        job, _ = self._draft(
            self._entry(None, event_type),
            data,
            event_type=event_type,
            source=source,
            parent_event_id=parent_event_id,
            related_hypothesis_id=related_hypothesis_id,
            tags=tags,
            importance=importance,
        )
        given: dict[str, object] = {
            "error_info": error_info,
            "retry_info": retry_info,
            "recovery_actions": list(recovery_actions or ()),
            "latency_ms": latency_ms,
            "exit_code": exit_code,
        }
        told = {name: _plain(value) for name, value in given.items() if value is not None}
        is_dead = status == EventStatus.DEAD_LETTER and self._keep_dead(job, error_info or {})
        self._tell(job, **told, status=str(status), job_id=job.id if is_dead else None)
        return str(job.event)

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

    def _draft(
        self,
        entry: Entry,
        data: Mapping[str, object],
        attempts: int | None = None,
        **about: Any,
    ) -> tuple[Job, str]:
        """Return the job of a new event, and why its data does not fit where it does not."""
        kind, source, tags = about["event_type"], about["source"], about["tags"]
        _check(isinstance(kind, str) and kind, "event_type must be a text", kind)
        _check(isinstance(source, str) and source, "source must be a text", source)
        _check(isinstance(data, Mapping), "data must be a mapping of names to values", data)
        _check(not isinstance(tags, str), "tags must be a list of texts", tags)
        rank = about["importance"]
        _check(rank in {1, 2, 3, 4, 5}, "importance must be from 1 to 5", rank)
        submitter = self.app.submitter
        payload, misfit = _payload(entry, data, submitter.settings.payload_limit)
        event_id = new_event_id(submitter.settings.clock.now())
        texts = {
            name: masking.safe_text(value, _LONGEST)
            for name, value in about.items()
            if value is not None and name not in {"tags", "importance"}
        }
        shown = [masking.safe_text(tag, _LONGEST) for tag in tags or ()]
        origin = {"format": "events", "id": event_id, **texts, "tags": shown, "importance": rank}
        options = Options(tags=(event_id,), attempts=attempts)
        job = submitter.draft(replace(entry, policy=self._policy), payload, options)
        return replace(job, origin=origin, event=event_id), misfit

    def _entry(self, action: Action | None, event_type: str) -> Entry:
        """Return the entry of an action; a plain function has only a name."""
        if not isinstance(action, Handler):
            _check(
                isinstance(event_type, str) and event_type, "event_type must be a text", event_type
            )
            return Entry.unregistered(_UNFIT.sub("_", event_type)[:64])
        _check(
            action.chosen == Options(), "an event cannot use the options of a handler", action.name
        )
        registry = self.app.submitter.registry
        with self._lock:
            if registry.get(action.name) is not action.entry:
                registry.add(action.entry)
        return action.entry

    def _walk(
        self, job: Job, entry: Entry, run: Callable[[Execution], None], shows_result: bool
    ) -> None:
        """Run an event until it succeeds or is dead; from its first failure on it is stored."""
        submitter, is_stored = self.app.submitter, False
        claimed: Job | None = submitter.take(job)
        while claimed is not None:
            execution = Execution(entry, claimed, submitter.settings.clock)
            try:
                with submitter.holding(execution, Options(durable=is_stored)):
                    run(execution)
            except KeyboardInterrupt:
                self._interrupted(execution, is_stored=is_stored)
                raise
            if isinstance(execution.outcome, Returned) and execution.error is not None:
                # No worker could do better: what it lacks is an error like any other here.
                lacks = failure_of(execution.error, entry, claimed, submitter.settings.clock)
                execution.outcome = Failed(lacks)
            # Asked only now: the strategy may be replaced while events are on their way.
            execution.entry = replace(entry, policy=self._policy)
            settlement = submitter.conclude(execution)
            verdict, job = settlement.verdict, submitter.settled(settlement)
            other: dict[str, object] = {}
            if is_stored or not isinstance(verdict, Completed):
                is_stored, other = self._keep(settlement, job, is_stored=is_stored)
            elif shows_result and isinstance(execution.value, Mapping):
                other["data"] = _plain(cast("Mapping[str, object]", execution.value))
            self._tell(job, **{"job_id": job.id if is_stored else None, **other})
            if not isinstance(verdict, Retry):
                return
            self._sleep(verdict.delay)
            claimed = self._claimed(job) if is_stored else submitter.take(job)

    def _keep(
        self, settlement: Settlement, job: Job, *, is_stored: bool
    ) -> tuple[bool, dict[str, object]]:
        """Store an attempt; return whether the store has it, and what else the log is to say."""
        submitter = self.app.submitter
        reserve = submitter.settings.lease
        try:
            kept = submitter.keep_attempt(settlement, is_stored=is_stored, reserve=reserve)
        except Exception:
            log.exception("the failure of event %s could not be kept", job.event)
            if isinstance(settlement.verdict, Retry):
                return False, {}
            note = "the dead-letter store could not keep it; see the program's log"
            status = "failed" if isinstance(settlement.verdict, Dead) else "success"
            return False, {"status": status, "recovery_actions": [note]}
        if kept is None:
            note = f"its lease was lost; another process decides: redrive show {job.id}"
            return True, {"recovery_actions": [note]}
        return True, {}

    def _claimed(self, job: Job) -> Job | None:
        """Claim a stored event for its retry here; None if a worker or a person was faster."""
        submitter = self.app.submitter
        try:
            claims = submitter.store.claim(
                [job.handler],
                limit=1,
                holder=submitter.holder,
                lease_for=submitter.settings.lease,
                only=[job.id],
                ignore_waits=True,
            )
        except StoreError:
            log.exception("event %s could not be claimed; it waits for a worker", job.event)
            return None
        return claims[0].job if claims else None

    def _interrupted(self, execution: Execution, *, is_stored: bool) -> None:
        """Return the claim of an event that Ctrl-C stopped, and write that to the stream file."""
        note = "interrupted by Ctrl-C"
        job_id = execution.job.id if is_stored else None
        if is_stored:
            submitter = self.app.submitter
            with suppress(StoreError):  # then its lease ends, and a worker takes it over
                submitter.runtime().settle(submitter.conclude(execution))
        self._tell(execution.job, error_info=None, recovery_actions=[note], job_id=job_id)

    def _keep_dead(self, job: Job, error: Mapping[str, object]) -> bool:
        """Store an event that failed elsewhere as a dead letter; return False if that failed."""
        submitter = self.app.submitter
        named = str(error.get("category", ""))
        category = Category(named) if named in set(Category) else Category.UNKNOWN
        known = masking.secrets_of(job.payload)
        kind, message, trace = (
            masking.error_text(str(error.get(name) or ""), known, limit=_LONGEST_VALUE)
            for name in ("type", "message", "stacktrace")
        )
        failure = text_failure(category, kind or "Event", message or "it failed elsewhere")
        entry = replace(Entry.unregistered(job.handler), policy=self._policy)
        execution = Execution(entry, submitter.take(job), submitter.settings.clock)
        execution.outcome = Failed(replace(failure, traceback=trace), captured=True)
        settlement = submitter.conclude(execution)
        return self._keep(settlement, job, is_stored=False)[0]

    def _end_killed(self) -> None:
        """Dead-letter the events of plain functions whose program was killed in mid-retry.

        Nothing else can run them; workers take over those of registered handlers.
        """
        store, runtime = self.app.store, self.app.submitter.runtime()
        now, lease = store.now(), self.app.submitter.settings.lease
        unfinished = every(store, Query(states=frozenset({State.PENDING, State.RUNNING})))
        lost = {job.id: job for job in unfinished if _function_of(job) and not job.redrives}
        waiting = [job for job in lost.values() if job.state is State.PENDING and job.due < now]
        running = {job.handler for job in lost.values() if job.state is State.RUNNING}
        held: dict[str, Any] = {"lease_for": lease, "limit": max(1, len(lost))}
        claims = store.seize(by=f"{runtime.holder}~", handlers=running, **held) if running else []
        if waiting:
            names, ids = {job.handler for job in waiting}, [job.id for job in waiting]
            holder = runtime.holder
            claims += store.claim(names, holder=holder, only=ids, ignore_waits=True, **held)
        for claim in claims:
            module, _, name = _function_of(claim.job).partition(":")
            why = f"the program that retried it ended; to run it, call {name}() of {module}"
            runtime.settle(Settlement(Claim(claim.job), Dead(Reason.CAPTURED, why)))

    def _heard(self, event: Event) -> None:
        """Write to the stream file what workers and people did to an event."""
        job, told = event.job, _HEARD.get(event.kind)
        if job is None or job.event is None or told is None or job.id in self._here:
            return
        note = f"{told}: {event.detail}" if event.detail else told
        self._tell(self.app.store.get(job.id) or job, recovery_actions=[note], job_id=job.id)

    def _tell(self, job: Job, **other: object) -> None:
        line: Line = {**self._line(job), **other}
        with self._lock:
            self._counts[line["status"]] += 1
            if line["error_info"]:
                self._categories[line["error_info"]["category"]] += 1
        self._log.write(line)

    def _line(self, job: Job) -> Line:
        return event_line(job, self._policy.limited(job.own_max_attempts).max_attempts - 1)

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


def _run(execution: Execution, action: Action, misfit: str) -> None:
    with execution:
        if isinstance(action, Handler) and misfit:
            raise BadPayload(misfit)
        arguments = execution.arguments if isinstance(action, Handler) else {}
        call = cast("Callable[..., object]", action)
        if execution.entry.timeout is None:
            value = call(**arguments)
        else:
            value = _limited(execution, lambda: call(**arguments))
        if inspect.iscoroutine(value):
            value.close()
            msg = "the action is async, which is not supported here; pass a plain function"
            raise GiveUp(msg)
        execution.value = value


def _limited(execution: Execution, call: Callable[[], object]) -> object:
    """Return the result of a call in a thread of its own; TimeoutError when its time is over."""
    ended: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    context = copy_context()

    def work() -> None:
        try:
            ended.put((context.run(call), None))
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            ended.put((None, error))

    threading.Thread(target=work, name="redrive-event", daemon=True).start()
    try:
        value, error = ended.get(timeout=execution.entry.timeout)
    except Empty:
        execution.timed_out = True
        msg = f"ran past its time limit of {execution.entry.timeout:g} s"
        raise TimeoutError(msg) from None
    if error is not None:
        raise error
    return value


def _name_of(action: Callable[[], object]) -> str:
    """Return where a plain function can be imported from: `shop.events:refresh`."""
    name = getattr(action, "__qualname__", None) or type(action).__qualname__
    return f"{getattr(action, '__module__', None) or '?'}:{name}"


def _function_of(job: Job) -> str:
    """Return the name of the plain function that an event was emitted with; empty for a handler."""
    return str((job.origin or {}).get("function") or "")


def _plain(value: object) -> object:
    """Return a value as the stream file can hold it: as JSON, secrets masked."""
    text, _ = _payload(Entry.unregistered("event"), {"value": value}, strict_json.MAX_BYTES)
    loaded = cast("dict[str, object]", strict_json.loads(text))
    return cast("dict[str, object]", masking.mask_payload(loaded)).get("value", loaded)


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
