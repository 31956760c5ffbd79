"""Keeps worker processes running: starts another for each that ends, until it is told to stop.

A worker says when it has started, on a pipe. Ends before that count as the program's own fault while
none has ever started: then nothing is tried again. Later they are bad luck, or a deployment that is
under way, and so is every end after that, whatever its exit code: a handler may have chosen it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType

from redrive._log import log

REPLACE = 75
"""The exit code of a worker that asks to be replaced."""
HOPELESS = frozenset({1, 2})
"""The exit codes of a worker that can never start: the program is broken, not there, or misused."""
HURRY = signal.SIGQUIT
"""Ends a worker faster. SIGTERM and SIGINT do not, however often: terminals and service managers
send them to every process, and then the supervisor does so too."""
_POLL = 0.1
_QUICK = 10.0
"""A worker that ended sooner than this many seconds after its start is started again later."""
_LONGEST_WAIT = 5.0
_LONGEST_PAUSE = 1.0
"""The same for one that had started: somebody else killed it, and its work waits."""
_SPARE = 5.0
"""Seconds that workers have, beyond their own grace, before they are killed."""


@contextmanager
def heeding(stop: Callable[[], None], hurry: Callable[[], None] | None = None) -> Generator[None]:
    """Call `stop` at each SIGTERM and SIGINT, inside `with`, and `hurry` at what asks for it."""

    def heed(number: int, _frame: FrameType | None) -> None:
        if number == HURRY and hurry is not None:
            hurry()
        else:
            stop()

    numbers = [signal.SIGTERM, signal.SIGINT, *([HURRY] if hurry else [])]
    before = {n: signal.signal(n, heed) for n in numbers}
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
        self._ears = -1
        self.has_begun = False
        """Whether the last process said that it has started."""

    def start(self) -> None:
        """Start a process; one that cannot be is tried again later."""
        self._started = time.monotonic()
        self.has_begun = False
        self._ears, mouth = os.pipe()
        os.set_blocking(self._ears, False)
        command = [*self._command, "--ready", str(mouth)]
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[mouth])  # noqa: S603 - our own
        except OSError as error:
            log.warning("a worker could not be started, trying again: %s", error)
            self._end(failed=True)
        finally:
            os.close(mouth)

    def listen(self) -> None:
        """Hear whether the process has started."""
        if self._ears >= 0 and not self.has_begun:
            with contextlib.suppress(BlockingIOError):
                self.has_begun = bool(os.read(self._ears, 1))

    def ended(self) -> int | None:
        """Give the exit code of a process that ended since the last look."""
        if self.process is None or (code := self.process.poll()) is None:
            return None
        self.listen()
        self.process = None
        lived = time.monotonic() - self._started
        self._end(failed=code not in {0, REPLACE} and lived <= _QUICK)
        return code

    def _end(self, *, failed: bool) -> None:
        os.close(self._ears)
        self._ears = -1
        longest = _LONGEST_PAUSE if self.has_begun else _LONGEST_WAIT
        self._wait = min(longest, max(0.1, self._wait * 2)) if failed else 0.0
        self.start_at = time.monotonic() + self._wait


class Supervisor:
    """Runs a command in several processes; SIGTERM or SIGINT stops them all, twice is faster."""

    def __init__(self, command: Sequence[str], processes: int, grace: float) -> None:
        self._places = [_Place(command) for _ in range(processes)]
        self._grace = grace
        self._asked = 0
        self._begun = False
        """Whether any worker has ever started."""

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
                place.listen()
                self._begun |= place.has_begun
                if code in HOPELESS and not self._begun:
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
                    process.send_signal(signal.SIGTERM if told == 1 else HURRY)
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
        names = {one.value: one.name for one in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"
    return f"exit code {code}"
