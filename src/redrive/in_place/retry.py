"""Retrying in place: `@retry` for functions and `retrying` for blocks, with nothing stored.

Both take the policies of durable jobs. A call that succeeds costs no more than a `try`; what happens
to one that fails is in `calls`.
"""

from __future__ import annotations

import functools
import inspect
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, Unpack, cast, overload

from redrive.classify import classify
from redrive.errors import Skip, UsageError
from redrive.in_place import waiting
from redrive.in_place.calls import Call, Walk
from redrive.in_place.options import BlockOptions, Options, Plan, is_kind_of, plan
from redrive.jobs.checks import is_async
from redrive.jobs.job import Category, Completed, Dead, Failure, Reason, Retry
from redrive.jobs.outcomes import Failed, Interrupted, Outcome, Skipped
from redrive.policies.policy import Policy, category_named, check_policy, meant
from redrive.strategies import Rand

P = ParamSpec("P")
R = TypeVar("R")


@overload
def retry(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def retry(
    policy: Policy | None = None, **options: Unpack[Options]
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def retry(
    policy: Policy | Callable[..., Any] | None = None, **options: Unpack[Options]
) -> Callable[..., Any]:
    """Retry a function, plain or async, in place when it fails.

    Bare, it retries what is known to pass: transient errors, rate limits and timeouts, for a minute in
    all; every other error is raised at once. With `on` it retries the errors named there; with a policy
    it does what the policy says of jobs. The options:

    - `on`: a type of errors, a category, a function of the error, or a tuple of these.
    - `attempts` (the first included) and `max_age` (of all attempts together) win over the policy's.
    - `wait`: a strategy such as `exponential(0.1, cap=5)`, or a function that returns the seconds to
      wait after an error, or None for the usual wait.
    - `timeout`: the time of one attempt; only for async functions.
    - `on_result`: a function of the result; if it returns True, the call is tried again. At the end
      ResultRejected is raised.
    - `fallback`: the value to return when attempts or time are used up.
    - `on_retry`: a function of a `RetryEvent`, called when an attempt failed and another follows.
    - `sleep`, `rand` and `clock` (seconds that only grow), for tests and other event loops.

    When no attempt is left, the last error is raised, with a note. GiveUp and Skip are raised at once;
    RetryLater sets the delay. Ctrl-C, a cancelled task and SystemExit are never delayed. What a function
    among the options raises is raised.
    """
    if policy is not None and not isinstance(policy, Policy):
        _check_function(policy)
        return retry()(policy)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        _check_function(function)
        name = str(getattr(function, "__qualname__", None) or type(function).__qualname__)
        chosen = plan(name, policy, options)
        if is_async(function):
            return _async(function, chosen)
        _check_sleep(chosen)
        if chosen.timeout is not None:
            msg = f"timeout needs an async function; {name} is not: set the timeout of its client"
            raise UsageError(msg)
        return _plain(function, chosen)

    plan("", policy, options)  # a wrong option is refused where it stands
    return decorate


def retrying(policy: Policy | None = None, **options: Unpack[BlockOptions]) -> Block:
    """Retry a block of code in place when it fails, with the options of `@retry`.

        for attempt in retrying(on=ConnectionError, attempts=3):
            with attempt:
                ...

    In async code write `async for`. The loop ends after the first attempt that succeeds. When no
    attempt is left, the last error is raised. `attempt.number` counts from 1.
    """
    if _names_errors(policy):
        raise UsageError(f"errors are named by on=: write retrying(on={meant(policy)})")
    if policy is not None:
        check_policy(policy)
    if misplaced := sorted({"timeout", "on_result", "fallback"} & options.keys()):
        raise UsageError(f"{misplaced[0]} is an option for functions; a block has none")
    caller = sys._getframe(1).f_code.co_qualname  # noqa: SLF001 - documented, and holds no frame
    return Block(plan(caller, policy, options))


class Block:
    """What `retrying` returns: each loop over it is one call."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __iter__(self) -> _Attempts:
        _check_sleep(self._plan)
        return _Attempts(self._plan)

    def __aiter__(self) -> _Attempts:
        return _Attempts(self._plan)


class _Attempts:
    """The attempts of one loop, plain or async."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._call = Call(plan, plan.start_clock())
        self._attempt: RetryAttempt | None = None

    def __iter__(self) -> _Attempts:
        return self

    def __aiter__(self) -> _Attempts:
        return self

    def __next__(self) -> RetryAttempt:
        if self._attempt is not None:
            if not self._attempt.has_failed():
                raise StopIteration
            _sleep(self._plan, self._call)
        return self._begin()

    async def __anext__(self) -> RetryAttempt:
        if self._attempt is not None:
            if not self._attempt.has_failed():
                raise StopAsyncIteration
            await _sleep_async(self._plan, self._call)
        return self._begin()

    def _begin(self) -> RetryAttempt:
        self._attempt = RetryAttempt(self._call)
        return self._attempt


class RetryAttempt:
    """One attempt of a block: `with attempt:` catches its error if another attempt follows."""

    def __init__(self, call: Call) -> None:
        self.number = call.attempts + 1
        """The number of the attempt, from 1."""
        self._call = call
        self._has_failed: bool | None = None

    def __repr__(self) -> str:
        return f"<RetryAttempt {self.number}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._has_failed = isinstance(error, Exception) and self._call.goes_on(error)
        return self._has_failed

    def has_failed(self) -> bool:
        """Return True if another attempt follows."""
        if self._has_failed is None:
            raise UsageError("the body of `for attempt in retrying(…):` must be in `with attempt:`")
        return self._has_failed


def _plain(function: Callable[P, R], plan: Plan) -> Callable[P, R]:
    start_clock = plan.start_clock
    attempt = function if plan.on_result is None else _judged(function, plan)

    @functools.wraps(function)
    def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        began = start_clock()
        call = None
        while True:
            try:
                return attempt(*args, **kwargs)
            except Exception as error:
                call = call or Call(plan, began)
                if not call.goes_on(error):
                    if call.falls_back:
                        return cast("R", plan.fallback)
                    raise
            _sleep(plan, call)  # not in `except`: the next error must not hang on this one

    return retried


def _async(function: Callable[P, Awaitable[R]], plan: Plan) -> Callable[P, Awaitable[R]]:
    start_clock = plan.start_clock
    is_plain = plan.on_result is None and plan.timeout is None
    attempt: Callable[..., Awaitable[R]] = function if is_plain else _judged_async(function, plan)

    @functools.wraps(function)
    async def retried(*args: P.args, **kwargs: P.kwargs) -> R:
        began = start_clock()
        call = None
        while True:
            try:
                # An empty dict would be copied, a tenth of what a success costs.
                return await (attempt(*args, **kwargs) if kwargs else attempt(*args))
            except Exception as error:
                call = call or Call(plan, began)
                if not call.goes_on(error):
                    if call.falls_back:
                        return cast("R", plan.fallback)
                    raise
            await _sleep_async(plan, call)

    return retried


def _judged(function: Callable[P, R], plan: Plan) -> Callable[P, R]:
    def judged(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        plan.check_result(result)
        return result

    return judged


def _judged_async(function: Callable[P, Awaitable[R]], plan: Plan) -> Callable[P, Awaitable[R]]:
    async def judged(*args: P.args, **kwargs: P.kwargs) -> R:
        call = functools.partial(function, *args, **kwargs)
        limit = plan.timeout
        result = await (call() if limit is None else waiting.limited(call, limit, plan.name))
        plan.check_result(result)
        return result

    return judged


def _sleep(plan: Plan, call: Call) -> None:
    if call.delay > 0:
        (plan.sleep or waiting.wait)(call.delay)


async def _sleep_async(plan: Plan, call: Call) -> None:
    slept = (plan.sleep or waiting.wait_async)(call.delay)  # also for 0 s: others get their turn
    if inspect.isawaitable(slept):
        await slept


def _check_function(function: object) -> None:
    """Raise UsageError, with the right spelling, for what cannot be called again as a whole."""
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if isinstance(function, staticmethod | classmethod):
        msg = "put @retry below @staticmethod or @classmethod, next to the function"
    elif _names_errors(function):
        msg = f"errors are named by on=: write @retry(on={meant(function)})"
    elif isinstance(function, type):
        msg = f"{name} is a class; use @retry on its methods"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        msg = f"{name} is a generator; use @retry on a function that returns its items at once"
    elif not callable(function):
        msg = f"@retry needs a function, or options such as attempts=3; found {function!r}"
    else:
        return
    raise UsageError(msg)


def _names_errors(value: object) -> bool:
    """Return True for what belongs under `on`: a type of errors, an error, or several of them."""
    is_several = isinstance(value, BaseException | list | tuple | set | str)
    return is_kind_of(value, BaseException) or is_several


def _check_sleep(plan: Plan) -> None:
    if is_async(plan.sleep):
        raise UsageError(f"{plan.name} is not async; sleep must be plain too; found {plan.sleep!r}")


@dataclass(frozen=True, slots=True)
class Simulation:
    """The result of a simulation: the delays between the failures, and the end, if there is one."""

    delays: tuple[float, ...]
    """Seconds. If the call has not ended, the last delay is the one after the last failure."""
    reason: Reason | None
    """Why it is dead (or completed, by Skip); None while there is another attempt."""
    detail: str = ""


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
    if isinstance(failures, str):
        raise UsageError(f"failures must be a list; found {failures!r}")
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
            return Failed(Failure(category=category_named(what), why=what))
        case BaseException():
            return _outcome_of(what, policy, now)
        case _:
            raise UsageError(f"a failure is an error, a category or a Failure; found {what!r}")
