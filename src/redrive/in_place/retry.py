"""Retrying in place: the policies of durable jobs for a plain call, with nothing stored.

Nothing here decides. A call that fails becomes a job in memory, which is handled like any other:
`classify`, `decide`, `jobs.transitions`. A call that succeeds costs no more than a `try`.
"""

from __future__ import annotations

import functools
import inspect
import random
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ParamSpec, TypeVar, overload

from redrive.classify import classify
from redrive.errors import Skip, UsageError
from redrive.jobs import durations, logger, transitions
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Completed, Dead, Failure, Job, Reason, Retry, Verdict
from redrive.jobs.outcomes import Failed, Interrupted, Outcome, Skipped
from redrive.policies import decide
from redrive.policies.policy import Policy, _category, check_policy
from redrive.strategies import Rand

log = logger.log.getChild("retry")

P = ParamSpec("P")
R = TypeVar("R")

IN_PLACE = Policy(max_age="1m")
"""The default policy: the table of categories, and a minute in all."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation: the delays between the failures, and the end, if there is one."""

    delays: tuple[float, ...]
    """Seconds. If the call has not ended, the last delay is the one after the last failure."""
    reason: Reason | None
    """Why it is dead (or completed, by Skip); None while there is another attempt."""
    detail: str = ""


class Walk:
    """The failures of one call: a job that is not stored."""

    def __init__(self, policy: Policy, began: float, rand: Rand, name: str = "") -> None:
        self.policy = policy
        self.rand = rand
        self.job = Job(
            id="",
            handler=name,
            lane=name,
            payload="{}",
            created=began,
            due=began,
            since=began,
            updated=began,
        )

    def after(self, outcome: Outcome, now: float) -> Verdict:
        """Count an attempt with this outcome, and return what happens to the call."""
        job = transitions.claimed(self.job, holder="", now=now, lease_end=now, boot=None)
        verdict = decide.decide(job, outcome, self.policy, now, self.rand)
        failure = outcome.failure if isinstance(outcome, Failed) else None
        self.job = transitions.settled(job, verdict, failure, now=now, group=None)
        return verdict

    def wait(self, error: Exception, now: float) -> float | None:
        """Return how long to wait after an error; None, with the reason logged, if retrying is pointless."""
        outcome = _outcome_of(error, self.policy, time.time())
        verdict = self.after(outcome, now)
        failure = outcome.failure if isinstance(outcome, Failed) else None
        if failure is None or not isinstance(verdict, Retry | Dead):
            return None  # Skip: there is no value to give, so it goes on up
        if isinstance(verdict, Dead):
            _add_note(error, self._last_words(verdict, failure))
            return None
        log.info(
            "%s failed, attempt %d, %s (%s); next attempt in %s",
            self.job.handler,
            self.job.attempts,
            failure.category,
            failure.why,
            durations.words(verdict.delay),
        )
        return verdict.delay

    def _last_words(self, verdict: Dead, failure: Failure) -> str:
        tries = "1 attempt" if self.job.attempts == 1 else f"{self.job.attempts} attempts"
        why = verdict.detail if verdict.reason is Reason.EXPIRED else failure.why
        return f"redrive: given up after {tries}, {verdict.reason}: {why}"


