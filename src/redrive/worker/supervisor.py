"""Keeps worker processes running: starts another for each that ends, until it is asked to stop.

A worker writes to a pipe when it has started. If one ends before that and none has ever started, the
program is at fault and nothing is tried again. Later such an end may be part of a deployment, and an
end after the start is no reason to stop either, whatever its exit code: a handler may have chosen it.

On the same pipe a worker's heartbeat comes (`Heartbeat` in `worker/health.py`). A worker that is silent
for too long is killed. Whatever its handlers started ends with it: each worker has a session of its
own, which is killed. On Linux the supervisor is also the parent of every descendant whose own parent
died, and finds those that left the session by a mark of their worker in their environment. The next
process in its place is told under which name the dead one held its jobs, and takes them over at once.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from redrive.jobs.logger import log
from redrive.worker.health import Silence

LOST = 74  # the exit code of a worker whose store is gone: only opening it again can help
REPLACE = 75  # the exit code of a worker that asks to be replaced
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
_SPARE = 5.0  # seconds that workers have, beyond their own grace, before they are killed
HURRIED = 1.0  # seconds that running jobs have once somebody asked twice
_SLOWEST_ROUND = 0.5
"""Seconds of one round that count as silence of the workers, at most. In a longer round the supervisor
itself did not run: it was stopped, or the machine was."""
_REMEMBERED = 5  # how many names of dead processes are passed to the next one in their place
_CHUNK = 64 * 1024
_MARK = "REDRIVE_WORKER_MARK"
"""The environment variable that names the worker which a process belongs to."""
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@contextmanager
def heeding(stop: Callable[[], None], hurry: Callable[[], None] | None = None) -> Generator[None]:
    """Call `stop` at each SIGTERM and SIGINT, inside `with`, and `hurry` at each SIGQUIT."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if number == HURRY and hurry is not None:
            hurry()
        else:
            stop()

    numbers = [signal.SIGTERM, signal.SIGINT, *([HURRY] if hurry else [])]
    before = {n: signal.signal(n, on_signal) for n in numbers}
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
        self.silence = Silence(_SLOWEST_ROUND)
        """Since the last heartbeat."""
        self._started = 0.0
        self._wait = 0.0
        self._pipe = -1
        self._holder = ""  # the name under which the process holds its jobs
        self._dead: list[str] = []  # the same names of the last processes that ended here

    @property
    def has_begun(self) -> bool:
        """True if the last process has reported its start."""
        return bool(self._holder)

    def start(self, *, existing: bool) -> None:
        """Start a process; if that fails it is tried again later.

        With `existing` it creates no store: there was one, and an empty one must not replace it.
        """
        self._started = time.monotonic()
        self._holder = ""
        self.silence.end()
        self.mark = f"{os.getpid()}.{next(self._marks)}"
        self._pipe, theirs = os.pipe()
        os.set_blocking(self._pipe, False)
        command = [*self._command, "--ready", str(theirs), *(["--existing"] if existing else [])]
        command += [word for holder in self._dead for word in ("--seize", holder)]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs],
                start_new_session=True,
                env={**os.environ, _MARK: self.mark},
            )
        except OSError as error:
            log.warning("a worker could not be started, trying again: %s", error)
            self._end(failed=True)
        finally:
            os.close(theirs)

    def listen(self) -> None:
        """Read the start report and the heartbeats of the process."""
        if self._pipe < 0:
            return
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe, _CHUNK)
        if not self.has_begun:
            self._holder = data.partition(b"\n")[0].decode("utf-8", "replace")
        elif not data:
            self.silence.look()
        if data:
            self.silence.end()

    def ended(self) -> int | None:
        """Return the exit code of a process that ended since the last call; None if none did."""
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
        os.close(self._pipe)
        self._pipe = -1
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
        self._begun = False  # True if any worker has ever started

    def run(self) -> int:
        """Keep them running; returns the exit code."""
        _adopt_orphans()
        with heeding(self._on_signal):
            code = self._keep()
            self._stop()
        return code

    def _on_signal(self) -> None:
        self._asked += 1

    def _keep(self) -> int:
        while not self._asked:
            for place in self._places:
                place.listen()
                self._begun |= place.has_begun
                self._kill_silent(place)
                code = place.ended()
                self._begun |= place.has_begun
                if code is None:
                    continue
                if code in HOPELESS and not self._begun:
                    return code
                log.warning("a worker ended (%s); starting another one", _described(code))
            self._end_orphans()
            for place in self._places:
                if place.process is None and time.monotonic() >= place.start_at:
                    place.start(existing=self._begun)
            time.sleep(_POLL)
        return 0

    def _kill_silent(self, place: _Place) -> None:
        if place.process is not None and 0 < self._watchdog < place.silence.seconds:
            before = time.monotonic()
            log.error(
                "worker %d sent no heartbeat for %.0f s: a handler holds the GIL or a lock that "
                "the worker needs, or the process was stopped; it is killed. If a handler needs the "
                "GIL for that long, give it isolation='process' and a timeout, or raise --watchdog",
                place.process.pid,
                place.silence.seconds,
            )
            # If the log blocked, its reader does not read: then the worker waits for the same.
            if time.monotonic() - before < _SLOWEST_ROUND:
                place.kill()
            place.silence.end()

    def _end_orphans(self) -> int:
        living = [place for place in self._places if place.process is not None]
        pids = {place.process.pid for place in living if place.process}
        return _end_orphans(pids, {place.mark for place in living})

    def _stop(self) -> None:
        sent, end = 0, time.monotonic() + self._grace + _SPARE
        while places := [
            place for place in self._places if place.process and place.ended() is None
        ]:
            if sent < max(1, self._asked):
                sent += 1
                for place in places:
                    place.signal(signal.SIGTERM if sent == 1 else HURRY)
                if sent > 1:
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


def _described(code: int) -> str:
    if code == REPLACE:
        return "it asked to be replaced"
    if code == LOST:
        return "its store is gone"
    if code < 0:
        names = {number.value: number.name for number in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"
    return f"exit code {code}"


def _adopt_orphans() -> None:
    """Make this process the parent of orphaned descendants, where the system can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def _end_orphans(workers: Collection[int], marks: Collection[str]) -> int:
    """Kill and reap orphans of workers that ended; return how many still live.

    `workers` are our own children and `marks` theirs. An orphan without a mark cleared its
    environment: it is killed once no worker lives that could have started it.
    """
    left = 0
    for pid in _child_pids():
        if pid not in workers and not _is_reaped(pid):
            mark = _mark_of(pid)
            if mark not in marks and (mark or not workers):
                left += 1
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
    return left


def _child_pids() -> list[int]:
    me = os.getpid()
    try:
        return [int(pid) for pid in Path(f"/proc/{me}/task/{me}/children").read_text().split()]
    except OSError:
        return []


def _is_reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _mark_of(pid: int) -> str:
    """Return the mark of the worker that a process belongs to; empty if it has none."""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    match = re.search(rb"(?:^|\0)" + _MARK.encode() + rb"=([^\0]*)", environment)
    return match[1].decode("utf-8", "replace") if match else ""
