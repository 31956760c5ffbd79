"""One call that is retried in place: its options, its failures, and what follows each of them.

Nothing here decides. A call that fails becomes a job in memory, which is handled like any other:
`classify`, `decide`, `jobs.transitions`. `on=` only selects the errors that come this far.
"""

from __future__ import annotations

import functools
import inspect
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import RLock
from typing import Any, TypeAlias, TypedDict, cast

from redrive.classify import classify
from redrive.errors import AttemptTimeout, GiveUp, ResultRejected, RetryLater, Skip, UsageError
from redrive.in_place import waiting
from redrive.jobs import durations, logger, transitions
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category, Dead, Failure, Job, Reason, Retry, Verdict
from redrive.jobs.outcomes import Failed, Outcome
from redrive.policies import decide
from redrive.policies.policy import Policy, When, category_named, meant
from redrive.strategies import Rand, RetryStrategy

log = logger.log.getChild("retry")

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


class _Failures:
    """The failed attempts of this process; a forked child begins at 0, with a lock that is free."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = RLock()  # a signal handler may retry, too
        self._numbers: Counter[tuple[str, str, str]] = Counter()

    def add(self, outcome: str, name: str, category: str) -> None:
        with self._lock:
            self._numbers[outcome, name, category] += 1

    def counts(self) -> dict[tuple[str, str, str], int]:
        with self._lock:
            return dict(self._numbers)


_failures = _Failures()
os.register_at_fork(after_in_child=_failures.forget)


def counts() -> dict[tuple[str, str, str], int]:
    """Return how often this process retried and gave up, by outcome, function and category."""
    return _failures.counts()


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """One attempt in place, as hooks see it."""

    name: str
    """The function's name; for a block, the name of the function that it stands in."""
    attempt: int
    """The number of the attempt, from 1."""
    waited: float = 0.0
    """Seconds of all waits before this attempt."""
    error: Exception | None = None
    """The error; None before an attempt."""
    failure: Failure | None = None
    """What the error means: its category, and why."""
    wait: float | None = None
    """Seconds until the next attempt; None if there is none."""


Hook: TypeAlias = Callable[[RetryEvent], object]


