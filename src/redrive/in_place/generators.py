"""Retrying generators in place, up to their first item.

After that an error is raised: the caller has items already, and would get them twice.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from typing import Any

from redrive.in_place.calls import Call
from redrive.in_place.options import Plan


class _Watched(Generator[Any, Any, Any]):
    """A generator that remembers if it has yielded."""

    def __init__(self, items: Generator[Any, Any, Any]) -> None:
        self._items = items
        self.has_yielded = False

    def send(self, value: object) -> object:
        item = self._items.send(value)
        self.has_yielded = True
        return item

    def throw(self, *error: Any) -> object:
        return self._items.throw(*error)

    def close(self) -> None:
        self._items.close()


def plain(
    function: Callable[..., Generator[Any, Any, Any]],
    plan: Plan,
    sleep: Callable[[Plan, Call], None],
) -> Callable[..., Generator[Any, Any, Any]]:
    """Return a generator function that begins again while it fails before its first item."""
    begin = plan.beginning()

    @functools.wraps(function)
    def retried(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        call, began = None, begin()
        while True:
            items = _Watched(function(*args, **kwargs))
            try:
                return (yield from items)
            except Exception as error:
                if items.has_yielded:
                    raise
                call = call or Call(plan, began)
                if not call.goes_on(error):
                    raise
            sleep(plan, call)

    return retried


def later(
    function: Callable[..., AsyncGenerator[Any, Any]],
    plan: Plan,
    sleep: Callable[[Plan, Call], Awaitable[None]],
) -> Callable[..., AsyncGenerator[Any, Any]]:
    """Return an async generator function that begins again while it fails before its first item."""

    @functools.wraps(function)
    async def retried(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        with suppress(StopAsyncIteration):
            begin = functools.partial(function, *args, **kwargs)
            items, item = await _first(begin, plan, sleep)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    await items.aclose()
                    raise
                except BaseException as error:  # noqa: BLE001 - it belongs to the generator
                    item = await items.athrow(error)
                else:
                    item = await items.asend(sent)

    return retried


async def _first(
    begin: Callable[[], AsyncGenerator[Any, Any]],
    plan: Plan,
    sleep: Callable[[Plan, Call], Awaitable[None]],
) -> tuple[AsyncGenerator[Any, Any], Any]:
    """Return a generator that has begun, and its first item."""
    call, began = None, plan.beginning()()
    while True:
        items = begin()
        try:
            return items, await anext(items)
        except StopAsyncIteration:
            raise
        except Exception as error:
            call = call or Call(plan, began)
            if not call.goes_on(error):
                raise
        await sleep(plan, call)
