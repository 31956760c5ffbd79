"""`@retry` and `retrying` under trio and anyio, without an option that names them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from redrive import Policy, constant, exponential, retry, retrying
from redrive.errors import UsageError
from redrive.in_place.waiting import no_waiting

Program = Callable[[], Awaitable[Any]]

LOOPS: dict[str, Callable[[Program], Any]] = {
    "trio": trio.run,
    "anyio on trio": lambda program: anyio.run(program, backend="trio"),
    "anyio on asyncio": lambda program: anyio.run(program, backend="asyncio"),
}


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Program], Any]:
    return LOOPS[request.param]


def test_a_function_waits_by_the_running_loop(run: Callable[[Program], Any]) -> None:
    calls: list[int] = []

    @retry(wait=constant("1ms"))
    async def work() -> str:
        calls.append(1)
        await anyio.lowlevel.checkpoint()
        if len(calls) < 3:
            raise ConnectionError
        return "done"

    assert run(work) == "done"
    assert len(calls) == 3


def test_under_trio_the_waits_are_those_of_the_policy() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)

    @retry(Policy(attempts=4, wait=exponential(10, jitter="none")))
    async def work() -> None:
        raise ConnectionError

    async def program() -> float:
        with pytest.raises(ConnectionError):
            await work()
        return trio.current_time()

    began = clock.current_time()
    assert trio.run(program, clock=clock) - began == pytest.approx(70.0)


def test_a_block_waits_by_the_running_loop(run: Callable[[Program], Any]) -> None:
    async def program() -> list[int]:
        numbers: list[int] = []
        async for attempt in retrying(wait=constant("1ms")):
            with attempt:
                numbers.append(attempt.number)
                if attempt.number < 3:
                    raise ConnectionError
        return numbers

    assert run(program) == [1, 2, 3]


def test_a_timeout_under_trio_is_refused() -> None:
    @retry(timeout="1h")
    async def work() -> None:
        await anyio.sleep_forever()

    with pytest.raises(UsageError, match="timeout needs asyncio"):
        trio.run(work)


def test_cancelling_from_outside_is_never_retried(run: Callable[[Program], Any]) -> None:
    calls: list[int] = []

    @retry
    async def work() -> None:
        calls.append(1)
        await anyio.sleep_forever()

    async def program() -> bool:
        with anyio.move_on_after(0.01) as scope:
            await work()
        return scope.cancelled_caught

    assert run(program)
    assert calls == [1]


def test_tests_switch_the_waits_off(run: Callable[[Program], Any]) -> None:
    calls: list[int] = []

    @retry(Policy(attempts=3, wait=constant("1h")))
    async def work() -> None:
        calls.append(1)
        raise ConnectionError

    with no_waiting(), pytest.raises(ConnectionError):
        run(work)
    assert len(calls) == 3
