"""`retrying`: blocks of code that are retried in place."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from redrive import GiveUp, Policy, constant, exponential, retrying
from redrive.errors import UsageError
from redrive.in_place.options import RetryEvent
from redrive.in_place.waiting import no_waiting
from tablekit import each_row

DOUBLING = exponential(1, jitter="none")


def test_a_block_is_tried_until_it_succeeds() -> None:
    slept: list[float] = []
    numbers: list[int] = []
    for attempt in retrying(on=KeyError, wait=DOUBLING, sleep=slept.append):
        with attempt:
            numbers.append(attempt.number)
            if attempt.number < 3:
                raise KeyError
    assert (numbers, slept) == ([1, 2, 3], [1.0, 2.0])


def test_an_async_block_waits_without_blocking_the_loop() -> None:
    async def program() -> list[str]:
        seen: list[str] = []

        async def other() -> None:
            seen.append("other")

        async for attempt in retrying(wait=constant(0)):
            with attempt:
                seen.append(f"attempt {attempt.number}")
                if attempt.number == 1:
                    task = asyncio.ensure_future(other())
                    raise ConnectionError
        await task
        return seen

    assert asyncio.run(program()) == ["attempt 1", "other", "attempt 2"]


def test_the_last_error_itself_is_raised_with_a_note(caplog: pytest.LogCaptureFixture) -> None:
    errors = [ConnectionError(), ConnectionError()]
    left = list(errors)

    def work() -> None:
        for attempt in retrying(Policy(attempts=2)):
            with attempt:
                raise left.pop(0)

    caplog.set_level(logging.WARNING, "redrive")
    with no_waiting(), pytest.raises(ConnectionError) as caught:
        work()
    assert caught.value is errors[1]
    assert caught.value.__context__ is None
    assert len(caught.value.__notes__) == 1
    assert caplog.records[0].message.startswith(f"{work.__qualname__}: given up after 2 ")


@each_row("error", [ValueError("a bug"), GiveUp("no"), KeyboardInterrupt()])
def test_what_is_not_retried_passes_untouched(error: BaseException) -> None:
    numbers: list[int] = []

    def work() -> None:
        for attempt in retrying():
            with attempt:
                numbers.append(attempt.number)
                raise error

    with pytest.raises(type(error)) as caught:
        work()
    assert caught.value is error
    assert numbers == [1]
    assert not hasattr(error, "__notes__")


def test_break_return_and_continue_end_the_loop() -> None:
    def first() -> int:
        for attempt in retrying():
            with attempt:
                return attempt.number
        return 0

    numbers: list[int] = []
    for attempt in retrying():
        with attempt:
            numbers.append(attempt.number)
            continue
    for attempt in retrying():
        with attempt:
            numbers.append(attempt.number)
            break
    assert (first(), numbers) == (1, [1, 1])


def test_the_hook_sees_the_attempts_of_a_block() -> None:
    seen: list[RetryEvent] = []
    with no_waiting():
        for attempt in retrying(on_retry=seen.append):
            with attempt:
                if attempt.number == 1:
                    raise ConnectionError
    assert [event.name for event in seen] == [
        test_the_hook_sees_the_attempts_of_a_block.__qualname__
    ]


def forgotten() -> None:
    for _ in retrying():
        pass


async def forgotten_async() -> None:
    async for _ in retrying():
        pass


@each_row(
    "wrong, words",
    [
        (forgotten, "must be in `with attempt:`"),
        (lambda: asyncio.run(forgotten_async()), "must be in `with attempt:`"),
        (lambda: retrying(3), "a policy is a Policy"),  # type: ignore[arg-type]
        (lambda: retrying(KeyError), r"write retrying\(on=KeyError\)"),  # type: ignore[arg-type]
        (lambda: retrying([KeyError, OSError]), r"retrying\(on=\(KeyError, OSError\)\)"),  # type: ignore[arg-type]
        (lambda: retrying(timeout=3), "timeout is an option for functions; a block has none"),  # type: ignore[call-arg]
        (lambda: retrying(fallback=3), "fallback is an option for functions"),  # type: ignore[call-arg]
        (lambda: iter(retrying(sleep=asyncio.sleep)), "sleep must be plain too"),
        (lambda: retrying(on=[KeyError]), "on takes a subclass of Exception"),  # type: ignore[arg-type]
    ],
)
def test_a_block_that_cannot_work_is_refused(wrong: Callable[[], object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        wrong()
