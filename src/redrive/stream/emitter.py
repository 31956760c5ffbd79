"""`ResilientEventStream`: emits events whose actions may fail.

An action runs in the caller's thread and is retried there (`walk`). What cannot succeed becomes a
dead letter in an ordinary store, so that every command works on it.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

from redrive import _json, presets, redact
from redrive._clock import Clock
from redrive.app import Redrive
from redrive.errors import UsageError
from redrive.handler import Handler
from redrive.job import Job, State
from redrive.policy import Policy
from redrive.strategy import Rand, RetryStrategy, exponential
from redrive.stream.event import EventIds, Line, StreamEvent, dead_line, tags_of
from redrive.stream.log import EventLog
from redrive.stream.tally import Tally
from redrive.stream.walk import Means, Walk
from redrive.stream.work import Action, work_of
from redrive.worker.registry import Entry

STREAM = "logs/event_stream.jsonl"
DEAD_LETTERS = "logs/dead_letter_queue.jsonl"

_PAGE = 500


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
        if app is not None and (dead_letter_path is not None or clock is not None):
            msg = "an app brings its own store and clock; give app, or dead_letter_path and clock"
            raise UsageError(msg)
        self._usual = exponential(1, base=retry_backoff_base, cap=300, jitter=0.2)
        self._policy = replace(presets.EVENTS, attempts=_attempts(max_retries))
        self.retry_strategy = retry_strategy
        self.app = app or _open(dead_letter_path or DEAD_LETTERS, self._policy, clock, rand)
        self._means = Means(
            keeper=self.app.keeper,
            log=EventLog(stream_path or STREAM),
            tally=Tally(enabled=enable_metrics),
            policy=lambda: self._policy,
            sleep=sleep,
            rand=rand,
        )
        self._ids = EventIds()
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
        limit = self.app.keeper.settings.payload_limit
        work = work_of(action, {} if data is None else data, event_type, limit)
        event = StreamEvent(
            id=self._ids.make(self._means.now()),
            type=event_type,
            source=source,
            data=_json.loads(work.payload),
            parent=parent_event_id,
            tags=tags_of(tags),
            importance=importance,
        )
        total = None if max_retries is None else _attempts(max_retries)
        walk = Walk(self._means, event, work, total)
        if isinstance(action, Handler):
            self._adopt(work.entry)
        walk.run()
        return event.id

    def get_failed_events(self, limit: int = 100) -> list[Line]:
        """Give the events whose last try failed and that are not dead letters, newest first."""
        failed: dict[str, Line] = {}
        for found in self._means.log.lines():
            failed.pop(found["event_id"], None)
            if found.get("status") in {"failed", "retrying"}:
                failed[found["event_id"]] = cast("Line", found)
        return list(reversed(failed.values()))[: max(0, limit)]

    def get_dead_letter_queue(self, limit: int = 100) -> list[Line]:
        """Give the dead letters, newest first; each line's `job_id` is what commands take."""
        if limit < 1:
            return []
        dead = self.app.find(state=State.DEAD, by_change=True, limit=limit).jobs
        return [self._shown(job) for job in dead]

    def get_retry_candidates(self) -> list[Line]:
        """Give the dead letters whose kind of error can pass: worth another try, newest first."""
        found: list[Line] = []
        cursor: str | None = None
        while True:
            page = self.app.find(state=State.DEAD, by_change=True, limit=_PAGE, cursor=cursor)
            found += [self._shown(job) for job in page.jobs if self._can_pass(job)]
            cursor = page.cursor
            if cursor is None:
                return found

    def get_metrics(self) -> Mapping[str, object]:
        """Give the numbers since this object was made; empty with `enable_metrics=False`."""
        return self._means.tally.snapshot()

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
        return f"ResilientEventStream({str(self._means.log.place)!r}, {self.app!r})"

    def _adopt(self, entry: Entry) -> None:
        """Let this stream's app run a handler again that was registered on another one."""
        registry = self.app.keeper.registry
        with self._lock:
            if registry.get(entry.name) is not entry:
                registry.add(entry)

    def _shown(self, job: Job) -> Line:
        whole = self.app.store.get(job.id) or job
        told = dead_line(whole, self._means.limit(whole))
        return cast("Line", redact.mask_payload(cast("dict[str, Any]", told)))

    def _can_pass(self, job: Job) -> bool:
        failure = job.failure
        hopeless = failure is None or failure.final or self._policy.rule(failure.category).dead
        return not hopeless


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
