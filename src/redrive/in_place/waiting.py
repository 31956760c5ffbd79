"""Waiting between two attempts in place: by the clock or by the running event loop, or not in tests.

`time.sleep`, `asyncio.sleep` and `trio.sleep` are looked up at each wait, so a test can replace them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from redrive.errors import AttemptTimeout, UsageError
from redrive.jobs import checks, durations

T = TypeVar("T")


class _TestMode:
    """The switch for tests, the same for all threads."""

    is_on = False
    attempts: int | None = None


TEST_MODE = _TestMode()


@contextmanager
def no_waiting(attempts: int | None = None) -> Generator[None]:
    """Skip the waits of `@retry` and `retrying` in all threads, so that tests take no time.

    Everything else is decided as if the waits had passed: the number of attempts and `max_age` hold.
    `attempts` lowers the limit of attempts everywhere; 1 switches retries off. Nested uses are
    restored in turn. A `sleep=` of your own is still called.
    """
    limit = None if attempts is None else checks.whole(attempts, "attempts", least=1)
    before = TEST_MODE.is_on, TEST_MODE.attempts
    TEST_MODE.is_on, TEST_MODE.attempts = True, limit
    try:
        yield
    finally:
        TEST_MODE.is_on, TEST_MODE.attempts = before


def wait(seconds: float) -> None:
    """Block this thread for so long, unless waits are switched off."""
    if seconds > 0 and not TEST_MODE.is_on:
        time.sleep(seconds)


async def wait_async(seconds: float) -> None:
    """Wait without blocking the event loop; even for 0 seconds other tasks get their turn."""
    await _event_loop().sleep(0 if TEST_MODE.is_on else seconds)


async def limited(call: Callable[[], Awaitable[T]], seconds: float, name: str) -> T:
    """Await a call; cancel it after so many seconds and raise AttemptTimeout."""
    msg = f"{name} did not end within {durations.words(seconds)}, its timeout"
    library = _event_loop()
    if library.__name__ == "trio":
        raise UsageError("timeout needs asyncio; under trio use `with trio.fail_after(…):` instead")
    limit = library.timeout(seconds)
    try:
        async with limit:
            return await call()
    except TimeoutError as error:
        if limit.expired():
            raise AttemptTimeout(msg) from error
        raise


def _event_loop() -> Any:
    """Return the running async library, asyncio or trio; anyio runs on one of the two.

    sniffio knows which; where nothing has imported it, trio is not running.
    """
    sniffio, name = sys.modules.get("sniffio"), "asyncio"
    if sniffio is not None:
        with suppress(sniffio.AsyncLibraryNotFoundError):  # a coroutine that is driven by hand
            name = sniffio.current_async_library()
    if name not in {"asyncio", "trio"}:
        raise UsageError(
            f"@retry cannot wait under {name}: pass its sleep function, @retry(sleep={name}.sleep)"
        )
    return __import__(name)
