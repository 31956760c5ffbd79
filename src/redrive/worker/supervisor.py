"""Keeps worker processes running: starts another for each that ends, until it is told to stop.

A worker says when it has started, on a pipe. Ends before that count as the program's own fault while
none has ever started: then nothing is tried again. Later they are bad luck, or a deployment that is
under way, and so is every end after that, whatever its exit code: a handler may have chosen it.

On the same pipe a worker's heartbeat comes (`worker/heartbeat.py`). A worker that is silent for too
long is killed. Whatever its handlers started ends with it: each worker has a session of its own,
which is killed, and what left that session is found by its mark (`worker/orphans.py`). The next
process in its place is told under which name the dead one held its jobs, and takes them over at once.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import FrameType

from redrive.jobs.logger import log
from redrive.worker import orphans

LOST = 74
"""The exit code of a worker whose store is gone: only opening it again can help."""
REPLACE = 75
"""The exit code of a worker that asks to be replaced."""
WATCHDOG = 8.0
"""Seconds of silence after which a worker is replaced: with the start of the next one, its jobs go on
within 10 s. A heartbeat needs nothing but the GIL, so an overloaded machine does not stop it. Less
than what is left of a lease of 30 s that was renewed every 10 s: a worker that hangs is dead before
another may start its jobs."""
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
HURRIED = 1.0
"""Seconds that running jobs have once somebody asked twice."""
_SLOWEST_ROUND = 0.5
"""Seconds of one round that count at most as silence of the workers. A longer round means that the
supervisor itself did not run: it was stopped, or the machine was."""
_REMEMBERED = 5
"""Names of dead processes that the next one in their place is told."""
_CHUNK = 64 * 1024


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

    _marks = itertools.count(1)

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.mark = ""
        self.start_at = 0.0
        self.silence = 0.0
        """Seconds since the last heartbeat in which the supervisor ran."""
        self._started = 0.0
        self._wait = 0.0
        self._ears = -1
        self._holder = ""
        """The name under which the process holds its jobs."""
        self._dead: list[str] = []
        """The same names of the last processes that ended here."""

    @property
    def has_begun(self) -> bool:
        """Whether the last process said that it has started."""
        return bool(self._holder)

    def start(self, *, existing: bool) -> None:
        """Start a process; one that cannot be is tried again later.

        With `existing` it makes no store: there was one, and an empty one in its place helps nobody.
        """
        self._started = time.monotonic()
        self._holder, self.silence = "", 0.0
        self.mark = f"{os.getpid()}.{next(self._marks)}"
        self._ears, mouth = os.pipe()
        os.set_blocking(self._ears, False)
        command = [*self._command, "--ready", str(mouth), *(["--existing"] if existing else [])]
        command += [word for holder in self._dead for word in ("--seize", holder)]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[mouth],
                start_new_session=True,
                env={**os.environ, orphans.MARK: self.mark},
            )
        except OSError as error:
            log.warning("a worker could not be started, trying again: %s", error)
            self._end(failed=True)
        finally:
            os.close(mouth)

    def listen(self, ran: float = 0.0) -> None:
        """Hear whether the process has started and lives; `ran` is how long nobody listened."""
        if self._ears < 0:
            return
        heard = b""
        with contextlib.suppress(BlockingIOError):
            heard = os.read(self._ears, _CHUNK)
        if not self.has_begun:
            self._holder = heard.partition(b"\n")[0].decode("ascii", "replace")
        elif not heard:
            self.silence += ran
        if heard:
            self.silence = 0.0

    def ended(self) -> int | None:
        """Return the exit code of a process that ended since the last look."""
        if self.process is None or not _has_exited(self.process):
            return None
        self.listen()
        self.kill()
        code = self.process.wait()
        self.process = None
        lived = time.monotonic() - self._started
        self._end(failed=code not in {0, REPLACE} and lived <= _QUICK)
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the process alone."""
        if self.process is not None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """Kill the process and its group; it is not reaped yet, so nobody else can have its number."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def _end(self, *, failed: bool) -> None:
        os.close(self._ears)
        self._ears = -1
        if self._holder:
            self._dead = [*self._dead, self._holder][-_REMEMBERED:]
        longest = _LONGEST_PAUSE if self.has_begun else _LONGEST_WAIT
        self._wait = min(longest, max(0.1, self._wait * 2)) if failed else 0.0
        self.start_at = time.monotonic() + self._wait


def _has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a process ended; it is not reaped, where the system can tell without."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, flags) is not None


class Supervisor:
    """Runs a command in several processes; SIGTERM or SIGINT stops them all, twice is faster.

    A process that is silent for `watchdog` seconds is replaced; 0 never does that.
    """

    def __init__(
        self,
        command: Sequence[str],
        processes: int,
        grace: float,
        *,
        watchdog: float = WATCHDOG,
    ) -> None:
        self._places = [_Place(command) for _ in range(processes)]
        self._grace = grace
        self._watchdog = watchdog
        self._asked = 0
        self._begun = False
        """Whether any worker has ever started."""

    def run(self) -> int:
        """Keep them running; returns the exit code."""
        orphans.adopt()
        with heeding(self._on_signal):
            code = self._keep()
            self._stop()
        return code

    def _on_signal(self) -> None:
        self._asked += 1

    def _keep(self) -> int:
        last = time.monotonic()
        while not self._asked:
            last, before = time.monotonic(), last
            for place in self._places:
                place.listen(min(last - before, _SLOWEST_ROUND))
                self._begun |= place.has_begun
                self._kill_silent(place)
                code = place.ended()
                self._begun |= place.has_begun
                if code in HOPELESS and not self._begun:
                    return code
                if code is not None:
                    log.warning("a worker ended (%s); another takes its place", _words(code))
            self._end_orphans()
            for place in self._places:
                if place.process is None and time.monotonic() >= place.start_at:
                    place.start(existing=self._begun)
            time.sleep(_POLL)
        return 0

    def _kill_silent(self, place: _Place) -> None:
        if place.process is not None and 0 < self._watchdog < place.silence:
            before = time.monotonic()
            log.error(
                "worker %d gave no sign of life for %.0f s: a handler holds the GIL or a lock that "
                "the worker needs, or the process was stopped; it is killed. If a handler needs the "
                "GIL for so long, give it isolation='process' and a timeout, or raise --watchdog",
                place.process.pid,
                place.silence,
            )
            # Whoever reads the log may have stopped reading: then the worker waits for the same.
            if time.monotonic() - before < _SLOWEST_ROUND:
                place.kill()
            place.silence = 0.0

    def _end_orphans(self) -> int:
        living = [place for place in self._places if place.process is not None]
        pids = {place.process.pid for place in living if place.process}
        return orphans.end(pids, {place.mark for place in living})

    def _stop(self) -> None:
        told, end = 0, time.monotonic() + self._grace + _SPARE
        while places := [one for one in self._places if one.process and one.ended() is None]:
            if told < max(1, self._asked):
                told += 1
                for place in places:
                    place.signal(signal.SIGTERM if told == 1 else HURRY)
                if told > 1:
                    end = min(end, time.monotonic() + HURRIED + _SPARE)
            if time.monotonic() > end:
                for place in places:
                    pid = place.process and place.process.pid
                    log.warning("worker %s did not end in time; it is killed", pid)
                    place.kill()
                end += _SPARE
            time.sleep(_POLL / 5)
        end = time.monotonic() + _SPARE
        while self._end_orphans() and time.monotonic() < end:
            time.sleep(_POLL / 5)


def _words(code: int) -> str:
    if code == REPLACE:
        return "it asked for it"
    if code == LOST:
        return "its store is gone"
    if code < 0:
        names = {one.value: one.name for one in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"
    return f"exit code {code}"
