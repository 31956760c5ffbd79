"""Strategies: exact curves, a cap that is a promise, jitter that spreads, and users' own."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import UsageError
from redrive.strategies import (
    LONGEST,
    ConstantBackoffStrategy,
    ExponentialBackoffStrategy,
    FibonacciBackoffStrategy,
    Jitter,
    LinearBackoffStrategy,
    Rand,
    RetryStrategy,
    constant,
    delay_after,
    exponential,
    fibonacci,
    linear,
)
from tablekit import each_row

HUGE = [10_000, 2**63, 2**63 + 1, 2**100, 10**400]
JITTERS: list[Jitter] = [0.0, 0.2, 1.0, 3.0, timedelta(seconds=30), "30s", "full", "equal", "none"]
SPREADING: list[Jitter] = [0.2, 1.0, timedelta(seconds=30), "30s", "full", "equal"]


def lowest() -> float:
    return 0.0


def highest() -> float:
    return math.nextafter(1.0, 0.0)


durations = st.floats(min_value=0, max_value=1e9)
jitters = st.sampled_from(JITTERS) | st.floats(min_value=0, max_value=10)
attempts = st.integers(min_value=0, max_value=60) | st.sampled_from(HUGE)
randoms = st.floats(min_value=0, max_value=1, exclude_max=True)


@st.composite
def strategies(draw: st.DrawFn) -> RetryStrategy:
    make: Callable[..., RetryStrategy] = draw(
        st.sampled_from([exponential, linear, constant, fibonacci])
    )
    return make(draw(durations), cap=draw(durations), jitter=draw(jitters))


# Names and values (P2).


@each_row(
    "strategy, curve",
    [
        (ExponentialBackoffStrategy(), [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]),
        (ExponentialBackoffStrategy(base=3.0, initial=2.0), [2, 6, 18, 54]),
        (LinearBackoffStrategy(), [1, 3, 5, 7, 9]),
        (LinearBackoffStrategy(initial_delay=2.0, increment=0.5), [2, 2.5, 3, 3.5]),
        (ConstantBackoffStrategy(), [5, 5, 5, 5]),
        (ConstantBackoffStrategy(delay=0), [0, 0, 0]),
        (FibonacciBackoffStrategy(), [1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233]),
        (FibonacciBackoffStrategy(unit=10.0), [10, 10, 20, 30, 50]),
        (exponential(60, cap=3600), [60, 120, 240, 480, 960]),
        (linear(1, 1), [1, 2, 3]),
        (constant("10s"), [10, 10]),
        (fibonacci(2), [2, 2, 4, 6]),
    ],
)
def test_the_bare_curves_are_exact(strategy: RetryStrategy, curve: list[float]) -> None:
    assert [strategy.calculate_backoff(n) for n in range(len(curve))] == curve


@each_row(
    "make",
    [
        ExponentialBackoffStrategy,
        LinearBackoffStrategy,
        ConstantBackoffStrategy,
        FibonacciBackoffStrategy,
    ],
)
def test_constructors_have_the_documented_defaults(make: Callable[..., RetryStrategy]) -> None:
    strategy = make()
    assert (strategy.jitter_factor, strategy.max_backoff) == (0.2, 300.0)
    assert strategy.get_strategy_name() == make.__name__
    assert make(jitter_factor=0.1, max_backoff="5m").max_backoff == 300.0


def test_should_retry_counts_retries_from_zero() -> None:
    strategy = constant()
    assert [strategy.should_retry(n, 2) for n in range(4)] == [True, True, False, False]
    assert not strategy.should_retry(0, 0)


# Jitter and cap (P3).


@each_row(
    "jitter, low, high",
    [
        (0.2, 80.0, 120.0),
        (1.0, 0.0, 200.0),
        (3.0, 0.0, 400.0),
        ("30s", 70.0, 130.0),
        (timedelta(seconds=30), 70.0, 130.0),
        (timedelta(seconds=300), 0.0, 400.0),
        ("full", 0.0, 100.0),
        ("equal", 50.0, 100.0),
        ("none", 100.0, 100.0),
        (0.0, 100.0, 100.0),
    ],
)
def test_each_jitter_draws_from_its_window(jitter: Jitter, low: float, high: float) -> None:
    strategy = constant(100, cap=1000, jitter=jitter)
    assert strategy.get_backoff_with_jitter(0, lowest) == low
    assert strategy.get_backoff_with_jitter(0, highest) == pytest.approx(high)


@each_row(
    "jitter, low",
    [(0.2, 240.0), (1.0, 0.0), ("30s", 270.0), ("full", 0.0), ("equal", 150.0), ("none", 300.0)],
)
def test_at_the_cap_the_window_is_cut_and_not_the_delays(jitter: Jitter, low: float) -> None:
    strategy = exponential(1, cap=300, jitter=jitter)
    assert strategy.get_backoff_with_jitter(40, lowest) == low
    assert strategy.get_backoff_with_jitter(40, highest) == pytest.approx(300.0)


@each_row("jitter", SPREADING)
@each_row("attempt", [20, *HUGE])
def test_delays_still_spread_at_the_cap(jitter: Jitter, attempt: int) -> None:
    """A thousand jobs that reached the cap must not come back in the same second."""
    rand = random.Random(1).random
    strategy = exponential(1, cap=300, jitter=jitter)
    delays = [strategy.get_backoff_with_jitter(attempt, rand) for _ in range(200)]
    assert len(set(delays)) == 200
    width = strategy.get_backoff_with_jitter(attempt, highest) - strategy.get_backoff_with_jitter(
        attempt, lowest
    )
    assert width >= 30 - 1e-6
    assert max(delays) - min(delays) > 0.9 * width


@given(strategies(), attempts, randoms)
def test_no_delay_exceeds_the_cap_or_is_negative_or_nan(
    strategy: RetryStrategy, attempt: int, drawn: float
) -> None:
    delay = strategy.get_backoff_with_jitter(attempt, lambda: drawn)
    assert 0 <= delay <= strategy.max_backoff
    assert delay <= LONGEST
    assert 0 <= delay_after(strategy, attempt, lambda: drawn) <= min(strategy.max_backoff, LONGEST)


@given(strategies(), attempts)
def test_the_curve_never_raises_and_is_never_nan_or_negative(
    strategy: RetryStrategy, attempt: int
) -> None:
    assert strategy.calculate_backoff(attempt) >= 0
    assert strategy.calculate_backoff(-1) == strategy.calculate_backoff(0)


@given(strategies(), st.integers(min_value=0, max_value=200))
def test_waits_without_jitter_never_shrink(strategy: RetryStrategy, attempt: int) -> None:
    strategy.jitter = "none"
    now, then = (strategy.get_backoff_with_jitter(n, lowest) for n in (attempt, attempt + 1))
    assert now <= then


def test_the_random_source_can_be_given() -> None:
    strategy = exponential(10, jitter=0.5)
    first, second = (
        [strategy.get_backoff_with_jitter(n, random.Random(7).random) for n in range(5)]
        for _ in range(2)
    )
    assert first == second


# They are values (P2).


@each_row(
    "make, keywords",
    [
        (ExponentialBackoffStrategy, {"base": -1}),
        (ExponentialBackoffStrategy, {"base": math.nan}),
        (ExponentialBackoffStrategy, {"initial": -1}),
        (ExponentialBackoffStrategy, {"initial": math.inf}),
        (LinearBackoffStrategy, {"initial_delay": -1}),
        (LinearBackoffStrategy, {"increment": math.nan}),
        (ConstantBackoffStrategy, {"delay": "soon"}),
        (FibonacciBackoffStrategy, {"unit": -5}),
        (ConstantBackoffStrategy, {"jitter_factor": -math.inf}),
        (ConstantBackoffStrategy, {"jitter_factor": math.nan}),
        (ConstantBackoffStrategy, {"max_backoff": -1}),
        (ConstantBackoffStrategy, {"max_backoff": math.nan}),
        (ConstantBackoffStrategy, {"jitter": "sometimes"}),
        (ConstantBackoffStrategy, {"jitter": -0.5}),
        (ConstantBackoffStrategy, {"jitter": True}),
        (ConstantBackoffStrategy, {"jitter_factor": True}),
        (ConstantBackoffStrategy, {"jitter": [0.2]}),
        (ExponentialBackoffStrategy, {"base": True}),
        (ConstantBackoffStrategy, {"jitter": math.inf}),
        (ConstantBackoffStrategy, {"jitter": timedelta(seconds=-1)}),
    ],
)
def test_a_strategy_that_cannot_work_is_refused_when_it_is_made(
    make: Callable[..., RetryStrategy], keywords: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        make(**keywords)


@each_row("make", [exponential, linear, constant, fibonacci])
@each_row("jitter", ["decorrelated", True, -0.5])
def test_a_wrong_jitter_lists_the_right_ones(
    make: Callable[..., RetryStrategy], jitter: object
) -> None:
    words = rf'jitter must be "full", "equal" or "none", .* found {jitter!r}'
    with pytest.raises(UsageError, match=words):
        make(1, jitter=jitter)


# Those that users write.


class Squares(RetryStrategy):
    """The least a user writes."""

    def calculate_backoff(self, attempt: int) -> float:
        return float(attempt * attempt)


class OwnBackoff(Squares):
    def get_backoff_with_jitter(self, attempt: int) -> float:  # type: ignore[override]
        return 7.0 + attempt


class OwnJitter(Squares):
    def apply_jitter(self, seconds: float) -> float:  # type: ignore[override]
        return seconds + 0.5

    def get_backoff_with_jitter(self, attempt: int) -> float:  # type: ignore[override]
        return self.apply_jitter(self.calculate_backoff(attempt))


class OnlyOwnJitter(Squares):
    def apply_jitter(self, seconds: float, rand: Rand = random.random) -> float:
        return seconds + 0.25


class OldOwnJitter(Squares):
    """Written against the signature without a random source."""

    def apply_jitter(self, seconds: float) -> float:  # type: ignore[override]
        return seconds + 0.25


class PrivateJitter(Squares):
    """Overrides the hook that the fifth document names."""

    def _apply_jitter(self, backoff_seconds: float) -> float:
        return super()._apply_jitter(backoff_seconds) + 0.25


class NoConstructor(RetryStrategy):
    """Forgets to call the base: the class's defaults hold."""

    def __init__(self) -> None:
        self.step = 3.0

    def calculate_backoff(self, attempt: int) -> float:
        return self.step


