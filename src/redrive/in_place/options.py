"""The options of `@retry` and `retrying`, checked and put together with the policy."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypedDict, cast

from redrive.errors import AttemptTimeout, ResultRejected, RetryLater, UsageError
from redrive.jobs import durations
from redrive.jobs.checks import is_async, is_plain_function
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Failure
from redrive.policies.policy import Policy, category_named, meant
from redrive.strategies import Rand, RetryStrategy

IN_PLACE = Policy(max_age="1m")
"""The policy where none is given: the table of categories, and a minute in all."""
PASSING = (Category.TRANSIENT, Category.RATE_LIMIT, Category.TIMEOUT)
"""The categories that are retried where neither `on` nor a policy is given."""
_ALWAYS = (RetryLater, ResultRejected, AttemptTimeout)
"""Errors that ask for another attempt, whatever `on` names."""
MISSING: Any = object()

Test: TypeAlias = Callable[[Any], object]
ErrorType: TypeAlias = type[Exception] | Category | str | Test
On: TypeAlias = ErrorType | tuple[ErrorType, ...]
Wait: TypeAlias = RetryStrategy | Callable[[Any], Duration | None]


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """A failed attempt that is followed by another, as `on_retry` gets it."""

    name: str
    """The function's name; for a block, the name of the function that it stands in."""
    attempt: int
    """The number of the failed attempt, from 1."""
    waited: float
    """Seconds of all waits before this attempt."""
    error: Exception
    failure: Failure
    """What the error means: its category, and why."""
    wait: float
    """Seconds until the next attempt."""


Hook: TypeAlias = Callable[[RetryEvent], object]


class BlockOptions(TypedDict, total=False):
    """The options of `retrying`, and of `@retry`."""

    on: On | None
    attempts: int | None
    max_age: Duration | None
    wait: Wait | None
    on_retry: Hook | None
    sleep: Callable[[float], object] | None
    rand: Rand
    clock: Callable[[], float]


class Options(BlockOptions, total=False):
    """The options of `@retry`."""

    timeout: Duration | None
    on_result: Test | None
    fallback: Any


@dataclass(frozen=True, slots=True)
class Condition:
    """What `on` names: types of errors, tests and categories."""

    types: tuple[type[Exception], ...] = ()
    tests: tuple[Test, ...] = ()
    categories: tuple[Category, ...] = ()

    def names(self, error: Exception) -> bool:
        """Return True if an error is named by its type or a test; a test that raises is raised."""
        # By the type itself: isinstance() asks the error, which may lie.
        is_typed = issubclass(type(error), (*_ALWAYS, *self.types))
        return is_typed or any(test(error) for test in self.tests)


def condition(on: object) -> Condition:
    """Check and sort what `on` names."""
    types, tests, categories = list[type[Exception]](), list[Test](), list[Category]()
    is_tuple = issubclass(type(on), tuple) and on != ()
    for item in cast("tuple[Any, ...]", on if is_tuple else (on,)):
        if is_kind_of(item, Exception):
            types.append(item)
        elif isinstance(item, str):
            categories.append(category_named(item))
        elif is_plain_function(item):
            tests.append(item)
        else:
            raise UsageError(
                "on takes a subclass of Exception, a category, a plain function of the error, or a tuple"
                f" of these, such as on={meant(on)}; found {on!r}"
            )
    return Condition(tuple(types), tuple(tests), tuple(categories))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The checked options of one `@retry` or `retrying`."""

    name: str
    policy: Policy
    on: Condition | None
    """None if the policy decides about every error."""
    wait: Callable[[Any], Duration | None] | None = None
    on_retry: Hook | None = None
    on_result: Test | None = None
    timeout: float | None = None
    fallback: Any = MISSING
    sleep: Callable[[float], object] | None = None
    rand: Rand = random.random
    clock: Callable[[], float] = time.monotonic

    @property
    def start_clock(self) -> Callable[[], float]:
        """The clock for the start of a call; without `max_age` it need not be read."""
        return float if self.policy.oldest is None else self.clock  # float() is 0.0, at no cost

    def check_result(self, result: object) -> None:
        """Raise ResultRejected if `on_result` returns True for a result."""
        try:
            is_rejected = self.on_result is not None and self.on_result(result)
        except Exception as error:  # noqa: BLE001 - user code; raised again outside the attempt
            raise Raised(error) from None
        if is_rejected:
            raise ResultRejected(f"on_result rejected the result of {self.name}", result=result)


class Raised(Exception):
    """Carries what `on_result` raised out of the attempt, so that it is not taken for a failure."""

    def __init__(self, wrong: Exception) -> None:
        super().__init__()
        self.wrong = wrong


_OPTIONS = {*Options.__annotations__}


def plan(name: str, policy: Policy | None, options: Options | BlockOptions) -> Plan:
    """Check the options, and apply those that override the policy's."""
    given = cast("dict[str, Any]", {key: v for key, v in options.items() if v is not None})
    if unknown := sorted(options.keys() - _OPTIONS):
        msg = f"there is no option {unknown[0]!r}; use one of: {', '.join(sorted(_OPTIONS))}"
        raise UsageError(msg)
    for hook in ("on_retry", "on_result"):
        if hook in given and not _is_hook(given[hook]):
            raise UsageError(f"{hook} must be a plain function; found {given[hook]!r}")
    if "timeout" in given:
        given["timeout"] = durations.positive(given["timeout"], name="timeout")
    on = given.pop("on", PASSING if policy is None else None)
    chosen = (policy or IN_PLACE).limited(given.pop("attempts", None))
    if "max_age" in given:
        limit = durations.positive(given.pop("max_age"), name="max_age")
        chosen = replace(chosen, max_age=limit)
    if "wait" in given and not is_plain_function(given["wait"]):
        chosen = replace(chosen, wait=given.pop("wait"))
    if "fallback" in options:
        given["fallback"] = cast("Options", options).get("fallback")
    return Plan(name=name, policy=chosen, on=None if on is None else condition(on), **given)


def is_kind_of(value: object, kind: type) -> bool:
    """Return True if this is a subclass of that class."""
    return isinstance(value, type) and issubclass(value, kind)


def _is_hook(value: object) -> bool:
    return callable(value) and not is_kind_of(value, BaseException) and not is_async(value)
