"""One execution of a handler: the only try/except around the user's code.

An `Execution` is a context manager, so that sync and async callers share it: whatever happens inside
becomes an `Outcome`. It neither writes nor decides. `conclude` makes a settlement of the outcome.
"""

from __future__ import annotations

import inspect
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self, cast

from redrive import context
from redrive.classify import classify, fingerprint
from redrive.classify.clues import members
from redrive.classify.rules import has_rule
from redrive.errors import AllProvidersFailed, BadPayload, GiveUp, RetryLater, Skip
from redrive.jobs.clock import Clock
from redrive.jobs.interrupts import may_be_ctrl_c
from redrive.jobs.job import Category, Failure, Job
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Done, Failed, Interrupted, Outcome, Returned, Skipped
from redrive.jobs.records import altered
from redrive.payloads import masking
from redrive.registry import Entry
from redrive.stores.contract import Store

_DONE, _INTERRUPTED = Done(), Interrupted()
_DEEPEST = 10  # how far causes and groups are followed; an error may be its own cause
DEPLOY = 300.0  # seconds until a job is tried again whose arguments may be of another release
ENDLESS = 60.0  # seconds until a job is tried again whose providers are all paused without an end
BLOCKED = 10.0
"""Seconds for which an async handler may let nothing else run on its event loop, and for which a
plain one without a time limit may let nothing else run in its child."""


class Execution(AbstractContextManager["Execution"]):
    """Runs the user's code inside `with`; afterwards `outcome` is set.

    with Execution(entry, job, clock) as execution:
        execution.value = entry.function(**execution.arguments)
    """

    value: Any = None
    outcome: Outcome = _INTERRUPTED
    error: BaseException | None = None
    timed_out = False
    _is_unfit = False
    """True if the stored arguments do not fit the handler, as those of another release may."""
    cancelled = False
    """True if it was cancelled from outside, which says nothing about the job."""
    duration = 0.0

    def __init__(
        self,
        entry: Entry,
        job: Job,
        clock: Clock,
        store: Callable[[], Store] | None = None,
        *,
        hurried: bool = False,
    ) -> None:
        self.entry = entry
        self.job = job
        self.clock = clock
        self._pid = os.getpid()
        self.started = started = clock.now()
        limit = entry.timeout
        deadline = None if limit is None else started + limit
        self.context = context.Current(entry.name, job, deadline, hurried, store, entry.policy.on)

    @property
    def arguments(self) -> dict[str, object]:
        """The stored payload as the handler's keyword arguments."""
        try:
            return self.entry.arguments.load(self.job.payload)
        except BadPayload:
            self._is_unfit = True
            raise

    def __enter__(self) -> Self:
        self._token = context.enter(self.context)
        self._began = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self.duration = time.perf_counter() - self._began
        context.leave(self._token)
        if error is None and not self.cancelled:
            self.outcome = self._success()
            return True
        self.error = error
        stopped = self.cancelled or _is(error, KeyboardInterrupt)
        self.outcome = _INTERRUPTED if stopped else self._outcome_of(error)
        # Stopping is meant for the program, not the job: raise it; the caller returns the claim.
        return not stopped

    def fail(self, error: BaseException, *, captured: bool = False) -> None:
        """Take an error that was caught elsewhere as the end of this execution."""
        self.error = error
        try:
            self.outcome = self._outcome_of(error)
        except KeyboardInterrupt as unreadable:  # raised by the error's own code
            self.outcome = self._unjudged(error, unreadable)
        if captured and isinstance(self.outcome, Failed | Returned):
            failure = failure_of(error, self.entry, self.job, self.clock)
            self.outcome = Failed(failure, captured=True, provider=self.context.provider)

    def end_copy(self) -> None:
        """End this process if it is a fork that the handler made: only its parent's result counts."""
        if os.getpid() != self._pid:
            os._exit(0)

    def _success(self) -> Outcome:
        provider = self.context.provider
        return _DONE if provider is None else Done(provider)

    def _outcome_of(self, error: BaseException | None) -> Outcome:
        """Classify the end; an error that cannot be classified is a failure too, never a lost job."""
        if error is None:
            return self._success()
        try:
            return self._judged(error)
        except BaseException as bug:  # an error from here would end the worker
            if may_be_ctrl_c(bug):
                raise
            return self._unjudged(error, bug)

    def _unjudged(self, error: BaseException, bug: BaseException) -> Failed:
        kind, ours = masking.type_name(error), masking.type_name(bug)
        # Without the traceback: it would show the error's own text, unmasked.
        log.error("job %s: its %s could not be classified: %s", self.job.id, kind, ours)
        why = f"could not be classified: {ours}"
        failure = text_failure(Category.UNKNOWN, kind, why, self.entry.first_name)
        return Failed(failure, provider=self.context.provider)

    def _judged(self, error: BaseException) -> Outcome:
        provider = self.context.provider
        if _is(error, Skip):
            return Skipped(self._text(error), provider)
        if missing := self._missing(error):
            return Returned(f"{self.entry.name} cannot run here: {missing}", missing=missing)
        if unasked := self._unasked(error):
            waits = [error.cooldown_time or ENDLESS for error in unasked]
            return Returned(self._text(unasked[0]), max(waits))
        category = Category.TIMEOUT if self.timed_out else None
        failure = failure_of(error, self.entry, self.job, self.clock, category)
        if self._is_unfit and _is(error, BadPayload):
            failure = altered(
                failure, category=Category.UNKNOWN, hint=DEPLOY, hint_source="Redrive"
            )
        return Failed(failure, provider=provider)

    def _missing(self, error: BaseException, depth: int = _DEEPEST) -> str:
        """Return the import error that the handler ended with; empty if the user has a rule for it.

        A missing library is a mistake in the program, which a retry does not fix.
        """
        if type(error) is AllProvidersFailed:
            return error.missing
        if inner := members(error) if depth else ():
            missing = [self._missing(member, depth - 1) for member in inner]
            return missing[0] if all(missing) else ""
        if not _is(error, ImportError) or has_rule(error, self.entry.policy.on):
            return ""
        return self._text(error) or "ImportError"

    def _unasked(self, error: BaseException, depth: int = _DEEPEST) -> list[AllProvidersFailed]:
        """Return the errors of fallbacks that called no provider, if there are no other errors.

        A handler may raise its own error from one of them, and a task group holds several.
        """
        if type(error) is AllProvidersFailed:
            return [] if error.was_asked else [error]
        cause = error.__cause__
        nearest = members(error) or (() if cause is None else (cause,))
        nested = [self._unasked(member, depth - 1) for member in nearest] if depth else []
        is_explicit = _is(error, GiveUp) or _is(error, RetryLater)
        if not nested or not all(nested) or is_explicit or has_rule(error, self.entry.policy.on):
            return []
        return [unasked for errors in nested for unasked in errors]

    def _text(self, error: BaseException) -> str:
        return masking.error_text(error, masking.secrets_of(self.job.payload), limit=500)


