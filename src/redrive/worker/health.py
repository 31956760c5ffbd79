"""Health of a worker: when its process, steering thread, event loop or store no longer work.

A Python thread writes a byte to the supervisor's pipe every second. Code that holds the GIL stops this
thread, so the supervisor sees that nothing else in the process runs either, and replaces it. The
thread stops writing while the steering thread hangs (a handler keeps a lock that it needs) or the
clock stands still. It also ends a process that does not exit by itself.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from redrive.attempts import executions, presence
from redrive.attempts.leases import Task
from redrive.errors import (
    StoreDamaged,
    StoreError,
    StoreForeign,
    StoreLost,
    StoreMissing,
)
from redrive.jobs.logger import lines_logged, log
from redrive.payloads import masking

if TYPE_CHECKING:
    from redrive.attempts.runtime import Runtime
    from redrive.worker.dispatch import Dispatcher
    from redrive.worker.event_loop import Loop
    from redrive.worker.worker import Worker

_BEAT = 1.0  # seconds between two heartbeats
_DRAIN_SPARE = 2.0  # seconds beyond its grace after which a worker that still drains is ended
_EXIT = 3.0  # seconds in which the process has to exit once the worker has stopped
_LONGEST_ROUND = 2.0
"""Seconds without any progress after which a round stops the heartbeat, unless it waits for the store;
the supervisor's patience comes on top."""
_LONGEST_IN_STORE = 60.0
"""The same for a round that waits for the store: a few calls, each of which may wait for a lock."""
_STORE_PATIENCE = 5.0  # seconds that a store has to come back: somebody may move it away and back
_CHECK_EVERY = 1.0  # seconds between two checks of the process
_CHECK_PATIENCE = 3.0
"""Seconds for which all checks, or all rounds, must fail: descriptors may be used up for a moment."""
RUINED_GRACE = 2.0  # seconds in which a process that cannot work any more has to end
_FILE = 1 << 26  # bytes of a file that a process must be able to make; nothing is written
_NAMED = 5  # how many handlers a worker names of those that it runs now
_LOOP_EVERY = 0.25  # seconds between two checks of the event loop
_STUCK = 2.0
"""Seconds of silence after which a loop is reported as blocked and jobs do not wait for it."""
_ANYWHERE = (StoreMissing, StoreForeign)
_FILES = (*_ANYWHERE, StoreLost, StoreDamaged)


class Silence:
    """Seconds without a heartbeat, measured by an observer that checks again and again.

    One look adds at most `step` seconds: if more passed, the observer itself did not run.
    """

    def __init__(self, step: float) -> None:
        self.seconds = 0.0
        self._step = step
        self._last = time.monotonic()

    def end(self) -> None:
        """Start from zero: there was a heartbeat."""
        self.seconds, self._last = 0.0, time.monotonic()

    def look(self) -> float:
        """Add the time since the last look; return the seconds of silence."""
        now = time.monotonic()
        self.seconds += min(now - self._last, self._step)
        self._last = now
        return self.seconds


