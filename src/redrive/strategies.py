"""The delay before the next attempt: four curves, a cap that is never exceeded, and jitter.

Strategies are values: immutable by convention, comparable, printable, without shared state, so one
object serves any number of jobs and threads. `calculate_backoff` is the bare curve; the cap is
applied to it first, then the delay is drawn from the jitter's window cut to [0, cap]. So no delay
exceeds the cap, and delays still spread when they have reached it.
"""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import ClassVar, cast

from redrive.errors import UsageError
from redrive.jobs import durations
from redrive.jobs.durations import Duration

Rand = Callable[[], float]
"""A source of random numbers in [0, 1)."""

Jitter = float | timedelta | str | None
"""0.2 is ± 20 %, a timedelta or "30s" is ± 30 s, "full", "equal", or "none"."""

LONGEST = 315_360_000.0
"""Ten years: the delay of a strategy without a cap, so that no due time overflows."""


class RetryStrategy(ABC):
    """The delay after the n-th failure. Subclass it and implement `calculate_backoff`.

    `jitter_factor` is a ± fraction, and none from 0 down; `jitter` names another kind and then wins.
    A subclass may draw its own jitter in `apply_jitter` or `_apply_jitter`.
    """

    jitter_factor: float = 0.2
    max_backoff: float = 300.0
    jitter: Jitter = None

    def __init__(
        self,
        jitter_factor: float = 0.2,
        max_backoff: Duration = 300.0,
        *,
        jitter: Jitter = None,
    ) -> None:
        self.jitter_factor = _number("jitter_factor", jitter_factor)
        self.max_backoff = math.inf if max_backoff == math.inf else _cap(max_backoff)
        self.jitter = jitter
        jitter_window(1.0, self)

    @abstractmethod
    def calculate_backoff(self, attempt: int) -> float:
        """Return the bare delay after failure number `attempt` (0-based), before cap and jitter."""

    def apply_jitter(self, seconds: float, rand: Rand = random.random) -> float:
        """Draw a delay from the jitter's window around `seconds`, never above the cap."""
        capped = _clean(seconds, self.max_backoff)
        low, high = jitter_window(capped, self)
        high = min(high, self.max_backoff, LONGEST)
        low = min(max(0.0, low), high)
        return low + (high - low) * rand()

    def _apply_jitter(self, backoff_seconds: float) -> float:
        """Return `apply_jitter(backoff_seconds)`; a subclass may override either."""
        return self.apply_jitter(backoff_seconds)

    def get_backoff_with_jitter(self, attempt: int, rand: Rand = random.random) -> float:
        """Return the delay to wait after failure number `attempt` (0-based)."""
        bare = self.calculate_backoff(attempt)
        # A subclass's own jitter may know no random source: it is called as it was written.
        for name in ("_apply_jitter", "apply_jitter"):
            if getattr(type(self), name) is not getattr(RetryStrategy, name):
                return _clean(getattr(self, name)(bare), self.max_backoff)
        return self.apply_jitter(bare, rand)

    def should_retry(self, attempt: int, max_retries: int) -> bool:
        """Return True if another retry is within `max_retries`."""
        return attempt < max_retries

    def get_strategy_name(self) -> str:
        """Return the class's name."""
        return type(self).__name__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), tuple(sorted((k, repr(v)) for k, v in vars(self).items()))))

    def __repr__(self) -> str:
        shown = {k: v for k, v in vars(self).items() if k != "jitter" or v is not None}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in shown.items())})"


class ExponentialBackoffStrategy(RetryStrategy):
    """initial, initial·base, initial·base² … (1, 2, 4, 8 s)."""

    def __init__(
        self,
        base: float = 2.0,
        initial: Duration = 1.0,
        jitter_factor: float = 0.2,
        max_backoff: Duration = 300.0,
        *,
        jitter: Jitter = None,
    ) -> None:
        super().__init__(jitter_factor, max_backoff, jitter=jitter)
        self.base = _number("base", base, least=0.0)
        self.initial = durations.seconds(initial, name="initial")

    def calculate_backoff(self, attempt: int) -> float:
        """Return initial·base^attempt, in the same time for attempt 3 and attempt 2^63."""
        if self.initial == 0 or attempt <= 0:
            return self.initial
        try:
            return self.initial * math.pow(self.base, attempt)
        except OverflowError:
            return math.inf


class LinearBackoffStrategy(RetryStrategy):
    """initial_delay, then `increment` more each time (1, 3, 5 s)."""

    def __init__(
        self,
        initial_delay: Duration = 1.0,
        increment: Duration = 2.0,
        jitter_factor: float = 0.2,
        max_backoff: Duration = 300.0,
        *,
        jitter: Jitter = None,
    ) -> None:
        super().__init__(jitter_factor, max_backoff, jitter=jitter)
        self.initial_delay = durations.seconds(initial_delay, name="initial_delay")
        self.increment = durations.seconds(increment, name="increment")

    def calculate_backoff(self, attempt: int) -> float:
        """Return initial_delay + increment·attempt."""
        try:
            return self.initial_delay + self.increment * float(max(0, attempt))
        except OverflowError:
            return math.inf


