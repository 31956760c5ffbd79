"""Retrying in place: as the policy says, by the kind of error, with nothing else changed."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any

import pytest

from redrive import GiveUp, Policy, RetryLater, Rule, Skip, constant, exponential, retry, when
from redrive.errors import UsageError
from redrive.testing import ManualClock
from tablekit import each_row

DOUBLING = exponential(1, jitter="none")


class Failing:
    """Fails with each of these in turn, then gives what it was called with."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self, *args: object, **kwargs: object) -> object:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return args, kwargs


def down(number: int = 1) -> list[ConnectionError]:
    return [ConnectionError(f"refused {n}") for n in range(number)]


def test_a_call_that_succeeds_is_a_plain_call() -> None:
    """And asks for the time only where there is a time limit."""

    def never(*_: object) -> float:
        raise AssertionError

    work = Failing()
    decorate = retry(Policy(attempts=3), sleep=never, rand=never, clock=never)
    assert decorate(work)(1, two=2) == ((1,), {"two": 2})
    assert work.calls == 1


def test_it_waits_as_the_policy_says_and_gives_the_value() -> None:
    slept: list[float] = []
    work = Failing(*down(3))
    policy = Policy(attempts=5, wait=DOUBLING)
    assert retry(policy, sleep=slept.append)(work)("a") == (("a",), {})
    assert (work.calls, slept) == (4, [1.0, 2.0, 4.0])


def test_when_nothing_is_left_the_last_error_itself_goes_up_with_a_note() -> None:
    errors = down(3)
    work = Failing(*errors)
    with pytest.raises(ConnectionError) as caught:
        retry(Policy(attempts=3), sleep=lambda _: None)(work)()
    assert caught.value is errors[-1]
    [note] = caught.value.__notes__
    assert note == "redrive: given up after 3 attempts, exhausted: ConnectionError"
    assert caught.value.__context__ is None
    assert [hasattr(error, "__notes__") for error in errors] == [False, False, True]


def test_each_category_has_its_own_patience() -> None:
    """E: the kinds are counted apart, the hopeless are not tried again."""
    slept: list[float] = []
    policy = Policy(
        wait=DOUBLING,
        rate_limit=Rule(attempts=2, wait=constant(10, jitter="none")),
        on=[when(KeyError, "rate_limit"), when(LookupError, "auth")],
    )
    with pytest.raises(LookupError) as caught:
        retry(policy, sleep=slept.append)(
            Failing(*down(1), KeyError("slow"), *down(1), LookupError("who are you"), *down(1))
        )()
    assert slept == [1.0, 10.0, 2.0]
    [note] = caught.value.__notes__
    assert note == "redrive: given up after 4 attempts, permanent: your rule for LookupError"


def test_a_servers_hint_replaces_the_wait() -> None:
    class Busy(Exception):
        retry_after = 7

    slept: list[float] = []
    policy = Policy(attempts=2, on=[when(Busy, "rate_limit")])
    retry(policy, sleep=slept.append, rand=lambda: 0.0)(Failing(Busy()))()
    assert slept == [7.0]


def test_without_a_policy_the_table_holds_for_a_minute() -> None:
    clock = ManualClock()
    decorate = retry(sleep=clock.advance, clock=clock.now, rand=lambda: 0.5)
    endless = Failing(*down(99))
    with pytest.raises(ConnectionError) as caught:
        decorate(endless)()
    assert endless.calls == 6  # after 0, 1, 3, 7, 15, 31 s; the next would be at 63
    [note] = caught.value.__notes__
    assert note.startswith("redrive: given up after 6 attempts, expired: the next attempt would be")


@each_row("policy, max_age", [(Policy(wait=constant(20, jitter="none")), "1m"), (None, 60.0)])
def test_the_time_limit_counts_from_the_first_attempt(policy: Policy | None, max_age: Any) -> None:
    """And no try begins that would come too late."""
    clock = ManualClock()
    calls: list[float] = []

    @retry(policy, max_age=max_age, sleep=clock.advance, clock=clock.now, rand=lambda: 0.9)
    def slow() -> None:
        calls.append(clock.now())
        clock.advance(59)
        raise ConnectionError("no answer")

    with pytest.raises(ConnectionError, match="no answer"):
        slow()
    assert len(calls) == 1
    with pytest.raises(ConnectionError):
        slow()
    assert len(calls) == 2  # each call has a time of its own


def test_attempts_and_max_age_win_over_the_policy() -> None:
    work = Failing(*down(9))
    policy = Policy(attempts=5, max_age="1h", wait=constant(40, jitter="none"))
    with pytest.raises(ConnectionError):
        retry(policy, attempts=2, sleep=lambda _: None)(work)()
    assert work.calls == 2
    clock = ManualClock()
    with pytest.raises(ConnectionError):
        retry(policy, max_age="1m", sleep=clock.advance, clock=clock.now)(work)()
    assert work.calls == 2 + 2