class Heartbeat:
    """Beats while the process lives; `code` returns the exit code of a process that is ended."""

    def __init__(self, worker: Worker, pipe: int, parent: int, code: Callable[[], int]) -> None:
        self._worker = worker
        self._pipe = pipe
        self._parent = parent
        self._code = code
        self._exit_by: float | None = None
        self._identity: tuple[int, int] | None = None

    def start(self) -> None:
        """Report that the worker has started, under the name of its leases, and begin to beat."""
        if self._pipe >= 0:
            os.set_inheritable(self._pipe, False)
            os.set_blocking(self._pipe, False)
            self._identity = self._stat()
            self._write(f"{self._worker.runtime.holder}\n".encode())
        threading.Thread(target=self._beat, name="redrive-pulse", daemon=True).start()

    def stopped(self) -> None:
        """Start the time limit of the exit."""
        self._exit_by = time.monotonic() + _EXIT

    def _beat(self) -> None:
        pause, last = threading.Event(), -1.0
        while not self._is_overdue():
            last, before = time.monotonic(), last
            if last > before and self._worker.is_moving:
                self._write(b".")
            pause.wait(_BEAT)
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread can be started any more
            report = threading.Thread(target=self._report, daemon=True)
            report.start()
            report.join(_BEAT)  # another thread may hold the log's lock for ever
        end_orphaned_group(self._parent)
        os._exit(self._code())

    def _is_overdue(self) -> bool:
        drained, exit_by = self._worker.drained_by, self._exit_by
        if exit_by is None and drained is not None:
            exit_by = drained + _DRAIN_SPARE
        return exit_by is not None and time.monotonic() > exit_by

    def _report(self) -> None:
        threads = threading.enumerate()
        names = [thread.name for thread in threads if not thread.daemon]
        names = [name for name in names if name != "MainThread"]
        left = f"threads left behind: {', '.join(names)}" if names else "an exit handler hangs"
        log.error("worker %d did not exit in time (%s); it is ended", os.getpid(), left)

    def _stat(self) -> tuple[int, int]:
        status = os.fstat(self._pipe)
        return status.st_dev, status.st_ino

    def _write(self, data: bytes) -> None:
        # A handler may have closed the pipe, and its number may be another file's by now.
        with contextlib.suppress(OSError):
            if self._pipe >= 0 and self._stat() == self._identity:
                os.write(self._pipe, data)


def end_orphaned_group(parent: int) -> None:
    """Kill this worker with all that its handlers started, if its supervisor no longer can."""
    if parent and os.getppid() != parent and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


class Steering:
    """The rounds of the steering thread. A slow one is fine while it moves: the machine may be busy.

    A handler can keep a lock that the thread needs, for example one of `logging`. Then nothing is
    claimed or settled any more, though all other threads run.
    """

    def __init__(self) -> None:
        self._round = 0
        self._thread = 0
        self._place: tuple[int, ...] = ()
        """The number of the round, of log lines, the frame and the instruction."""
        self._since = 0.0

    def begin_round(self) -> None:
        """Note that the next round begins, in this thread."""
        self._round, self._thread = self._round + 1, threading.get_ident()

    @property
    def is_moving(self) -> bool:
        """True if the thread moved recently; one thread reads this again and again."""
        frame = sys._current_frames().get(self._thread)  # noqa: SLF001 - there is no other way to look
        if frame is None:
            return True
        place = (self._round, lines_logged(), id(frame), frame.f_lasti)
        now = time.monotonic()
        if place != self._place:
            self._place, self._since = place, now
        still = now - self._since
        return still < _LONGEST_ROUND or (still < _LONGEST_IN_STORE and _is_in_store(frame))