class BlockOptions(TypedDict, total=False):
    """The options of `retrying`, and of `@retry`."""

    on: On | None
    attempts: int | None
    max_age: Duration | None
    wait: Wait | None
    before: Hook | None
    after: Hook | None
    on_give_up: Hook | None
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
            msg = (
                "on takes a subclass of Exception, a category, a plain function of the error, or a tuple"
                f" of these, such as on={meant(on)}; found {on!r}"
            )
            raise UsageError(msg)
    return Condition(tuple(types), tuple(tests), tuple(categories))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The checked options of one `@retry` or `retrying`."""

    name: str
    policy: Policy
    on: Condition | None
    """None if the policy decides about every error."""
    wait: Callable[[Any], Duration | None] | None = None
    before: Hook | None = None
    after: Hook | None = None
    on_give_up: Hook | None = None
    on_result: Test | None = None
    timeout: float | None = None
    fallback: Any = MISSING
    sleep: Callable[[float], object] | None = None
    rand: Rand = random.random
    clock: Callable[[], float] = time.monotonic

    def beginning(self) -> Callable[[], float]:
        """Return what begins a call: it calls the hook and returns the time, as far as they are used."""
        clock = float if self.policy.oldest is None else self.clock  # float() is 0.0, at no cost
        before = self.before
        if before is None:
            return clock

        def begin() -> float:
            before(RetryEvent(self.name, 1))
            return clock()

        return begin

    def check_result(self, result: object) -> None:
        """Raise ResultRejected if `on_result` returns True for a result."""
        try:
            is_rejected = self.on_result is not None and self.on_result(result)
        except Exception as error:  # noqa: BLE001 - user code; raised again outside the attempt
            raise _Raised(error) from None
        if is_rejected:
            raise ResultRejected(f"on_result rejected the result of {self.name}", result=result)


class _Raised(Exception):
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
    for hook in ("before", "after", "on_give_up", "on_result"):
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


class Call:
    """One call from its first failure on."""

    def __init__(self, plan: Plan, began: float) -> None:
        limit, policy = waiting.TEST_MODE.attempts, plan.policy
        if limit is not None:
            policy = policy.limited(min(limit, policy.max_attempts))
        self._plan = plan
        self._walk = Walk(policy, began, plan.rand, plan.name)
        self._waited = 0.0
        self.delay = 0.0
        """Seconds until the next attempt."""
        self.falls_back = False
        """True if the call ended and returns its fallback."""

    @property
    def attempts(self) -> int:
        """How many attempts have failed."""
        return self._walk.job.attempts

    def begin(self) -> None:
        """Call the hook before the next attempt."""
        if self._plan.before is not None:
            self._plan.before(RetryEvent(self._plan.name, self.attempts + 1, self._waited))

    def goes_on(self, error: Exception) -> bool:
        """Count a failed attempt; return True if another follows after `delay` seconds."""
        if type(error) is _Raised:
            raise error.wrong from error.wrong.__cause__
        failure = self._failure(error)
        if failure is None:
            log.debug("%s raised %s, which is not retried", self._plan.name, type(error).__name__)
            return False
        event, verdict = self._after(error, failure)
        self._report(event, verdict)
        if isinstance(verdict, Retry):
            self.delay = verdict.delay
            self._waited += verdict.delay
            return True
        has_ended = isinstance(verdict, Dead) and verdict.reason is not Reason.PERMANENT
        self.falls_back = has_ended and self._plan.fallback is not MISSING
        return False

    def _failure(self, error: Exception) -> Failure | None:
        """Return what an error means; None if it is not to be retried."""
        on, policy = self._plan.on, self._plan.policy
        if issubclass(type(error), Skip | GiveUp):
            return None
        is_named = on is not None and on.names(error)
        if on is not None and not is_named and not on.categories:
            return None
        failure = _classified(error, policy.on)
        if on is not None:
            if not is_named and failure.category not in on.categories:
                return None
            if not _has_patience(policy, failure.category):
                failure = replace(failure, category=Category.TRANSIENT)
        asked = self._plan.wait(error) if self._plan.wait is not None else None
        if asked is not None:
            seconds = durations.seconds(asked, name="the result of wait")
            failure = replace(failure, hint=seconds, hint_source=decide.HANDLER)
        return failure

    def _after(self, error: Exception, failure: Failure) -> tuple[RetryEvent, Verdict]:
        """Let the policy decide; waits that tests skip count as if they had passed."""
        is_skipped = waiting.TEST_MODE.is_on and self._plan.sleep is None
        now = self._plan.clock() + (self._waited if is_skipped else 0.0)
        verdict = self._walk.after(Failed(failure), now)
        delay = verdict.delay if isinstance(verdict, Retry) else None
        event = RetryEvent(self._plan.name, self.attempts, self._waited, error, failure, delay)
        return event, verdict

    def _report(self, event: RetryEvent, verdict: Verdict) -> None:
        """Log and count a failed attempt, then call the hooks; what a hook raises is raised."""
        name, failure, error = event.name, event.failure, event.error
        assert failure is not None and error is not None  # noqa: S101, PT018 - an attempt that failed
        outcome = "given_up" if isinstance(verdict, Dead) else "retried"
        _failures.add(outcome, name, failure.category.value)
        if isinstance(verdict, Dead):
            words = _last_words(event.attempt, verdict, failure)
            _add_note(error, f"redrive: {words}")
            log.warning("%s: %s", name, words)
        else:
            log.info(
                "%s failed, attempt %d, %s (%s); next attempt in %s",
                name,
                event.attempt,
                failure.category,
                failure.why,
                durations.words(event.wait or 0.0),
            )
        if self._plan.after is not None:
            self._plan.after(event)
        if isinstance(verdict, Dead) and self._plan.on_give_up is not None:
            self._plan.on_give_up(event)


def _has_patience(policy: Policy, category: Category) -> bool:
    """Return False for a category that a policy retries only because `on` names the error."""
    if category is Category.UNKNOWN:
        return policy.named(category) is not None
    return not policy.rule(category).dead


def _classified(error: Exception, rules: Sequence[When]) -> Failure:
    """Classify an error; raise what a rule's test raises, which `classify` alone takes for a no."""
    raised: list[Exception] = []

    def loud(test: Test) -> Callable[[BaseException], bool]:
        @functools.wraps(test)
        def asked(error: BaseException) -> bool:
            try:
                return bool(test(error))
            except Exception as wrong:
                raised.append(wrong)
                raise

        return asked

    checked = [replace(rule, test=loud(rule.test)) if rule.test else rule for rule in rules]
    failure = classify(error, rules=checked, now=time.time())
    if raised:
        raise raised[0]
    return failure


def _last_words(attempts: int, verdict: Dead, failure: Failure) -> str:
    counted = "1 attempt" if attempts == 1 else f"{attempts} attempts"
    why = verdict.detail if verdict.reason is Reason.EXPIRED else failure.why
    return f"given up after {counted}, {verdict.reason}: {why}"


def _add_note(error: Exception, text: str) -> None:
    """Add a note once: an error may be raised again and again, and may refuse notes."""
    with suppress(Exception):
        if text not in getattr(error, "__notes__", ()):
            error.add_note(text)


def is_async(function: object) -> bool:
    """Return True if calling this returns a coroutine."""
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def is_kind_of(value: object, kind: type) -> bool:
    """Return True if this is a subclass of that class."""
    return isinstance(value, type) and issubclass(value, kind)


def _is_hook(value: object) -> bool:
    return callable(value) and not is_kind_of(value, BaseException) and not is_async(value)


def is_plain_function(value: object) -> bool:
    """Return True if this can be called and is neither a class nor async."""
    return callable(value) and not isinstance(value, type) and not is_async(value)
