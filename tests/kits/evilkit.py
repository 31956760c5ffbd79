"""A program whose handlers do everything they should not, and what must be recorded of each.

Children import it as `evilkit:app`. In `ENDS` stand the category (empty: it is done) and a pattern of
the reason; whatever a handler did, the next job of the same child must find all as it was.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ctypes
import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import redrive
from redrive import Redrive

app = Redrive("memory:")

ENDS: dict[str, tuple[str, str]] = {}
LATE = ("timeout", r"ran past its time limit of 0\.3 s")

Function = Callable[..., object]


def evil(category: str, why: str = "", **options: Any) -> Callable[[Function], Function]:
    """Register a handler under its own name, with the end it must come to."""

    def register(function: Function) -> Function:
        ENDS[function.__name__] = (category, why)
        app.handler(function.__name__, **options)(function)
        return function

    return register


@app.handler("look")
def look() -> None:
    """Fail unless everything is as a handler may expect it."""
    mask = os.umask(0o022)
    os.umask(mask)
    for descriptor in range(3):
        os.fstat(descriptor)
    assert Path.cwd() == Path(os.environ["PWD"])
    assert mask == 0o022
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    assert sys.stdin.read() == ""
    redrive.current()


@app.handler("say")
def say(text: str, size: int = 0) -> str:
    """Print, and return something that nobody asks for."""
    print(text)  # noqa: T201
    return "x" * size


@app.handler("wait_for_loss")
def wait_for_loss(began: str) -> None:
    """Go on until the lease is lost."""
    Path(began).touch()
    while not redrive.current().lease_lost:
        time.sleep(0.01)
    raise redrive.Skip("lost")


@app.handler("wait")
def wait(began: str, ended: str) -> None:
    """Go on for a long time, and clean up at the end."""
    Path(began).touch()
    try:
        time.sleep(3600)
    finally:
        Path(ended).touch()


@app.handler("sleeps_for_ever")
def sleeps_for_ever() -> None:
    """Wait for nothing."""
    time.sleep(1_000_000)


@app.handler("holds_for_ever")
def holds_for_ever() -> None:
    """Leave nobody a chance to run."""
    collections.deque(itertools.repeat(None), maxlen=0)


@app.handler("holds_for_a_while", timeout=600)
def holds_for_a_while(seconds: int) -> None:
    """Leave nobody a chance to run, for less than its time limit."""
    ctypes.PyDLL(None).sleep(seconds)


@app.handler("takes_its_time")
def takes_its_time(seconds: float) -> None:
    """Work for long, and let others run."""
    time.sleep(seconds)


@app.handler("stops_for_ever")
def stops_for_ever() -> None:
    """Stop the whole process."""
    os.kill(os.getpid(), signal.SIGSTOP)


@app.handler("leaves_a_holder")
def leaves_a_holder() -> None:
    """Leave a thread that lets nobody run, soon after this job's answer."""
    threading.Timer(0.5, holds_for_ever).start()


@app.handler("forks_for_ever")
def forks_for_ever() -> None:
    """Be two, neither of which listens to anybody."""
    os.fork()
    holds_for_ever()


@evil(*LATE, timeout=0.3)
def sleeps() -> None:
    time.sleep(3600)


@evil(*LATE, timeout=0.3)
def spins() -> None:
    while True:
        pass


@evil(*LATE, timeout=0.3)
def blocks() -> None:
    ctypes.CDLL(None).sleep(3600)


@evil(*LATE, timeout=0.3)
def holds_the_interpreter() -> None:
    collections.deque(itertools.repeat(None), maxlen=0)


@evil(*LATE, timeout=0.3)
def ignores_the_signal() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


@evil(*LATE, timeout=0.3)
def catches_everything() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(3600)


@evil(*LATE, timeout=0.3)
async def awaits() -> None:
    await asyncio.sleep(3600)


@evil(*LATE, timeout=0.3)
async def stalls_the_loop() -> None:
    time.sleep(3600)  # noqa: ASYNC251 - that is the point


@evil("crash", "exited with code 0")
def leaves() -> None:
    os._exit(0)


@evil("crash", "killed by SIGSEGV")
def segfaults() -> None:
    ctypes.string_at(0)


@evil("crash", "killed by SIGABRT")
def aborts() -> None:
    os.abort()


@evil("crash", "killed by SIGILL")
def runs_nonsense() -> None:
    signal.raise_signal(signal.SIGILL)


@evil("crash", "killed by SIGKILL")
def is_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@evil("crash", "killed by SIGKILL")
def kills_its_group() -> None:
    os.killpg(0, signal.SIGKILL)


@evil("unknown", "MemoryError")
def wants_too_much() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
    bytearray(1 << 31)


class Strange(BaseException):
    """An error that `except Exception` does not catch."""


@evil("unknown", "Strange")
def raises_a_base_exception() -> NoReturn:
    raise Strange


@evil("unknown", "SystemExit")
def exits() -> NoReturn:
    sys.exit(0)


@evil("unknown", "KeyboardInterrupt")
def interrupts() -> NoReturn:
    raise KeyboardInterrupt


@evil("unknown", "KeyboardInterrupt")
async def interrupts_the_loop() -> NoReturn:
    raise KeyboardInterrupt


@evil("unknown", "CancelledError")
async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


class Mute(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@evil("unknown", "Mute")
def raises_what_cannot_be_said() -> NoReturn:
    raise Mute


class Long(Exception):
    """An error that is 100 MB long."""

    def __str__(self) -> str:
        return "long " * (20 << 20)


@evil("unknown", "Long")
def raises_a_long_story() -> NoReturn:
    raise Long


@evil("unknown", "OSError")
def raises_half_characters() -> NoReturn:
    raise OSError("\udcff \ud800 \x00 \x1b[2J")


@evil("permanent", "never again")
def gives_up() -> NoReturn:
    raise redrive.GiveUp("never again")


@evil("", "nothing to do")
def skips() -> NoReturn:
    raise redrive.Skip("nothing to do")


@evil("")
def moves() -> None:
    os.chdir("/")
    os.umask(0o777)


@evil("")
def takes_signals() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


@evil("")
def prints_much() -> None:
    block = b"x" * 1023 + b"\n"
    for _ in range(1 << 10):
        os.write(1, block * (1 << 10))


@evil("")
def leaves_a_process() -> None:
    if not os.fork():
        time.sleep(3600)


@evil("")
def leaves_an_orphan() -> None:
    if not os.fork():
        if not os.fork():
            time.sleep(3600)
        os._exit(0)
    os.wait()


@evil(*LATE, timeout=0.3)
def forks_and_hangs() -> None:
    os.fork()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)