def _is_in_store(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("redrive.stores."):
            return True
        frame = frame.f_back
    return False


class StoreLoss:
    """The errors of a store since the last round in which it worked.

    A server that does not answer comes back by itself. A file that was replaced, removed or cut does
    not: an open connection refuses the right file too once it is back, so it must be opened again.
    """

    def __init__(self, *, is_server: bool) -> None:
        self._kinds = _ANYWHERE if is_server else _FILES
        self._since: float | None = None

    @property
    def is_suspected(self) -> bool:
        """True if the last round failed in a way that may be for good."""
        return self._since is not None

    def worked(self) -> None:
        """Note that a round succeeded."""
        self._since = None

    def failed(self, error: StoreError) -> bool:
        """Note an error; return True if the store has been gone for too long."""
        now = time.monotonic()
        if not isinstance(error, self._kinds):
            self._since = None
            return False
        self._since = now if self._since is None else self._since
        return now - self._since > _STORE_PATIENCE


class ProcessCheck:
    """Checks that this process can still work, whatever handlers did to it; `why` is what failed.

    A handler may limit the descriptors, the memory or the size of files of its process, move it to a
    directory that is removed, or break what our own code calls. Then only a new process helps.
    """

    def __init__(self) -> None:
        self.why = ""
        self._next = 0.0
        self._ever_passed = False
        """True if a check has ever passed: what never worked is not a handler's doing."""
        self._checks_fail_since: float | None = None
        self._rounds_fail_since: float | None = None

    def worked(self) -> None:
        """Note that a round of the worker succeeded."""
        self._rounds_fail_since = None

    def failed(self) -> None:
        """Note that a round failed, and not because of the store."""
        self._rounds_fail_since = self._rounds_fail_since or time.monotonic()

    def is_ruined(self) -> bool:
        """Check, if it is time; return True if this process has been unable to work for too long."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + _CHECK_EVERY
        self._check(now)
        if self._rounds_fail_since is not None and now - self._rounds_fail_since > _CHECK_PATIENCE:
            self.why = "every round fails"
            return True
        failing = self._checks_fail_since
        return failing is not None and now - failing > _CHECK_PATIENCE

    def _check(self, now: float) -> None:
        try:
            Path.cwd()  # children start there
            _open_file()
            _start_thread()
        except (OSError, RuntimeError, MemoryError) as error:
            self.why = f"{masking.type_name(error)}: {error}"
            if self._ever_passed:
                self._checks_fail_since = self._checks_fail_since or now
        else:
            self._ever_passed, self._checks_fail_since = True, None


def _open_file() -> None:
    make: Callable[[str], int] | None = getattr(os, "memfd_create", None)
    descriptor = os.open(os.devnull, os.O_RDONLY) if make is None else make("redrive-look")
    try:
        if make is not None:
            os.ftruncate(descriptor, _FILE)
    finally:
        os.close(descriptor)


def _start_thread() -> None:
    thread = threading.Thread(target=int, name="redrive-look", daemon=True)
    thread.start()
    thread.join(_CHECK_EVERY)


class LoopWatch:
    """Checks the event loop of the async handlers, and writes the worker's presence note."""

    def __init__(self, dispatcher: Dispatcher, runtime: Runtime, replaced: bool) -> None:
        self._blocked: Mapping[str, object] | None = None
        """Which job blocks the loop, and since when."""
        self._dispatcher = dispatcher
        self._runtime = runtime
        self._since = runtime.clock.now()
        self._replaced = replaced
        self._next = 0.0

    def is_given_up(self) -> bool:
        """Check, if it is time; return True if the loop was blocked or broken and was given up."""
        loop, now = self._dispatcher.loop, time.monotonic()
        if loop is None or now < self._next:
            return False
        self._next = now + _LOOP_EVERY
        loop.look()
        silent = loop.silence.seconds
        if loop.is_broken or silent >= executions.BLOCKED:
            self._dispatcher.closing |= self._replaced
            self._dispatcher.give_up_loop()
            self._note(None)
            return True
        is_stuck = silent >= min(_STUCK, executions.BLOCKED / 2)
        self._note(loop if is_stuck else None)
        if is_stuck:
            self._dispatcher.detour()
        return False

    def _note(self, stuck: Loop | None) -> None:
        """Write into the presence note which job blocks the loop, or that none does any more."""
        if self._dispatcher.is_stuck == (stuck is not None):
            return
        self._dispatcher.is_stuck = stuck is not None
        self._blocked = None if stuck is None else self._blocking_job(stuck)
        with contextlib.suppress(StoreError):  # it is in the next note
            self.sign()

    def sign(self) -> None:
        """Write the worker's presence note; one that drains serves nothing."""
        presence.sign(
            self._runtime,
            self._since,
            blocked=self._blocked,
            slots=self._slots(),
            drains=self._dispatcher.closing,
        )

    def _slots(self) -> dict[str, object]:
        """Return how many slots there are, how many are busy, and with which handlers since when.

        `since` is when the last of them became busy.
        """
        began: dict[str, list[float]] = {}
        ahead = self._runtime.clock.now() - time.monotonic()
        for task in list(self._dispatcher.running):
            began.setdefault(task.entry.name, []).append(round(task.began + ahead, 1))
        most = sorted(began.items(), key=lambda item: -len(item[1]))[:_NAMED]
        times = [at for times in began.values() for at in times]
        return {
            "total": self._dispatcher.concurrency,
            "busy": len(times),
            "since": max(times, default=None),
            "running": [[name, len(times), min(times)] for name, times in most],
        }

    def _blocking_job(self, loop: Loop) -> Mapping[str, object]:
        job: dict[str, object] = {"since": self._runtime.clock.now() - loop.silence.seconds}
        if isinstance(loop.culprit, Task):
            job |= {"job": loop.culprit.claim.job.id, "handler": loop.culprit.entry.name}
        return job
