"""The async edge: sync verbs on threads of our own, so the default executor stays free."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    Threads = ThreadPoolExecutor
else:
    Threads = object

P = ParamSpec("P")
R = TypeVar("R")


async def hop(threads: Threads, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a sync function on another thread, in this context."""
    import asyncio  # noqa: PLC0415 - whoever awaits this has imported it

    call = partial(contextvars.copy_context().run, partial(function, *args, **kwargs))
    return await asyncio.get_running_loop().run_in_executor(threads, call)