@overload
def retry(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    policy: Policy | None = None,
    *,
    attempts: int | None = None,
    max_age: Duration | None = None,
    sleep: Callable[[float], object] | None = None,
    rand: Rand = random.random,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def retry(
    policy: Policy | Callable[..., Any] | None = None,
    *,
    attempts: int | None = None,
    max_age: Duration | None = None,
    sleep: Callable[[float], object] | None = None,
    rand: Rand = random.random,
    clock: Callable[[], float] = time.monotonic,
) -> Callable[..., Any]:
    """Retry a function, plain or async, in place when it fails, by a policy.

    `@retry`, `@retry(policy)` or `@retry(attempts=3, max_age="30s")`; `attempts` and `max_age` (for
    all attempts together) override the policy's. Without a policy the table of categories applies,
    for a minute in all. When the policy gives up, the last error is raised, with a note. GiveUp and
    Skip are raised at once; RetryLater sets the delay. Ctrl-C, a cancelled task and SystemExit are
    never delayed. `sleep`, `rand` and `clock` (seconds that only grow) are for tests
    and for other event loops; an async function's `sleep` may be async.
    """
    if policy is not None and not isinstance(policy, Policy):
        _check(callable(policy), "retry() takes a Policy, or attempts=3", policy)
        return retry()(policy)
    chosen = (policy or IN_PLACE).limited(attempts)
    if max_age is not None:
        chosen = replace(chosen, max_age=max_age)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = _name_of(function)
        begin = functools.partial(Walk, chosen, rand=rand, name=name)
        timed = clock if chosen.oldest is not None else None
        if _is_async(function):
            return _async(function, begin, timed, clock, sleep or _asleep)
        _check(not _is_async(sleep), f"{name} is not async; sleep must be plain too", sleep)
        return _plain(function, begin, timed, clock, sleep or time.sleep)

    return decorate


def simulate(
    policy: Policy,
    failures: Iterable[BaseException | Category | str | Failure],
    *,
    rand: Rand = random.random,
) -> Simulation:
    """Return what a policy would do about failures, one after the other, without waiting.

    Failures are errors, categories or Failure records, and take no time themselves. The list may be
    endless, such as `itertools.repeat("transient")`.

    >>> from redrive.policies.presets import WEBHOOKS
    >>> simulate(WEBHOOKS, ["transient"] * 9, rand=lambda: 0.5)
    Simulation(delays=(60.0, 120.0, 240.0, 480.0), reason=<Reason.EXHAUSTED: 'exhausted'>, detail='5 attempts, last: transient')
    """
    check_policy(policy)
    _check(not isinstance(failures, str), "failures must be a list", failures)
    walk, started = Walk(policy, 0.0, rand), time.time()
    delays: list[float] = []
    for failure in failures:
        now = walk.job.due
        verdict = walk.after(_simulated(failure, policy, started + now), now)
        if isinstance(verdict, Dead | Completed):
            return Simulation(tuple(delays), verdict.reason, verdict.detail)
        if isinstance(verdict, Retry):
            delays.append(verdict.delay)
    return Simulation(tuple(delays), None)


def _plain(
    function: Callable[P, R],
    begin: Callable[[float], Walk],
    timed: Callable[[], float] | None,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Callable[P, R]:
    @functools.wraps(function)
    def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        began = timed() if timed else 0.0
        walk = None
        while True:
            try:
                return function(*args, **kwargs)
            except Exception as error:
                walk = walk or begin(began)
                delay = walk.wait(error, clock())
                if delay is None:
                    raise
            if delay > 0:  # out of the `except`, so that the next error does not hang on this one
                sleep(delay)

    return retried


def _async(
    function: Callable[P, Awaitable[R]],
    begin: Callable[[float], Walk],
    timed: Callable[[], float] | None,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
) -> Callable[P, Awaitable[R]]:
    @functools.wraps(function)
    async def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        began = timed() if timed else 0.0
        walk = None
        while True:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                walk = walk or begin(began)
                delay = walk.wait(error, clock())
                if delay is None:
                    raise
            slept = sleep(delay)  # also for no time at all: others get their turn
            if inspect.isawaitable(slept):
                await slept

    return retried


async def _asleep(delay: float) -> None:
    import asyncio  # noqa: PLC0415 - code that awaits this has imported it

    await asyncio.sleep(delay)


def _outcome_of(error: BaseException, policy: Policy, now: float) -> Outcome:
    """Return how an attempt ended, by the type itself: isinstance() asks the error, which may lie."""
    if issubclass(type(error), Skip):
        return Skipped("")
    if issubclass(type(error), KeyboardInterrupt):
        return Interrupted()
    return Failed(classify(error, rules=policy.on, now=now))


def _simulated(
    what: BaseException | Category | str | Failure, policy: Policy, now: float
) -> Outcome:
    match what:
        case Failure():
            return Failed(what)
        case str():
            return Failed(Failure(category=_category(what), why=what))
        case BaseException():
            return _outcome_of(what, policy, now)
        case _:
            msg = f"a failure is an error, a category or a Failure; found {what!r}"
            raise UsageError(msg)


def _name_of(function: Callable[..., Any]) -> str:
    """Name a function for people; refuse what could not be called again as a whole."""
    if isinstance(function, staticmethod | classmethod):
        msg = "put @retry below @staticmethod or @classmethod, next to the function"
        raise UsageError(msg)
    _check(callable(function), "retry() needs a function", function)
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"{name} is a generator; generators are not supported: use @retry on a function that it calls"
        raise UsageError(msg)
    return str(name)


def _is_async(function: object) -> bool:
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _add_note(error: Exception, text: str) -> None:
    """Add a note once: an error may be raised again and again, and may refuse notes."""
    with suppress(Exception):
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)


def _check(is_right: object, wanted: str, value: object) -> None:
    if not is_right:
        msg = f"{wanted}; found {value!r}"
        raise UsageError(msg)
