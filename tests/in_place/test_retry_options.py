"""Options of `@retry`: results, waits, hooks, fallback, timeout, and the switch for tests."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from redrive import Policy, RetryLater, constant, exponential, retry
from redrive.errors import AttemptTimeout, ResultRejected, UsageError
from redrive.in_place.calls import counts
from redrive.in_place.options import RetryEvent
from redrive.in_place.waiting import no_waiting
from redrive.metrics import InPlaceCollector
from redrive.testing import ManualClock
from tablekit import each_row

DOUBLING = exponential(1, jitter="none")


def always(error: Exception) -> Callable[[], Any]:
    def work() -> None:
        raise error

    return work


def run(function: Callable[..., Any]) -> Any:
    """Call a function, plain or async."""
    result = function()
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


def made(function: Callable[[], Any], *, is_async: bool) -> Callable[[], Any]:
    """Return the function, or an async one that does the same."""

    async def later() -> Any:
        return function()

    return later if is_async else function


@pytest.mark.parametrize("is_async", [False, True])
class TestResults:
    def test_a_result_that_is_rejected_is_tried_again(self, is_async: bool) -> None:
        results = [None, 0, 7]
        slept: list[float] = []
        options = {"on_result": lambda result: not result, "wait": DOUBLING}
        work = made(lambda: results.pop(0), is_async=is_async)
        assert run(retry(**options, sleep=slept.append)(work)) == 7
        assert slept == [1.0, 2.0]

    def test_the_end_is_an_error_that_has_the_last_result(self, is_async: bool) -> None:
        results = ["queued", "running", "done"]
        work = made(lambda: results.pop(0), is_async=is_async)
        ready = retry(Policy(attempts=2), on_result=lambda result: result != "done")(work)
        with no_waiting(), pytest.raises(ResultRejected, match="rejected the result of") as caught:
            run(ready)
        assert caught.value.result == "running"
        [note] = caught.value.__notes__
        assert "given up after 2 attempts, exhausted" in note

    def test_what_the_test_raises_is_raised_and_not_retried(self, is_async: bool) -> None:
        calls: list[int] = []

        def test(_: object) -> bool:
            raise ConnectionError("from the test")

        work = made(lambda: calls.append(1), is_async=is_async)
        with no_waiting(), pytest.raises(ConnectionError, match="from the test") as caught:
            run(retry(on_result=test)(work))
        assert calls == [1]
        assert not hasattr(caught.value, "__notes__")

    def test_results_and_errors_share_the_attempts(self, is_async: bool) -> None:
        calls: list[int] = []

        def work() -> int:
            calls.append(1)
            if len(calls) % 2:
                raise ConnectionError
            return 0

        ready = retry(attempts=4, on_result=lambda n: n == 0)(made(work, is_async=is_async))
        with no_waiting(), pytest.raises(ResultRejected):
            run(ready)
        assert len(calls) == 4


def test_the_error_can_decide_the_wait() -> None:
    class Later(Exception):
        def __init__(self, wait: object) -> None:
            self.wait = wait

    errors = [Later(3), Later("1m"), Later(timedelta(seconds=5)), Later(None), Later(0)]
    slept: list[float] = []

    @retry(on=Later, attempts=9, max_age="5m", wait=lambda error: error.wait, sleep=slept.append)
    def work() -> str:
        if errors:
            raise errors.pop(0)
        return "done"

    assert work() == "done"
    assert slept[:3] == [3.0, 60.0, 5.0]
    assert 6.4 <= slept[3] <= 9.6  # the usual wait after the fourth failure
    assert len(slept) == 4  # the last wait is 0


def test_a_wait_that_ends_after_max_age_is_not_begun() -> None:
    error = ConnectionError()
    with pytest.raises(ConnectionError):
        retry(wait=lambda _: "2m", max_age="1m")(always(error))()
    assert "expired" in error.__notes__[0]


@each_row(
    "wrong, words",
    [
        (lambda: retry(wait=3), "wait must be a strategy such as exponential"),
        (lambda: retry(wait=DOUBLING.__class__), "wait must be a strategy"),
        (retry(wait=lambda _: "soon")(always(ConnectionError())), "the result of wait must be"),
        (lambda: retry(timeout=3)(lambda: None), "timeout needs an async function; .*lambda"),
        (lambda: retry(timeout=0), "timeout must be more than 0"),
        (lambda: retry(on_retry=3), "on_retry must be a plain function; found 3"),
        (lambda: retry(on_retry=asyncio.sleep), "on_retry must be a plain function"),
        (lambda: retry(stream), "stream is a generator; use @retry on a function that returns"),
        (lambda: retry(attempts=2)(async_stream), "async_stream is a generator"),
        (lambda: retry(on_result=KeyError), "on_result must be a plain function"),
        (lambda: no_waiting(attempts=0).__enter__(), "attempts must be a whole number"),
    ],
)
def test_options_that_cannot_work_are_refused(wrong: Callable[[], object], words: str) -> None:
    with no_waiting(), pytest.raises(UsageError, match=words):
        wrong()


@each_row("is_async", [False, True])
def test_on_retry_sees_every_failure_that_is_retried(is_async: bool) -> None:
    seen: list[RetryEvent] = []
    errors = [ConnectionError("one"), ConnectionError("two"), ConnectionError("three")]
    left = list(errors)

    def work() -> None:
        raise left.pop(0)

    retried = retry(Policy(attempts=3, wait=DOUBLING), on_retry=seen.append)
    with no_waiting(), pytest.raises(ConnectionError, match="three"):
        run(retried(made(work, is_async=is_async)))
    assert [(event.attempt, event.wait, event.waited) for event in seen] == [(1, 1, 0), (2, 2, 1)]
    assert [event.error for event in seen] == errors[:2]
    assert {event.failure.category for event in seen} == {"transient"}
    assert seen[0].name.endswith("later" if is_async else "work")


def test_what_the_hook_raises_is_raised() -> None:
    def wrong(_: RetryEvent) -> None:
        raise LookupError("in the hook")

    with pytest.raises(LookupError, match="in the hook"):
        retry(on_retry=wrong)(always(ConnectionError()))()


def stream() -> Iterator[int]:
    yield 1


async def async_stream() -> AsyncIterator[int]:
    yield 1


def test_giving_up_is_logged_without_what_the_error_says(caplog: pytest.LogCaptureFixture) -> None:
    with no_waiting(), caplog.at_level(logging.WARNING, "redrive"), pytest.raises(OSError):
        retry(attempts=2)(always(ConnectionError("hunter2")))()
    [record] = caplog.records
    assert (record.name, record.levelname) == ("redrive.retry", "WARNING")
    assert record.message.endswith("work: given up after 2 attempts, exhausted: ConnectionError")


def test_retries_are_counted() -> None:
    def counted_here() -> None:
        raise ConnectionError

    before = counts()
    with no_waiting(), pytest.raises(ConnectionError):
        retry(attempts=3)(counted_here)()
    name = counted_here.__qualname__
    new = {key: number for key, number in counts().items() if before.get(key) != number}
    assert new == {("retried", name, "transient"): 2, ("given_up", name, "transient"): 1}


def test_retries_are_a_metric() -> None:
    def measured() -> None:
        raise ConnectionError

    with no_waiting(), pytest.raises(ConnectionError):
        retry(attempts=3)(measured)()
    registry = CollectorRegistry()
    registry.register(InPlaceCollector())
    labels = {"function": measured.__qualname__, "category": "transient"}
    metric = "redrive_in_place_failures_total"
    assert registry.get_sample_value(metric, {"outcome": "retried", **labels}) == 2
    assert registry.get_sample_value(metric, {"outcome": "given_up", **labels}) == 1


@each_row("is_async", [False, True])
@each_row("value", [None, 0, "cached"])
def test_a_fallback_replaces_the_error_when_attempts_are_used_up(
    value: object, is_async: bool
) -> None:
    work = made(always(ConnectionError()), is_async=is_async)
    with no_waiting():
        assert run(retry(attempts=2, fallback=value)(work)) is value
        assert run(retry(max_age="1s", fallback=value)(work)) is value
        rejected = made(lambda: 1, is_async=is_async)
        assert run(retry(attempts=2, on_result=bool, fallback=value)(rejected)) is value


@each_row("policy", [None, Policy(attempts=3)])
def test_a_fallback_hides_no_bug_and_no_refusal(policy: Policy | None) -> None:
    class Unauthorized(Exception):
        status_code = 401

    with no_waiting(), pytest.raises(Unauthorized):
        retry(policy, fallback=None)(always(Unauthorized()))()
    if policy is None:
        with pytest.raises(ZeroDivisionError):
            retry(fallback=None)(always(ZeroDivisionError()))()


class TestTimeout:
    def test_an_attempt_that_hangs_is_cancelled_and_tried_again(self) -> None:
        cancelled: list[bool] = []

        @retry(on=ConnectionError, timeout=0.01, wait=constant(0))
        async def work() -> str:
            if cancelled:
                return "done"
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(True)
                raise
            return "never"

        assert asyncio.run(work()) == "done"
        assert cancelled == [True]

    def test_the_last_one_is_a_timeout_error_that_says_so(self) -> None:
        @retry(attempts=2, timeout="10ms")
        async def slow() -> None:
            await asyncio.Event().wait()

        with no_waiting(), pytest.raises(TimeoutError, match="did not end within 10ms") as caught:
            asyncio.run(slow())
        assert type(caught.value) is AttemptTimeout
        assert caught.value.__notes__ == [
            "redrive: given up after 2 attempts, exhausted: its timeout"
        ]

    def test_a_timeout_of_the_functions_own_stays_what_it_is(self) -> None:
        error = TimeoutError("from a socket")

        @retry(attempts=1, timeout="1h")
        async def work() -> None:
            raise error

        with pytest.raises(TimeoutError) as caught:
            asyncio.run(work())
        assert caught.value is error

    def test_cancelling_from_outside_is_no_timeout(self) -> None:
        async def program() -> int:
            calls = 0
            begun = asyncio.Event()

            @retry(timeout="1h")
            async def work() -> None:
                nonlocal calls
                calls += 1
                begun.set()
                await asyncio.Event().wait()

            task = asyncio.ensure_future(work())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return calls

        assert asyncio.run(program()) == 1


class TestNoWaiting:
    def test_patching_sleep_works_on_functions_decorated_before(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept: list[float] = []
        policy = Policy(attempts=3, wait=DOUBLING)
        plain = retry(policy)(always(ConnectionError()))
        later = retry(policy)(made(always(ConnectionError()), is_async=True))

        async def asleep(seconds: float) -> None:
            slept.append(seconds)

        monkeypatch.setattr(time, "sleep", slept.append)
        monkeypatch.setattr(asyncio, "sleep", asleep)
        for work in (plain, later):
            with pytest.raises(ConnectionError):
                run(work)
        assert slept == [1.0, 2.0, 1.0, 2.0]

    @pytest.mark.parametrize("is_async", [False, True])
    def test_nothing_sleeps_and_the_same_is_decided(
        self, is_async: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The time limit is reached after as many attempts as with real waits."""
        monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it slept"))
        calls: list[int] = []
        clock = ManualClock()

        def work() -> None:
            calls.append(1)
            raise ConnectionError

        options = {"max_age": "1m", "wait": DOUBLING, "clock": clock.now}
        with pytest.raises(ConnectionError):
            retry(**options, sleep=clock.advance)(work)()
        real = len(calls)
        with no_waiting(), pytest.raises(ConnectionError):
            run(retry(**options)(made(work, is_async=is_async)))
        assert len(calls) == 2 * real == 12

    def test_attempts_are_lowered_and_never_raised(self) -> None:
        calls: list[int] = []

        @retry(attempts=3)
        def work() -> None:
            calls.append(1)
            raise ConnectionError

        for limit, expected in [(1, 1), (2, 2), (9, 3), (None, 3)]:
            calls.clear()
            with no_waiting(attempts=limit), pytest.raises(ConnectionError):
                work()
            assert len(calls) == expected

    def test_it_is_restored_in_turn_and_holds_for_all_threads(self) -> None:
        def attempts() -> int:
            calls: list[int] = []

            @retry(attempts=4, sleep=lambda _: None)
            def work() -> None:
                calls.append(1)
                raise RetryLater(after=0)

            def run() -> None:
                with pytest.raises(RetryLater):
                    work()

            thread = threading.Thread(target=run)
            thread.start()
            thread.join()
            return len(calls)

        with no_waiting(attempts=3):
            with suppress(ZeroDivisionError), no_waiting(attempts=2):
                assert attempts() == 2
                raise ZeroDivisionError
            assert attempts() == 3
        assert attempts() == 4

    def test_a_sleep_of_ones_own_is_still_called(self) -> None:
        slept: list[float] = []
        with no_waiting(), pytest.raises(ConnectionError):
            retry(Policy(attempts=2, wait=DOUBLING), sleep=slept.append)(
                always(ConnectionError())
            )()
        assert slept == [1.0]