def _is(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return True if the type is of that kind; isinstance() calls the error, which may raise or lie."""
    return issubclass(type(error), kind)


def finished(result: object) -> object:
    """Return a plain function's result; raise GiveUp for a coroutine or generator."""
    if result is None:
        return None
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        raise GiveUp(
            f"the handler returned a {type(result).__name__}, which was not awaited; "
            "write the handler as async def"
        )
    return result


async def awaited(execution: Execution, result: object) -> object:
    """Await the result of an async handler, under its time limit."""
    import asyncio  # noqa: PLC0415 - a third of the import time, and many programs have no use for it

    limit = asyncio.timeout(execution.entry.timeout)
    try:
        async with limit:
            return await cast("Awaitable[object]", result)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        execution.cancelled = task is not None and task.cancelling() > 0
        raise
    finally:
        execution.timed_out = limit.expired()


async def called(execution: Execution) -> object:
    """Call an async handler on a loop where nobody but the handler itself cancels anything."""
    try:
        result = execution.entry.function(**execution.arguments)
        return await awaited(execution, result)
    finally:
        execution.cancelled = False


def failure_of(
    error: BaseException, entry: Entry, job: Job, clock: Clock, category: Category | None = None
) -> Failure:
    """Classify an error; secrets of the job's payload are masked in all text."""
    if category is None and _is(error, BadPayload):
        category = Category.INVALID
    failure = classify(
        error,
        rules=entry.policy.on,
        secrets=masking.secrets_of(job.payload),
        now=clock.now(),
        handler=entry.first_name,
        category=category,
    )
    if category is Category.TIMEOUT:
        why = f"ran past its time limit of {entry.timeout:g} s"
        return altered(failure, why=why, message=failure.message or why)  # asyncio's has none
    return altered(failure, why=failure.message) if category is Category.INVALID else failure


def worker_name() -> str:
    """Return the host and process id, for people."""
    return f"{socket.gethostname()}:{os.getpid()}"


def crash(why: str) -> Failed:
    """Return the outcome of an attempt whose end was not seen: the worker vanished or was killed."""
    return Failed(text_failure(Category.CRASH, "Crash", why))


def blocked(trace: str) -> Failed:
    """Return the outcome of an async handler that let nothing else run on its event loop."""
    why = f"blocked its event loop for over {BLOCKED:g} s"
    hint = "; call blocking code in a plain handler or with asyncio.to_thread()"
    failure = text_failure(Category.CRASH, "BlockedLoop", why)
    return Failed(altered(failure, message=why + hint, traceback=trace))


def broke_loop(execution: Execution, error: BaseException) -> Failed:
    """Return the outcome of an async handler whose error harmed the event loop or jobs beside it."""
    execution.fail(error)
    outcome = execution.outcome
    if not isinstance(outcome, Failed):
        return crash("broke the event loop that it shared")
    why = f"broke the event loop that it shared: {outcome.failure.why}"
    failure = failure_of(error, execution.entry, execution.job, execution.clock, Category.CRASH)
    return Failed(altered(failure, why=why), provider=outcome.provider)


def late(entry: Entry) -> Failure:
    """Return the failure of a handler that ran past its limit and could not be asked where it was."""
    why = f"ran past its time limit of {entry.timeout:g} s"
    return text_failure(Category.TIMEOUT, "TimeoutError", why, entry.first_name)


def text_failure(
    category: Category, kind: str, why: str, handler: str = "", *, final: bool = False
) -> Failure:
    """Return a failure without an exception."""
    outside = category in fingerprint.OUTSIDE
    cause = fingerprint.of_text(kind, why, handler=handler, outside=outside)
    return Failure(
        category=category, why=why, type=kind, message=why, final=final, **cause._asdict()
    )
