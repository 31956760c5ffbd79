"""`on=` of `@retry`: which errors are retried, and how what cannot work is refused."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from redrive import Category, GiveUp, Policy, RetryLater, Rule, Skip, constant, retry, when
from redrive.errors import UsageError
from redrive.in_place.waiting import no_waiting
from tablekit import each_row


class Busy(Exception):
    status_code = 429
    retry_after = 7


class Unauthorized(Exception):
    status_code = 401


def attempts_of(error: BaseException, *arguments: Any, **options: Any) -> int:
    """Count the attempts of a function that always raises this error."""
    calls = 0

    @retry(*arguments, rand=lambda: 0.5, **options)
    def work() -> None:
        nonlocal calls
        calls += 1
        raise error

    with no_waiting(), pytest.raises(type(error)) as caught:
        work()
    assert caught.value is error
    return calls


@each_row("bug", [ValueError, TypeError, KeyError, NameError, AssertionError])
def test_bare_never_retries_a_bug(bug: type[Exception]) -> None:
    error = bug("a bug")
    assert attempts_of(error) == 1
    assert not hasattr(error, "__notes__")


@each_row(
    "error, attempts",
    [(ConnectionError(), 6), (TimeoutError(), 6), (Busy(), 4), (Unauthorized(), 1)],
)
def test_bare_retries_what_is_known_to_pass(error: Exception, attempts: int) -> None:
    """Transient errors for a minute, rate limits as often as the table has it, auth never."""
    assert attempts_of(error) == attempts


@each_row(
    "on",
    [
        ValueError,
        Exception,
        (ConnectionError, ValueError),
        lambda error: isinstance(error, ValueError),
        (ConnectionError, lambda error: "bug" in str(error)),
        "unknown",
        Category.UNKNOWN,
        (Category.AUTH, "unknown"),
        ("auth", ValueError),
    ],
)
def test_on_takes_a_type_a_test_a_category_or_a_tuple(on: Any) -> None:
    assert attempts_of(ValueError("bug"), on=on, attempts=4) == 4
    assert attempts_of(ValueError("bug"), Policy(attempts=4), on=on) == 4
    others = {Exception: KeyError("bug")}
    if on not in others and not isinstance(on, str) and "unknown" not in repr(on):
        assert attempts_of(KeyError("other"), on=on, attempts=4) == 1


def test_what_on_names_is_retried_even_where_its_category_is_dead_at_once() -> None:
    assert attempts_of(Unauthorized(), on=Unauthorized, attempts=3) == 3
    assert attempts_of(Unauthorized(), on="auth", attempts=3) == 3
    assert attempts_of(Unauthorized(), Policy(attempts=3)) == 1


def test_a_rule_of_the_policy_for_unknown_errors_holds_under_on() -> None:
    policy = Policy(unknown=Rule(2, wait=constant(0)))
    assert attempts_of(KeyError(), policy, on=KeyError) == 2


def test_transient_errors_that_on_does_not_name_are_raised_untouched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = ConnectionError("hunter2")
    with caplog.at_level(logging.DEBUG, "redrive"):
        assert attempts_of(error, on=ValueError) == 1
    assert not hasattr(error, "__notes__")
    [record] = caplog.records
    assert record.levelno == logging.DEBUG
    assert record.message.endswith("work raised ConnectionError, which is not retried")


@each_row("signal", [GiveUp("no"), Skip("done before")])
def test_signals_win_over_on(signal: Exception) -> None:
    assert attempts_of(signal, on=Exception, attempts=3) == 1
    assert attempts_of(RetryLater(after=1), on=ValueError, attempts=3) == 3


class Thing:
    pass


async def async_test(error: Exception) -> bool:
    return True


@each_row(
    "wrong, words",
    [
        (lambda: retry(ConnectionError), r"write @retry\(on=ConnectionError\)"),  # type: ignore[misc]
        (lambda: retry(OSError("down")), r"write @retry\(on=OSError\)"),
        (lambda: retry([KeyError, OSError]), r"write @retry\(on=\(KeyError, OSError\)\)"),
        (lambda: retry((KeyError, OSError())), r"write @retry\(on=\(KeyError, OSError\)\)"),
        (lambda: retry("transient"), r"write @retry\(on='transient'\)"),
        (lambda: retry(Thing), "Thing is a class; use @retry on its methods"),
        (lambda: retry(attempts=2)(Thing), "Thing is a class; use @retry on its methods"),
        (lambda: retry(on=[KeyError, OSError]), r"such as on=\(KeyError, OSError\); found \["),
        (lambda: retry(on=OSError()), r"such as on=OSError; found OSError\(\)"),
        (lambda: retry(on=5), "such as on=Exception; found 5"),
        (lambda: retry(on=()), r"such as on=Exception; found \(\)"),
        (lambda: retry(on=(KeyError, 5)), r"such as on=\(KeyError, Exception\); found"),
        (lambda: retry(on=Thing), "on takes a subclass of Exception"),
        (lambda: retry(on=KeyboardInterrupt), "on takes a subclass of Exception"),
        (lambda: retry(on=async_test), "a plain function of the error"),
        (lambda: retry(on="tansient"), "'tansient' is not a category; use one of: transient"),
        (lambda: retry(onn=None), "no option 'onn'"),
        (lambda: retry(onn=KeyError), "no option 'onn'; use one of: attempts, clock, fallback"),
        (lambda: when([KeyError, OSError], "auth"), r"write when\(\(KeyError, OSError\), 'auth'\)"),
        (lambda: when(OSError(), "auth"), r"write when\(OSError, 'auth'\); found OSError\(\)"),
        (lambda: when(5, "auth"), r"write when\(Exception, 'auth'\); found 5"),
        (
            lambda: when((KeyError, OSError()), "auth"),
            r"write when\(\(KeyError, OSError\), 'auth'\)",
        ),
        (lambda: when((), "auth"), "a tuple of classes"),
        (lambda: when("connection reset", "auth"), "a dotted name .*found 'connection reset'"),
        (lambda: when(asyncio.sleep, "auth"), "a plain function"),  # its coroutine is always true
        (lambda: when(status="404", then="auth"), "status must be a whole number.* found '404'"),  # type: ignore[arg-type]
        (lambda: when(code=7, then="auth"), "code must be text.* found 7"),  # type: ignore[arg-type]
        (lambda: when(Thing, "auth"), "a class of errors"),
    ],
)
def test_what_cannot_match_is_refused_with_the_right_spelling(
    wrong: Callable[[], object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()