def test_a_wait_of_nothing_is_not_slept() -> None:
    slept: list[float] = []
    work = Failing(*down(2))
    retry(Policy(attempts=3, wait=constant(0)), sleep=slept.append)(work)()
    assert (work.calls, slept) == (3, [])


@each_row("signal", [GiveUp("no such account"), Skip("sent before")])
def test_signals_that_end_it_go_up_at_once(signal: Exception) -> None:
    """So that a durable handler around it understands them, too."""
    work = Failing(signal)
    with pytest.raises(type(signal)) as caught:
        retry(Policy(attempts=5, alike=True), sleep=lambda _: None)(work)()
    assert caught.value is signal
    assert work.calls == 1


def test_retry_later_waits_as_it_says_and_counts() -> None:
    slept: list[float] = []
    work = Failing(*(RetryLater("busy", after=n) for n in (3, "1m", 5)))
    with pytest.raises(RetryLater):
        retry(Policy(attempts=3), sleep=slept.append)(work)()
    assert slept == [3.0, 60.0]


@each_row("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_means_the_program_passes_untouched(kind: type[BaseException]) -> None:
    stop = kind()
    work = Failing(*down(1), stop)
    with pytest.raises(kind) as caught:
        retry(Policy(attempts=9), sleep=lambda _: None)(work)()
    assert caught.value is stop
    assert not hasattr(stop, "__notes__")
    assert work.calls == 2


def test_ctrl_c_ends_the_sleep_too() -> None:
    def sleep(_: float) -> None:
        raise KeyboardInterrupt

    work = Failing(*down(2))
    with pytest.raises(KeyboardInterrupt):
        retry(sleep=sleep)(work)()
    assert work.calls == 1


def test_errors_that_bite_are_raised_as_they_are() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        def add_note(self, note: str) -> None:
            raise RuntimeError("no notes")

    error = Hostile()
    work = Failing(error, error)
    with pytest.raises(Hostile) as caught:
        retry(Policy(attempts=2, wait=constant(0)))(work)()
    assert caught.value is error
    assert work.calls == 2


def test_a_retry_is_logged_without_what_the_error_says(caplog: pytest.LogCaptureFixture) -> None:
    @retry(Policy(attempts=3, wait=constant(90, jitter="none")), sleep=lambda _: None)
    def work(password: str) -> None:
        if caplog.records:
            return
        raise ConnectionError(f"refused for {password}")

    with caplog.at_level(logging.INFO, "redrive"):
        work("hunter2")
    [record] = caplog.records
    assert record.levelno == logging.INFO
    assert record.message.endswith(
        "work failed, attempt 1, transient (ConnectionError); next attempt in 1m30s"
    )
    assert "hunter2" not in caplog.text


def test_methods_partials_and_objects() -> None:
    class Client:
        def __init__(self) -> None:
            self.work = Failing(*down(1))

        @retry(Policy(attempts=2, wait=constant(0)))
        def get(self, path: str) -> object:
            """Get it."""
            return self.work(path)

        @staticmethod
        @retry
        def plain(path: str) -> str:
            return path

        @classmethod
        @retry(attempts=2)
        def name(cls) -> str:
            return cls.__name__

    assert Client().get("/x") == (("/x",), {})
    assert (Client.plain("p"), Client.name()) == ("p", "Client")
    assert (Client.get.__name__, Client.get.__doc__) == ("get", "Get it.")
    assert list(inspect.signature(Client.get).parameters) == ["self", "path"]
    once = retry(Policy(attempts=2, wait=constant(0)))
    assert once(functools.partial(Failing(*down(1)), 1))(2) == ((1, 2), {})


def work() -> None: ...


@each_row(
    "wrong, words",
    [
        (lambda: retry(3), "needs a function, or options such as attempts=3; found 3"),
        (lambda: retry()(7), "needs a function, or options .* found 7"),
        (lambda: retry(classmethod(work)), "put @retry below"),
        (lambda: retry()(classmethod(work)), "put @retry below @staticmethod or @classmethod"),
        (lambda: retry(staticmethod(work)), "put @retry below"),
        (lambda: retry(attempts=0), "attempts must be a whole number, 1 or more"),
        (lambda: retry(max_age="soon"), "max_age must be seconds"),
        (lambda: retry(max_age=0), "max_age must be more than 0 seconds; found 0"),
        (lambda: retry(max_age=-1), "max_age must be a finite number"),
    ],
)
def test_what_cannot_be_retried_is_refused_in_words(
    wrong: Callable[[], object], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()
