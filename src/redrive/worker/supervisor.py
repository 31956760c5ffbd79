"""Keeps worker processes running: starts another for each that ends, until it is told to stop."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType

from redrive._log import log

REPLACE = 75
"""The exit code of a worker that asks to be replaced."""
HOPELESS = 2
"""The exit code of a worker that can never start: the program cannot be found, an option is wrong."""
_POLL = 0.1
_QUICK = 10.0
"""A worker that ended sooner than this many seconds after its start is started again later."""
_LONGEST_WAIT = 5.0
_SPARE = 5.0
"""Seconds that workers have, beyond their own grace, before they are killed."""


@contextmanager
def heeding(stop: Callable[[], None]) -> Generator[None]:
    """Call `stop` at each SIGTERM and SIGINT, inside `with`."""

    def heed(_number: int, _frame: FrameType | None) -> None:
        stop()

    before = {n: signal.signal(n, heed) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Place:
    """One of the processes, and when to start the next in its place."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.start_at = 0.0
        self._started = 0.0
        self._wait = 0.0

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)  # noqa: S603 - our own
        self._started = time.monotonic()

    def ended(self) -> int | None:
        """Give the exit code of a process that ended since the last look."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.process = None
        now = time.monotonic()
        lived = now - self._started
        asked = code in {0, REPLACE} or lived > _QUICK
        self._wait = 0.0 if asked else min(_LONGEST_WAIT, max(0.1, self._wait * 2))
        self.start_at = now + self._wait
        return code


class Supervisor:
    """Runs a command in several processes; SIGTERM or SIGINT stops them all, twice is faster."""

    def __init__(self, command: Sequence[str], processes: int, grace: float) -> None:
        self._places = [_Place(command) for _ in range(processes)]
        self._grace = grace
        self._asked = 0

    def run(self) -> int:
        """Keep them running; gives the exit code."""
        with heeding(self._on_signal):
            code = self._keep()
            self._stop()
        return code

    def _on_signal(self) -> None:
        self._asked += 1

    def _keep(self) -> int:
        while not self._asked:
            for place in self._places:
                code = place.ended()
                if code == HOPELESS:
                    return code
                if code is not None:
                    log.warning("a worker ended (%s); another takes its place", _words(code))
                if place.process is None and time.monotonic() >= place.start_at:
                    place.start()
            time.sleep(_POLL)
        return 0

    def _stop(self) -> None:
        told, end = 0, time.monotonic() + self._grace + _SPARE
        while processes := [p.process for p in self._places if p.process and p.ended() is None]:
            if told < max(1, self._asked):
                told += 1
                for process in processes:
                    process.terminate()
            if time.monotonic() > end:
                for process in processes:
                    log.warning("worker %d did not end in time; it is killed", process.pid)
                    process.kill()
                    process.wait()
            time.sleep(_POLL / 5)


def _words(code: int) -> str:
    if code == REPLACE:
        return "it asked for it"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
