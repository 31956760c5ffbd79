"""Many callers of one fallback: threads, coroutines, stores that fail."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redrive import fallback, retry
from redrive.errors import StoreError
from redrive.stores.memory import MemoryStore
from redrive.testing import ManualClock


class Busy(Exception):
    status_code = 503


def openai_down(text: str) -> str:
    raise Busy


def claude(text: str) -> str:
    return f"claude on {text}"


def test_the_async_one_does_the_same() -> None:
    asked: list[str] = []

    async def first(text: str) -> str:
        asked.append("first")
        await asyncio.sleep(0)
        raise Busy

    async def second(text: str) -> str:
        asked.append("second")
        return text.upper()

    ask = fallback(first=first, second=second)

    async def main() -> None:
        answer = await ask("cats")
        assert (answer.value, answer.winner, len(answer.tried)) == ("CATS", "second", 1)
        assert (await ask("cats")).winner == "second"

    asyncio.run(main())
    assert asked == ["first", "second", "second"]


def test_a_cancelled_call_asks_nobody_else_and_cools_nobody() -> None:
    store, asked = MemoryStore(), []

    async def hangs() -> None:
        asked.append("hangs")
        await asyncio.Event().wait()

    async def other() -> None:
        asked.append("other")

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(fallback(store=store, first=hangs, second=other)(), 0.05)

    asyncio.run(main())
    assert asked == ["hangs"]
    assert store.notes() == []


def test_many_who_fail_at_once_make_one_cool_down() -> None:
    store = MemoryStore(clock=ManualClock())
    together = threading.Barrier(8)

    def fails() -> str:
        together.wait()
        raise Busy

    ask = fallback(store=store, openai=fails, claude=lambda: "x")
    with ThreadPoolExecutor(8) as pool:
        winners = list(pool.map(lambda _: ask().winner, range(8)))
    assert winners == ["claude"] * 8
    assert [note.expires_in for note in store.notes("pause:provider:")] == [30]
    ((remembered),) = store.notes("cooled:")
    assert '"count": 1' in remembered.value


def test_after_a_cool_down_one_caller_probes_and_the_others_do_without() -> None:
    """Nobody storms a provider that comes back."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    asked, back, go = [0], threading.Event(), threading.Event()

    def openai() -> str:
        asked[0] += 1
        if asked[0] == 1:
            raise Busy
        back.set()
        assert go.wait(10)
        return "openai"

    ask = fallback(store=store, openai=openai, claude=lambda: "claude")
    ask()
    clock.advance(31)
    with ThreadPoolExecutor(1) as pool:
        probe = pool.submit(ask)
        assert back.wait(10)
        assert [ask().winner for _ in range(5)] == ["claude"] * 5
        go.set()
        assert probe.result().winner == "openai"
    assert asked == [2]
    assert ask().winner == "openai"


class Broken(MemoryStore):
    """A store that answers nothing."""

    def notes(self, prefix: str = "") -> Any:
        raise StoreError("the disk is gone")

    def note(self, name: str, value: str | None, **_: Any) -> Any:
        return self.notes()


def test_a_store_that_does_not_answer_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ask = fallback(store=Broken(), openai=openai_down, claude=claude)
    assert [ask("cats").winner for _ in range(2)] == ["claude", "claude"]
    assert (
        "cooldowns are not stored, because the store does not answer: the disk is gone"
        in caplog.text
    )


def test_retried_in_place_it_waits_for_the_first_cool_down_to_end() -> None:
    clock = ManualClock()
    answers = iter([Busy(), Busy(), "now"])

    def openai() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    ask = fallback(store=MemoryStore(clock=clock), openai=openai)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds)

    again = retry(attempts=5, max_age="1h", sleep=sleep, rand=lambda: 0.0, clock=clock.now)(ask)
    assert again().value == "now"
    assert slept == [30, 60]