class ConstantBackoffStrategy(RetryStrategy):
    """The same delay every time."""

    def __init__(
        self,
        delay: Duration = 5.0,
        jitter_factor: float = 0.2,
        max_backoff: Duration = 300.0,
        *,
        jitter: Jitter = None,
    ) -> None:
        super().__init__(jitter_factor, max_backoff, jitter=jitter)
        self.delay = durations.seconds(delay, name="delay")

    def calculate_backoff(self, attempt: int) -> float:  # noqa: ARG002 - the same for all
        """Return the delay."""
        return self.delay


def _fibonacci_numbers() -> tuple[float, ...]:
    """Return every Fibonacci number that a float can hold, from 1, 1, 2."""
    numbers = [1.0, 1.0]
    while math.isfinite(following := numbers[-2] + numbers[-1]):
        numbers.append(following)
    return tuple(numbers)


class FibonacciBackoffStrategy(RetryStrategy):
    """unit times 1, 1, 2, 3, 5 and so on."""

    _NUMBERS: ClassVar[tuple[float, ...]] = _fibonacci_numbers()

    def __init__(
        self,
        unit: Duration = 1.0,
        jitter_factor: float = 0.2,
        max_backoff: Duration = 300.0,
        *,
        jitter: Jitter = None,
    ) -> None:
        super().__init__(jitter_factor, max_backoff, jitter=jitter)
        self.unit = durations.seconds(unit, name="unit")

    def calculate_backoff(self, attempt: int) -> float:
        """Return unit times the Fibonacci number, looked up; past the last one it is infinite."""
        if self.unit == 0:
            return 0.0
        if attempt >= len(self._NUMBERS):
            return math.inf
        return self.unit * self._NUMBERS[max(0, attempt)]


def exponential(
    initial: Duration = 1.0,
    *,
    base: float = 2.0,
    cap: Duration = 300.0,
    jitter: Jitter = 0.2,
) -> ExponentialBackoffStrategy:
    """Wait initial, then twice as long each time, at most `cap`."""
    return ExponentialBackoffStrategy(base, initial, 0.0, cap, jitter=jitter)


def linear(
    initial: Duration = 1.0,
    increment: Duration = 2.0,
    *,
    cap: Duration = 300.0,
    jitter: Jitter = 0.2,
) -> LinearBackoffStrategy:
    """Wait initial, then `increment` longer each time, at most `cap`."""
    return LinearBackoffStrategy(initial, increment, 0.0, cap, jitter=jitter)


def constant(
    delay: Duration = 5.0, *, cap: Duration = 300.0, jitter: Jitter = 0.2
) -> ConstantBackoffStrategy:
    """Wait the same time every time (the cap grows with the delay)."""
    highest = max(durations.seconds(delay, name="delay"), _cap(cap))
    return ConstantBackoffStrategy(delay, 0.0, highest, jitter=jitter)


def fibonacci(
    unit: Duration = 1.0, *, cap: Duration = 300.0, jitter: Jitter = 0.2
) -> FibonacciBackoffStrategy:
    """Wait unit times 1, 1, 2, 3, 5 …, at most `cap`."""
    return FibonacciBackoffStrategy(unit, 0.0, cap, jitter=jitter)


def jitter_window(seconds: float, strategy: RetryStrategy) -> tuple[float, float]:
    """Return the lowest and highest delay the jitter allows around `seconds`, before the cap."""
    jitter = strategy.jitter
    match max(0.0, strategy.jitter_factor) if jitter is None else jitter:
        case "full":
            return 0.0, seconds
        case "equal":
            return seconds / 2, seconds
        case "none":
            return seconds, seconds
        case str() | timedelta() as absolute:
            try:
                spread = durations.seconds(absolute, name="jitter")
            except UsageError:
                raise _bad_jitter(absolute) from None
            return max(0.0, seconds - spread), seconds + spread
        case fraction:
            if not _is_finite(fraction) or fraction < 0:
                raise _bad_jitter(fraction)
            return seconds * (1 - fraction), seconds * (1 + fraction)


def _bad_jitter(jitter: object) -> UsageError:
    return UsageError(
        'jitter must be "full", "equal" or "none", a fraction such as 0.2, or a time such as "30s";'
        f" found {jitter!r}"
    )


def delay_after(strategy: RetryStrategy, attempt: int, rand: Rand) -> float:
    """Ask a strategy for a delay; whatever a user's subclass answers, the result is usable.

    A subclass that draws its own jitter is called as it was written, without our random source.
    """
    if type(strategy).get_backoff_with_jitter is RetryStrategy.get_backoff_with_jitter:
        delay = strategy.get_backoff_with_jitter(attempt, rand)
    else:
        delay = strategy.get_backoff_with_jitter(attempt)
    return _clean(float(delay), float(strategy.max_backoff))


def _clean(seconds: float, cap: float) -> float:
    """Cut to [0, cap]; NaN becomes the cap, the careful end."""
    highest = min(cap, LONGEST)
    return highest if math.isnan(seconds) else min(max(0.0, seconds), highest)


def _cap(value: Duration) -> float:
    return durations.seconds(value, name="max_backoff")


def _number(name: str, value: float, *, least: float = -math.inf) -> float:
    if not _is_finite(value) or value < least:
        limit = ", 0 or more" if least == 0 else ""
        raise UsageError(f"{name} must be a finite number{limit}; found {value!r}")
    return float(value)


def _is_finite(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(cast("float", value))
