"""Policies: attempts, delays and limits for each category of failure.

A `Policy` is a value. What it does not set comes from `DEFAULTS`, the table of categories. The same
policy serves durable jobs and retries in place. Nothing here decides: `policies.decide` applies a
policy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, cast

from redrive.errors import UsageError
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Category
from redrive.strategies import RetryStrategy, constant, exponential

MAX_ATTEMPTS = 25  # attempts in all, over every category, where a policy names no number
CRASH_LIMIT = 3  # a job that took its worker down this often is dead, under every policy


def _first(*numbers: int | None) -> int:
    return next(number for number in numbers if number is not None)


def _attempts(number: int | None) -> int | None:
    return None if number is None else checks.whole(number, "attempts", least=1)


def category_named(value: Category | str) -> Category:
    """Return the category of that name; UsageError lists the names there are."""
    try:
        return Category(value)
    except ValueError:
        msg = f"{value!r} is not a category; use one of: {', '.join(Category)}"
        raise UsageError(msg) from None


def meant(value: object) -> str:
    """Return how to write the errors that were probably meant: a class for an instance, a tuple for a list."""
    if isinstance(value, list | tuple | set | frozenset):
        items = [meant(item) for item in cast("list[object]", value)]
        return f"({', '.join(items)})" if len(items) > 1 else items[0] if items else "Exception"
    if isinstance(value, str):
        return repr(str(value))
    kind = type(value) if isinstance(value, BaseException) else value
    if isinstance(kind, type) and issubclass(kind, Exception):
        return kind.__name__
    return "Exception"


@dataclass(frozen=True, slots=True)
class Rule:
    """The attempts and the delay of one category; defaults come from the policy, then the table."""

    attempts: int | None = None
    wait: RetryStrategy | None = None
    dead: bool = False
    """Never retry: the first failure of this category makes a dead letter."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "attempts", _attempts(self.attempts))


DEAD = Rule(dead=True)  # never retry this category
_UNSAID = Rule()

DEFAULTS: Mapping[Category, Rule] = {
    Category.TRANSIENT: Rule(20, wait=exponential(1, cap="6h")),
    Category.RATE_LIMIT: Rule(4, wait=constant(10)),
    Category.QUOTA: Rule(12, wait=exponential(300, cap=86400)),
    Category.AUTH: DEAD,
    Category.INVALID: DEAD,
    Category.PERMANENT: DEAD,
    Category.TIMEOUT: Rule(20, wait=exponential(1, cap="6h")),
    Category.CRASH: Rule(CRASH_LIMIT, wait=exponential(1, cap=300)),
    Category.UNKNOWN: Rule(3, wait=exponential(5, cap=300)),
}
"""The table of categories: the rules that apply where a policy sets none.

Twenty attempts carry a lone job over an outage of 26 to 35 hours, depending on the jitter, so a person
has a working day to notice it. The sixth attempt comes after half a minute: short outages cost little.
"""

