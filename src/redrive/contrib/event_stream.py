"""A resilient event stream: actions retried in place, a log of what happened, dead letters kept.

The stream file is a log, one JSON line a change; the dead-letter file is an ordinary store, so that
every command works on it. Nothing here decides about a failure: an event is handled like any job
(`Execution`, `conclude`). From its first failure on it is a job in the store: pending while it waits
for its retry, under a lease while it runs. So commands see it, and a killed program loses none.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Self

from redrive.app import Redrive
from redrive.contrib.event_log import (
    EventLog,
    EventStatus,
    Line,
    event_line,
    new_event_id,
    payload_of,
    plain,
)
from redrive.contrib.event_retries import Action, EventRetries, name_of, run_action
from redrive.errors import UsageError
from redrive.events import Event
from redrive.handler import Handler
from redrive.jobs.clock import Clock
from redrive.jobs.job import Category, Job, State
from redrive.payloads import masking
from redrive.policies import presets
from redrive.registry import Entry, fitted_name
from redrive.strategies import Rand, RetryStrategy, exponential
from redrive.submission import Options

__all__ = ["EventStatus", "ResilientEventStream", "get_resilient_stream"]

_LONGEST = 500  # characters of a type, a source, a tag; what is longer is cut
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
        self._retries = EventRetries(self.app, self._tell, sleep, lambda: self._policy)
        self._lock = threading.Lock()
        self._has_metrics = enable_metrics
        self._counts: Counter[str] = Counter()
        self._categories: Counter[str] = Counter()
        self._here: set[str] = set()  # the jobs of the events that are being retried by this object
        self.app.listen(self._heard)
        self._retries.end_killed()
        self._retries.remove_recovered()

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
        is_limit = timeout_seconds is None or timeout_seconds > 0
        _check(is_limit, "timeout_seconds must be above 0", timeout_seconds)
        entry = self._entry(action, event_type)
        entry = entry if timeout_seconds is None else replace(entry, timeout=timeout_seconds)
        is_plain = not isinstance(action, Handler)
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
            function=name_of(action) if is_plain else None,
        )
        self._tell(job)
        with self._lock:
            self._here.add(job.id)
        try:
            self._retries.walk(
                job, entry, lambda execution: run_action(execution, action, misfit), data is None
            )
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
        told = {name: plain(value) for name, value in given.items() if value is not None}
        is_dead = status == EventStatus.DEAD_LETTER and self._retries.keep_dead(
            job, error_info or {}
        )
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
        payload, misfit = payload_of(entry, data, submitter.settings.payload_limit)
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
            return Entry.unregistered(fitted_name(event_type))
        _check(
            action.chosen == Options(), "an event cannot use the options of a handler", action.name
        )
        registry = self.app.submitter.registry
        with self._lock:
            if registry.get(action.name) is not action.entry:
                registry.add(action.entry)
        return action.entry

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


@cache
def get_resilient_stream() -> ResilientEventStream:
    """Return the stream of this program, with the default files: the same object each time."""
    return ResilientEventStream()


def _check(is_right: object, wanted: str, value: object) -> None:
    if not is_right:
        raise UsageError(f"{wanted}; found {masking.safe_text(value, 200)!r}")
