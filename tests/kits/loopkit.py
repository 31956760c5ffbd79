"""Async handlers that harm the event loop they share with others; also a program for `redrive work`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import NoReturn

from redrive import Policy, Redrive, constant
from redrive.attempts import executions

LIMIT = 2.0
"""Seconds after which a loop counts as blocked, in these tests."""
THRICE = Policy(attempts=3, wait=constant(0.01))

Shape = Callable[[], Awaitable[object]]
SHAPES: dict[str, Shape] = {}


def shape(work: Shape) -> Shape:
    """Have a handler of that shape."""
    SHAPES[getattr(work, "__name__", "")] = work
    return work


def interrupt() -> NoReturn:
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def leave() -> NoReturn:
    """Do what sys.exit() does."""
    raise SystemExit(3)


async def soon(work: Callable[[], object]) -> None:
    """Do it in a task."""
    work()


def block() -> None:
    """Let nothing else run."""
    time.sleep(float(os.environ.get("LOOP_SLEEP", "60")))


@shape
async def blocks() -> None:
    block()


@shape
async def task_blocks() -> None:
    await asyncio.create_task(soon(block))


@shape
async def callback_blocks() -> None:
    asyncio.get_running_loop().call_soon(block)
    await asyncio.sleep(60)


@shape
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


@shape
async def cancels_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
    await asyncio.sleep(60)


@shape
async def stops() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.sleep(60)


@shape
async def callback_stops() -> None:
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.stop)
    await asyncio.sleep(60)


@shape
async def closes() -> None:
    asyncio.get_running_loop().close()
    await asyncio.sleep(60)


@shape
async def interrupts() -> None:
    interrupt()


@shape
async def leaves() -> None:
    leave()


@shape
async def task_interrupts() -> None:
    task = asyncio.create_task(soon(interrupt))
    await asyncio.sleep(60)
    await task


@shape
async def task_leaves() -> None:
    task = asyncio.create_task(soon(leave))
    await asyncio.sleep(60)
    await task


@shape
async def callback_interrupts() -> None:
    asyncio.get_running_loop().call_soon(interrupt)
    await asyncio.sleep(60)


@shape
async def callback_leaves() -> None:
    asyncio.get_running_loop().call_soon(leave)
    await asyncio.sleep(60)


class Mute(Exception):
    """An error that cannot be read."""

    def __init__(self, work: Callable[[], object]) -> None:
        self.work = work

    def __str__(self) -> str:
        return f"{self.work()}"

    __repr__ = __str__


def recurse() -> object:
    """Never come to an end."""
    return recurse()


MUTE = {"interrupt": interrupt, "leave": leave, "recurse": recurse}


@shape
async def mute_interrupts() -> None:
    raise Mute(interrupt)


@shape
async def mute_leaves() -> None:
    raise Mute(leave)


@shape
async def mute_recurses() -> None:
    raise Mute(recurse)


def handlers(app: Redrive) -> None:
    """Register a culprit for each shape, and those who stand beside it."""

    @app.handler("evil")
    async def evil(name: str) -> None:
        await SHAPES[name]()

    @app.handler("good")
    async def good(seconds: float) -> None:
        await asyncio.gather(asyncio.create_task(asyncio.sleep(seconds)), asyncio.sleep(seconds))

    @app.handler("plain")
    def plain() -> None: ...


if "LOOP_URL" in os.environ:
    executions.BLOCKED = float(os.environ.get("LOOP_LIMIT", LIMIT))
    app = Redrive(os.environ["LOOP_URL"], policy=THRICE, lease=2.0)
    handlers(app)