Errors = type[BaseException] | tuple[type[BaseException], ...]
Hints = Literal["replace", "floor", "ignore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A rule of the user: errors that match it get this category. Created by `when`."""

    then: Category
    error: type[BaseException] | tuple[type[BaseException], ...] | None = None
    name: str | None = None
    """A dotted class name, matched along the error's bases, so that nothing must be imported."""
    status: int | None = None
    code: str | None = None
    test: Callable[[BaseException], bool] | None = None


def when(
    error: Errors | str | Callable[[BaseException], bool] | None = None,
    category: Category | str | None = None,
    *,
    then: Category | str | None = None,
    status: int | None = None,
    code: str | None = None,
) -> When:
    """Assign a category to an error: by type or tuple of types, dotted name, test function, status or code.

    >>> when(ConnectionError, "transient").then
    <Category.TRANSIENT: 'transient'>
    >>> when(status=418, then="permanent").status
    418
    """
    chosen = category if category is not None else then
    if chosen is None:
        msg = 'when() needs a category: when(MyError, "transient") or when(status=418, then=…)'
        raise UsageError(msg)
    if error is None and status is None and code is None:
        msg = "when() needs something to match: a type, a dotted name, a function, status= or code="
        raise UsageError(msg)
    if status is not None:
        checks.whole(status, "status", least=100, most=999)
    if code is not None:
        checks.text(code, "code")
    rule = When(then=category_named(chosen), status=status, code=code)
    if error is None:
        return rule
    if isinstance(error, str) and all(part.strip("<>").isidentifier() for part in error.split(".")):
        return replace(rule, name=error)
    given = several = cast("object", error)  # callers without a type checker pass anything
    kinds = cast("tuple[object, ...]", several) if isinstance(several, tuple) else (given,)
    if kinds and all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        return replace(rule, error=cast("Errors", given))
    if checks.is_plain_function(given):
        return replace(rule, test=cast("Callable[[BaseException], bool]", given))
    meaning = "'vendor.errors.Busy'" if isinstance(given, str) else meant(given)
    raise UsageError(
        "when() takes a class of errors, a tuple of classes, a dotted name or a plain function: write"
        f" when({meaning}, {rule.then.value!r}); found {error!r}"
    )


@dataclass(frozen=True, slots=True)
class Pause:
    """When failures that are not the job's own fault stop a whole lane, and how it starts again."""

    after: int = 10
    """Different jobs failing in a row."""
    probe: float = 60.0
    """Seconds between two probes: single jobs that test if the lane works again."""
    release: float = 100.0
    """Jobs per second that are released when it does."""
    at_once: bool = False
    """True if the first job with refused credentials pauses the lane, and status 410 pauses it
    until a person resumes it. Endpoints set it."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How long finished jobs stay: seconds, or text such as "90d"; None is for ever."""

    completed: Duration | None = 86400.0
    resolved: Duration | None = 86400.0
    """Also for completed jobs that have been dead letters."""
    dead: Duration | None = None

    def __post_init__(self) -> None:
        for name, age in self.ages.items():
            object.__setattr__(self, name, age)

    @property
    def ages(self) -> dict[str, float | None]:
        """The times in seconds, by their names."""
        given = {"completed": self.completed, "resolved": self.resolved, "dead": self.dead}
        return {
            name: None if age is None else durations.seconds(age, name=name)
            for name, age in given.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How many attempts a job has, how long it waits, and which failures are never retried.

    `attempts` (the first included) and `wait` hold for every category not named, except that auth,
    invalid and permanent stay dead at once. All categories together never exceed `attempts`.

    >>> Policy(attempts=5, wait=constant(3)).rule(Category.TRANSIENT).attempts
    5
    """

    attempts: int | None = None
    max_age: Duration | None = None
    wait: RetryStrategy | None = None
    transient: Rule | None = None
    rate_limit: Rule | None = None
    quota: Rule | None = None
    auth: Rule | None = None
    invalid: Rule | None = None
    permanent: Rule | None = None
    timeout: Rule | None = None
    crash: Rule | None = None
    unknown: Rule | None = None
    alike: bool = False
    """True if all categories that are not named share one count, and none of them is dead at once."""
    hints: Hints = "replace"
    """What a server's hint does: replace the delay, be its minimum, or be ignored."""
    on: Sequence[When] = ()
    pause: Pause | None = None
    keep: Keep = field(default_factory=Keep)
    # The whole rules asked for so far: each failure asks for one.
    _rules: dict[Category, Rule] = field(
        default_factory=dict[Category, Rule], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "attempts", _attempts(self.attempts))
        object.__setattr__(self, "on", tuple(self.on))
        if self.max_age is not None:
            object.__setattr__(self, "max_age", durations.seconds(self.max_age, name="max_age"))
        if self.wait is not None and not isinstance(self.wait, RetryStrategy):
            msg = f"wait must be a strategy such as exponential(1, cap=300); found {self.wait!r}"
            raise UsageError(msg)

    @property
    def max_attempts(self) -> int:
        """The limit of attempts of all categories together: `attempts`, or 25 if it is not given."""
        return MAX_ATTEMPTS if self.attempts is None else self.attempts

    @property
    def oldest(self) -> float | None:
        """`max_age` in seconds."""
        return None if self.max_age is None else durations.seconds(self.max_age)

    def limited(self, attempts: int | None) -> Policy:
        """Return the same policy under a job's own limit of attempts."""
        return self if attempts is None else replace(self, attempts=attempts)

    def named(self, category: Category) -> Rule | None:
        """Return the rule this policy states for a category, if it states one."""
        rule: Rule | None = getattr(self, category.value)
        return rule

    def rule(self, category: Category) -> Rule:
        """Return the whole rule for a category: stated here, or from the general part, or the table."""
        if category in self._rules:
            return self._rules[category]
        stated, table = self.named(category), DEFAULTS[category]
        if (table.dead and not self.alike) if stated is None else stated.dead:
            return DEAD
        fallback = DEFAULTS[Category.TRANSIENT] if table.dead else table
        own = stated or _UNSAID
        total = _first(own.attempts, self.attempts, fallback.attempts)
        if category is Category.CRASH and not (self.alike and stated is None):
            total = min(_first(own.attempts, CRASH_LIMIT), CRASH_LIMIT)
        rule = Rule(total, wait=own.wait or self.wait or fallback.wait)
        return self._rules.setdefault(category, rule)

    def pooled(self, category: Category) -> frozenset[Category]:
        """Return the categories that share one count with this one."""
        if not self.alike or self.named(category) is not None:
            return frozenset({category})
        return frozenset(c for c in Category if self.named(c) is None)


def check_policy(policy: object) -> None:
    """Raise UsageError if a value is not a policy."""
    if not isinstance(policy, Policy):
        msg = f"a policy is a Policy, such as redrive.policies.presets.WEBHOOKS; found {policy!r}"
        raise UsageError(msg)
