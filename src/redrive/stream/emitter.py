"""`ResilientEventStream`: emits events whose actions may fail.

An event's action runs in the caller's thread and is retried there. It walks the road of any job (the
same classifier, decision and records), only in memory: what succeeds is never stored, what dies is
stored whole, with every attempt. So the dead-letter file is an ordinary store for every command.
"""

from __future__ import annotations

import inspect
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, assert_never, cast

from redrive import _json, _transitions, presets, redact
from redrive._clock import Clock
from redrive.app import Redrive
from redrive.errors import GiveUp, StoreError, UsageError
from redrive.handler import Handler
from redrive.job import Claim, Completed, Dead, Job, Release, Retry, Settlement, State
from redrive.keeping import Options
from redrive.policy import Policy
from redrive.strategy import Rand, RetryStrategy, exponential
from redrive.stream import event as events
from redrive.stream.event import EventIds, Line, RetryInfo, StreamEvent
from redrive.stream.log import EventLog
from redrive.stream.tally import Tally
from redrive.stream.work import Action, Work, work_of
from redrive.worker.registry import Entry
from redrive.worker.run import Execution, conclude, worker_name

log = logging.getLogger("redrive.stream")

STREAM = "logs/event_stream.jsonl"
DEAD_LETTERS = "logs/dead_letter_queue.jsonl"


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
        app: Redrive | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        rand: Rand = random.random,
    ) -> None:
        self._usual = exponential(1, base=retry_backoff_base, cap=300, jitter=0.2)
        self._policy = replace(presets.EVENTS, attempts=_attempts(max_retries), wait=self._usual)
        self.retry_strategy = retry_strategy
        self.app = app or _open(dead_letter_path or DEAD_LETTERS, self._policy, clock, rand)
        if app is not None and (dead_letter_path is not None or clock is not None):
            msg = "an app brings its own store and clock; give app, or dead_letter_path and clock"
            raise UsageError(msg)
        self._clock = self.app.keeper.settings.clock
        self._sleep = sleep
        self._rand = rand
        self._log = EventLog(stream_path or STREAM)
        self._ids = EventIds()
        self._tally = Tally(enabled=enable_metrics)
        self._lock = threading.Lock()

    @property
    def retry_strategy(self) -> RetryStrategy:
        """How long to wait; may be replaced at any time, also for events that wait already."""
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
        """Run an event's action until it succeeds or there is no point; gives the event's id.

        Whatever the action does, the id comes back: what failed for good is a dead letter. Only
        Ctrl-C passes, and a mistake in this very call (UsageError, before anything has run). A
        function is called with nothing, or with `data` if it has a parameter without a default;
        a registered handler with `data` as its arguments, and only that can be driven again.
        """
        data = {} if data is None else data
        work = work_of(action, data, event_type, self.app.keeper.settings.payload_limit)
        event = StreamEvent(
            id=self._ids.make(self._clock.now()),
            type=event_type,
            source=source,
            data=_json.loads(work.payload),
            parent=parent_event_id,
            tags=events.tags_of(tags),
            importance=importance,
        )
        job = self._draft(event, work, max_retries)
        if isinstance(action, Handler):
            self._adopt(work.entry)
        self._tally.add("emitted")
        self._say(events.line(event, "pending", job.created, retry=self._used(job, 0)))
        self._run(event, job, work)
        return event.id

    def get_failed_events(self, limit: int = 100) -> list[Line]:
        """Give the events whose last try failed and that are not dead letters, newest first."""
        failed: dict[str, Line] = {}
        for found in self._log.lines():
            failed.pop(found["event_id"], None)
            if found.get("status") in {"failed", "retrying"}:
                failed[found["event_id"]] = cast("Line", found)
        return list(reversed(failed.values()))[: max(0, limit)]

    def get_dead_letter_queue(self, limit: int = 100) -> list[Line]:
        """Give the dead letters, newest first; each line's `job_id` is what commands take."""
        if limit < 1:
            return []
        dead = self.app.find(state=State.DEAD, by_change=True, limit=limit).jobs
        return [self._dead_line(job) for job in dead]

    def get_retry_candidates(self) -> list[Line]:
        """Give the dead letters whose kind of error can pass: worth another try, newest first."""
        found: list[Line] = []
        cursor: str | None = None
        while True:
            page = self.app.find(state=State.DEAD, by_change=True, limit=500, cursor=cursor)
            found += [self._dead_line(job) for job in page.jobs if self._can_pass(job)]
            cursor = page.cursor
            if cursor is None:
                return found

    def get_metrics(self) -> Mapping[str, object]:
        """Give the numbers since this object was made; empty with `enable_metrics=False`."""
        return self._tally.snapshot()

    def close(self) -> None:
        """Let go of the dead-letter store; the next use opens it again."""
        self.app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ResilientEventStream({str(self._log.place)!r}, {self.app!r})"

    def _draft(self, event: StreamEvent, work: Work, max_retries: int | None) -> Job:
        """Make the event's job, claimed by ourselves; it is stored only if it dies."""
        options = Options(
            tags=(event.id,),
            max_attempts=None if max_retries is None else _attempts(max_retries),
        )
        keeper = self.app.keeper
        job = keeper.draft(replace(work.entry, policy=self._policy), work.payload, options)
        return self._claimed(replace(job, origin=event.origin()))

    def _claimed(self, job: Job) -> Job:
        now = self._clock.now()
        holder = self.app.keeper.holder
        return _transitions.claimed(job, holder=holder, now=now, lease_end=now, boot=None)

    def _adopt(self, entry: Entry) -> None:
        """Let this stream's app run a handler again that was registered on another one."""
        registry = self.app.keeper.registry
        with self._lock:
            if registry.get(entry.name) is not entry:
                registry.add(entry)

    def _run(self, event: StreamEvent, job: Job, work: Work) -> None:
        while True:
            execution = self._try(event, job, work)
            settlement = self._conclude(execution)
            match settlement.verdict:
                case Retry(delay):
                    job = self._wait(event, settlement, delay)
                case Completed(_, detail):
                    return self._succeeded(event, settlement, detail)
                case Dead():
                    return self._died(event, settlement, _exit_code(execution.error))
                case Release():
                    return None  # only Ctrl-C leads here, and that has gone on up
                case _:
                    assert_never(settlement.verdict)

    def _try(self, event: StreamEvent, job: Job, work: Work) -> Execution:
        execution = Execution(replace(work.entry, policy=self._policy), job, self._clock)
        try:
            with execution:
                execution.value = _finished(work.call())
        except KeyboardInterrupt:
            used = self._used(job, job.attempts - 1)
            self._say(
                events.line(event, "failed", self._clock.now(), retry=used, actions=["interrupted"])
            )
            raise
        return execution

    def _conclude(self, execution: Execution) -> Settlement:
        settlement = conclude(
            Claim(execution.job),
            execution.outcome,
            execution.entry,
            started=execution.started,
            duration=execution.duration,
            worker=worker_name(),
            now=self._clock.now(),
            rand=self._rand,
        )
        failure = settlement.attempt.failure if settlement.attempt else None
        self._tally.attempt(execution.duration, failure.category.value if failure else None)
        return settlement

    def _wait(self, event: StreamEvent, settlement: Settlement, delay: float) -> Job:
        """Tell of the failure, wait, and give the job claimed for its next try."""
        now, attempt = self._clock.now(), settlement.attempt
        failure = attempt.failure if attempt else None
        job = settlement.claim.job
        limit, number = self._limit(job), job.attempts
        told = events.line(
            event,
            "retrying",
            now,
            retry=events.waiting(number, limit, delay, now),
            attempt=attempt,
            actions=[events.planned(number, limit, delay)],
        )
        self._say(told)
        job = _transitions.settled(job, settlement.verdict, failure, now=now, group=None)
        job = _transitions.with_attempt(job, attempt) if attempt else job
        self._sleep(delay)
        self._tally.add("retries")
        return self._claimed(job)

    def _succeeded(self, event: StreamEvent, settlement: Settlement, detail: str) -> None:
        job = settlement.claim.job
        retried = job.attempts > 1
        self._tally.add("succeeded", *(["recovered"] if retried else []))
        told = events.line(
            event,
            "success",
            self._clock.now(),
            retry=self._used(job, job.attempts - 1),
            attempt=settlement.attempt,
            actions=[f"skipped: {detail}"] if detail else [],
            exit_code=0,
        )
        self._say(told)

    def _died(self, event: StreamEvent, settlement: Settlement, exit_code: int) -> None:
        """Keep the dead letter; where the store cannot, the stream file still tells of it."""
        job = settlement.claim.job
        try:
            kept = self.app.keeper.keep_failed(settlement, Options())
        except StoreError:
            log.exception("the dead letter of event %s could not be kept", event.id)
            self._tally.add("not_kept")
            told = events.line(
                event,
                "failed",
                self._clock.now(),
                retry=self._used(job, job.attempts - 1),
                attempt=settlement.attempt,
                actions=["the dead-letter store could not keep it; see the program's log"],
                exit_code=exit_code,
            )
            self._say(told)
            return
        self._tally.add("dead_lettered")
        history = (settlement.attempt,) if settlement.attempt else ()
        self._say(
            events.dead_line(replace(kept, history=history), self._limit(kept), exit_code=exit_code)
        )

    def _dead_line(self, job: Job) -> Line:
        whole = self.app.store.get(job.id) or job
        shown = redact.mask_payload(
            cast("dict[str, object]", events.dead_line(whole, self._limit(whole)))
        )
        return cast("Line", shown)

    def _can_pass(self, job: Job) -> bool:
        failure = job.failure
        return (
            failure is not None
            and not failure.final
            and not self._policy.rule(failure.category).dead
        )

    def _limit(self, job: Job) -> int:
        return self._policy.limited(job.max_attempts).ceiling

    def _used(self, job: Job, count: int) -> RetryInfo:
        return RetryInfo(count=count, max_retries=self._limit(job) - 1)

    def _say(self, line: Line) -> None:
        self._log.write(line)


def _open(path: str | os.PathLike[str], policy: Policy, clock: Clock | None, rand: Rand) -> Redrive:
    """Make the app of the dead letters; a file that is not a store is refused now, not at a death."""
    place = Path(path).expanduser()
    app = Redrive(f"jsonl:{place}", policy=policy, keep=policy.keep, clock=clock, rand=rand)
    if place.exists():
        _ = app.store
    return app


def _attempts(max_retries: int) -> int:
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
        msg = f"max_retries must be a whole number, 0 or more; found {max_retries!r}"
        raise UsageError(msg)
    return max_retries + 1


def _finished(value: object) -> object:
    """Refuse a coroutine: nobody would ever run it, and the event would pass for a success."""
    if inspect.iscoroutine(value):
        value.close()
        msg = "the action gave a coroutine, which nobody awaits here; give a function that is not async"
        raise GiveUp(msg)
    return value


def _exit_code(error: BaseException | None) -> int:
    code = error.code if isinstance(error, SystemExit) else None
    return code if isinstance(code, int) and code else 1
