"""Retrying in place, async: the same, with cancelling and other loops."""

from __future__ import annotations

import asyncio
import functools
import inspect

import pytest

from redrive import GiveUp, Policy, Redrive, constant, exponential, retry
from redrive.errors import UsageError
from tablekit import each_row

DOUBLING = Policy(attempts=5, wait=exponential(1, jitter="none"))


def test_it_waits_as_the_policy_says_and_gives_the_value() -> None:
    slept: list[float] = []
    calls: list[int] = []

    @retry(DOUBLING, sleep=slept.append)
    async def work(number: int) -> int:
        calls.append(number)
        await asyncio.sleep(0)
        if len(calls) < 4:
            raise ConnectionError("refused")
        return number * 2

    assert inspect.iscoroutinefunction(work)
    assert asyncio.run(work(4)) == 8
    assert (calls, slept) == ([4, 4, 4, 4], [1.0, 2.0, 4.0])


def test_a_cancelled_task_is_never_held_up() -> None:
    async def program(in_sleep: bool) -> tuple[int, bool]:
        calls = 0
        there = asyncio.Event()

        async def sleep(_: float) -> None:
            there.set()
            await asyncio.Event().wait()

        @retry(attempts=9, sleep=sleep)
        async def work() -> None:
            nonlocal calls
            calls += 1
            if in_sleep:
                raise ConnectionError
            there.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        await there.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        return calls, hasattr(caught.value, "__notes__")

    assert asyncio.run(program(in_sleep=True)) == (1, False)
    assert asyncio.run(program(in_sleep=False)) == (1, False)


def test_others_get_their_turn_and_cancelling_works_where_the_policy_waits_for_nothing() -> None:
    @retry(Policy(attempts=10_000_000, wait=constant(0), alike=True))
    async def hasty() -> None:
        raise ConnectionError

    async def program() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await hasty()

    asyncio.run(program())


def test_another_loop_brings_its_own_sleep() -> None:
    """Nothing of asyncio is touched: what the function and its sleep await reaches the loop."""

    class Request:
        def __init__(self, what: str) -> None:
            self.what = what

        def __await__(self):  # type: ignore[no-untyped-def]  # noqa: ANN204
            yield self.what

    async def sleep(delay: float) -> None:
        await Request(f"sleep {delay}")

    @retry(DOUBLING, sleep=sleep)
    async def work() -> None:
        await Request("work")
        raise ConnectionError

    coroutine = work()
    seen = [coroutine.send(None) for _ in range(5)]
    coroutine.close()
    assert seen == ["work", "sleep 1.0", "work", "sleep 2.0", "work"]


def test_methods_partials_and_objects_that_are_async() -> None:
    class Client:
        def __init__(self) -> None:
            self.calls = 0

        @retry(attempts=2, sleep=lambda _: None)
        async def get(self) -> int:
            self.calls += 1
            if self.calls == 1:
                raise ConnectionError
            return self.calls

        async def __call__(self, number: int) -> int:
            return await self.get() + number

    twice = retry(attempts=2, sleep=lambda _: None)
    assert asyncio.run(Client().get()) == 2
    assert asyncio.run(twice(Client())(1)) == 3
    assert asyncio.run(twice(functools.partial(Client(), 2))()) == 4


def test_what_cannot_be_retried_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="is not async; sleep must be plain too"):
        retry(sleep=asyncio.sleep)(lambda: None)


@each_row("is_async", [False, True])
def test_inside_a_durable_handler_both_understand_the_signals(is_async: bool) -> None:
    app = Redrive("memory:")
    calls: list[int] = []

    def plain(invoice: int) -> None:
        calls.append(invoice)
        raise ConnectionError("down") if invoice else GiveUp("no invoice 0")

    async def later(invoice: int) -> None:
        plain(invoice)

    work = retry(attempts=2, sleep=lambda _: None)(later if is_async else plain)
    pay = app.handler("pay", policy=Policy(attempts=3))(work)
    waiting, dead = pay.submit(1), pay.submit(0)
    app.run_due()
    assert app.get(waiting.id).state == "pending"
    assert (app.get(dead.id).state, app.get(dead.id).reason) == ("dead", "permanent")
    assert sorted(calls) == [0, 1, 1]
