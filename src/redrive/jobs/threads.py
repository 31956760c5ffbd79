"""The async edge: sync verbs on threads of our own, so the default executor stays free."""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "redrive-aio"


class Threads:
    """A few threads, started when first needed; a forked child starts its own."""

    def __init__(self, most: int = 8) -> None:
        self._most = most
        self._pid = 0
        self._pool: ThreadPoolExecutor | None = None

    def pool(self) -> ThreadPoolExecutor:
        """Return the threads of this process."""
        if self._pool is None or self._pid != os.getpid():
            from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - async callers only

            self._pool = ThreadPoolExecutor(max_workers=self._most, thread_name_prefix=_NAME)
            self._pid = os.getpid()
        return self._pool

    def close(self, *, wait: bool = True) -> None:
        """Let the threads go, and wait for what runs; the next use starts new ones.

        One of them (`await app.aio(app.close)`) cannot wait for itself, and waits for none.
        """
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            is_one = threading.current_thread().name.startswith(_NAME)
            pool.shutdown(wait=wait and not is_one, cancel_futures=not wait)


async def hop(threads: Threads, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a sync function on another thread, in this context."""
    import asyncio  # noqa: PLC0415 - the awaiting program has imported it

    call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(threads.pool(), call)


async def hop_to_end(
    threads: Threads, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """Do the same; if the await is cancelled, wait until the function has ended."""
    import asyncio  # noqa: PLC0415 - the awaiting program has imported it

    going = asyncio.ensure_future(hop(threads, function, *args, **kwargs))
    try:
        return await asyncio.shield(going)
    except asyncio.CancelledError:
        await asyncio.wait([going])
        raise
