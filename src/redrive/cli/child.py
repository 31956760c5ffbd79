"""The other side of `worker.children`: `python -m redrive.cli.child module:app`.

A worker starts it; people do not. It imports the program, then runs one job after the other in its
main thread, while another thread listens to the worker. It never opens the store; a handler may.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Callable
from functools import cached_property, partial
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from redrive.app import Redrive
from redrive.attempts.executions import Execution, called, finished
from redrive.context import Current
from redrive.errors import ProgramMissing, UsageError
from redrive.registry import Entry
from redrive.worker.child_process import Message, decode, encode, job_in, outcome_message
from redrive.worker.programs import load_module, load_program

if TYPE_CHECKING:
    from redrive.worker.single_loop import SingleLoop

P = ParamSpec("P")
T = TypeVar("T")

_HIGH = 200  # our descriptors are above this, because some handlers close low ones
_BEAT = 1.0  # seconds between two signs that other threads than the handler's can run
_SET_SIGNAL = 10  # F_SETSIG
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


class Ended(SystemExit):
    """Raised in a handler that the worker ends; a SystemExit passes `except Exception`."""


class Line:
    """The connection to the worker, which is listened to also while a handler runs."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._socket = socket.socket(fileno=descriptor)
        self.orders: SimpleQueue[Message] = SimpleQueue()
        self.current: Current | None = None
        """The job that runs."""
        self.is_beating = threading.Event()
        """Set while a thread beats: from each order to its answer, unless an event loop beats."""
        self._is_ending = False
        self._lock = threading.Lock()
        threading.Thread(target=self._listen, name="redrive-line", daemon=True).start()
        threading.Thread(target=self._beat, name="redrive-pulse", daemon=True).start()
        # A fork of a handler's must neither answer for it nor keep the line open.
        os.register_at_fork(after_in_child=self._socket.close)

    def tell(self, message: Message) -> None:
        """Send a message to the worker."""
        with self._lock:
            self._socket.sendall(encode(message))

    def _beat(self) -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):
            while self.is_beating.wait():
                self.tell({"beat": True})
                pause.wait(_BEAT)

    def _listen(self) -> None:
        with contextlib.suppress(OSError), open(self._descriptor, "rb", closefd=False) as lines:
            for line in lines:
                self._receive(decode(line))
        os.killpg(0, signal.SIGKILL)  # the worker is gone, and nothing takes the result

    def _receive(self, message: Message) -> None:
        current = self.current
        if "lost" in message:
            if current is not None and current.job_id == message["lost"]:
                current.lose()
        elif "end" in message:
            self._is_ending = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        else:
            self.is_beating.set()
            self.orders.put(message)

    def on_term(self, _number: int, _frame: FrameType | None) -> None:
        """End the handler, once and only if the worker ordered it.

        Service managers send this signal to all processes of a worker, which then drain.
        """
        if self._is_ending and self.current is not None:
            self._is_ending = False
            raise Ended("its time limit has passed, or its worker is stopping")


class Runner:
    """Runs jobs of a program."""

    def __init__(self, app: Redrive, line: Line) -> None:
        self._app = app
        self._line = line
        self._found = _process_state()

    def run(self, message: Message) -> None:
        """Run a job and send its outcome to the worker."""
        job = job_in(message)
        entry = self._entry(job.handler, message["module"])
        if entry is None:
            self._line.is_beating.clear()
            self._line.tell({"unknown": True})
            return
        submitter = self._app.submitter
        execution = Execution(
            entry,
            job,
            submitter.settings.clock,
            lambda: submitter.store,
            hurried=message["hurried"],
        )
        self._line.tell({"began": execution.started})
        try:
            with execution:
                self._line.current = execution.context
                self._call(entry, execution)
        except BaseException as error:  # noqa: BLE001 - nobody presses Ctrl-C here: the handler raised it
            execution.fail(error)
        execution.end_copy()
        self._line.current = None
        self._line.is_beating.clear()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        end = {"took": execution.duration, "spoiled": self._changes()}
        self._line.tell(outcome_message(execution.outcome) | end)

    def _entry(self, name: str, module: str) -> Entry | None:
        """Return a handler; import its module if the program did not."""
        registry = self._app.submitter.registry
        if name not in registry.names() and module:
            with contextlib.suppress(ProgramMissing):
                load_module(module)
        return registry.get(name)

    def _call(self, entry: Entry, execution: Execution) -> None:
        if entry.is_async:
            self._line.is_beating.clear()
            self._loop.run(called(execution))
        else:
            finished(entry.function(**execution.arguments))

    @cached_property
    def _loop(self) -> SingleLoop:
        from redrive.worker.single_loop import SingleLoop  # noqa: PLC0415 - asyncio is slow to import

        return SingleLoop(
            lambda error: isinstance(error, Ended), beat=partial(self._line.tell, {"beat": True})
        )

    def _changes(self) -> str:
        """Name the process state that the handler changed."""
        now = _process_state()
        return ", ".join(name for name, value in self._found.items() if now[name] != value)


def _process_state() -> dict[str, object]:
    """Return the process state that a handler could leave changed."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "directory": _or_none(os.getcwd),
        "umask": mask,
        "signals": [signal.getsignal(number) for number in signal.valid_signals()],
        "blocked signals": signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "standard streams": [_or_none(_identity, number) for number in range(3)],
        "limits": [resource.getrlimit(limit) for limit in _LIMITS],
        "processes": _or_none(os.waitpid, -1, os.WNOHANG) is None,
    }


_LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _or_none(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    try:
        return ask(*args, **kwargs)
    except OSError:
        return None


def _moved(descriptor: int) -> int:
    """Move a descriptor out of the way; programs that a handler starts do not get it."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, min(_HIGH, allowed // 2))
    os.close(descriptor)
    return high


def _die_with(lifeline: int) -> None:
    """Have the kernel kill us, and all we start, when the other end of this pipe is closed.

    The kernel does it, so it works also while a handler holds the interpreter.
    """
    if sys.platform == "linux":
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, _SET_SIGNAL, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)


def _adopt_orphans() -> None:
    """Become the parent of processes that a handler leaves behind, so that they are noticed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def main() -> None:
    """Import the program, and run the jobs that the worker sends."""
    name, line_end, lifeline = sys.argv[1:]
    sys.argv[1:] = []
    _die_with(_moved(int(lifeline)))
    _adopt_orphans()
    line = Line(_moved(int(line_end)))
    sys.path[:] = line.orders.get()["path"]
    try:
        app = load_program(name, Redrive)
    except UsageError as error:
        line.tell({"broken": str(error)})
        sys.exit(1)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(
                line_buffering=True
            )  # so that the last lines before a crash are not lost
    signal.signal(signal.SIGTERM, line.on_term)
    runner = Runner(app, line)
    line.is_beating.clear()
    line.tell({"ready": True})
    while "bye" not in (message := line.orders.get()):
        runner.run(message)


if __name__ == "__main__":
    main()