def test_a_users_curve_gets_our_jitter_and_cap() -> None:
    assert delay_after(Squares(jitter_factor=0.0), 3, lowest) == 9.0
    assert delay_after(Squares(), 10, lowest) == 80.0
    assert delay_after(Squares(), 100, highest) <= 300.0
    assert delay_after(NoConstructor(), 0, lowest) == pytest.approx(2.4)
    assert Squares() == Squares()
    assert Squares().get_strategy_name() == "Squares"


def test_a_jitter_factor_below_0_means_no_jitter() -> None:
    strategy = ConstantBackoffStrategy(5, jitter_factor=-0.3)
    assert {strategy.get_backoff_with_jitter(1, rand) for rand in (lowest, highest)} == {5.0}
    assert strategy.jitter_factor == -0.3


@each_row("hook", ["apply_jitter", "_apply_jitter"])
def test_the_cap_holds_for_a_users_own_jitter(hook: str) -> None:
    kind = type("Long", (Squares,), {hook: lambda _, seconds: seconds + 1000})
    assert kind().get_backoff_with_jitter(1) == 300.0
    assert delay_after(kind(), 1, lowest) == 300.0


@each_row(
    "strategy, expected",
    [
        (OwnBackoff(), 9.0),
        (OwnJitter(), 4.5),
        (OnlyOwnJitter(), 4.25),
        (OldOwnJitter(), 4.25),
        (PrivateJitter(jitter_factor=-1), 4.25),
    ],
)
def test_a_users_own_jitter_is_called_as_it_was_written(
    strategy: RetryStrategy, expected: float
) -> None:
    assert delay_after(strategy, 2, lowest) == expected
    assert strategy.get_backoff_with_jitter(2) == expected


@each_row(
    "answer, delay",
    [(math.nan, 300.0), (math.inf, 300.0), (-5.0, 0.0), (-math.inf, 0.0), (1e300, 300.0), (3, 3.0)],
)
def test_whatever_a_users_strategy_answers_the_delay_is_usable(answer: float, delay: float) -> None:
    class Odd(RetryStrategy):
        def calculate_backoff(self, attempt: int) -> float:
            return answer

        def get_backoff_with_jitter(self, attempt: int) -> float:  # type: ignore[override]
            return answer

    class OddCurve(RetryStrategy):
        def calculate_backoff(self, attempt: int) -> float:
            return answer

    assert delay_after(Odd(), 0, lowest) == delay
    assert 0 <= delay_after(OddCurve(), 0, lowest) <= 300.0
