"""The heartbeat of a worker process to its supervisor, and the time limit of its shutdown.

A Python thread writes a byte to the supervisor's pipe every second. Code that holds the GIL stops
this thread, so the supervisor sees that nothing else in the process runs either, and replaces it.
The thread falls silent by itself while the steering thread hangs (a handler keeps a lock that it
needs) or the clock stands still.
The same thread ends a process that does not end by itself: because a handler left a thread behind
that is not a daemon, or because something that runs at exit never returns.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from redrive.jobs.logger import log

if TYPE_CHECKING:
    from redrive.worker.worker import Worker

EVERY = 1.0
"""Seconds between two beats."""
_SPARE = 2.0
"""Seconds beyond its grace after which a worker that still drains is ended."""
_EXIT = 3.0
"""Seconds in which the process has to exit once the worker has stopped."""


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
            pause.wait(EVERY)
        with contextlib.suppress(RuntimeError, MemoryError):  # no thread can be started any more
            report = threading.Thread(target=self._report, daemon=True)
            report.start()
            report.join(EVERY)  # another thread may hold the log's lock for ever
        end_orphaned_group(self._parent)
        os._exit(self._code())

    def _is_overdue(self) -> bool:
        drained, exit_by = self._worker.drained_by, self._exit_by
        if exit_by is None and drained is not None:
            exit_by = drained + _SPARE
        return exit_by is not None and time.monotonic() > exit_by

    def _report(self) -> None:
        threads = threading.enumerate()
        names = [one.name for one in threads if not one.daemon and one.name != "MainThread"]
        left = f"threads left behind: {', '.join(names)}" if names else "something at exit hangs"
        log.error("worker %d did not exit in time (%s); it is ended", os.getpid(), left)

    def _stat(self) -> tuple[int, int]:
        found = os.fstat(self._pipe)
        return found.st_dev, found.st_ino

    def _write(self, data: bytes) -> None:
        # A handler may have closed the pipe, and its number may be another file's by now.
        with contextlib.suppress(OSError):
            if self._pipe >= 0 and self._stat() == self._identity:
                os.write(self._pipe, data)


def end_orphaned_group(parent: int) -> None:
    """Kill this worker with all that its handlers started, if its supervisor no longer can."""
    if parent and os.getppid() != parent and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
