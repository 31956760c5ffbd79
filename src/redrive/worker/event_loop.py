"""The event loop for async handlers: one thread, measured from outside.

Handlers share the loop, so whatever one of them does to it is traced to its job: every task and
callback runs in a context that says for which job. `Loop` keeps running when an interrupt leaves a
callback, refuses to be stopped or closed by a handler, and lets no handler cancel another's job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol, cast

from redrive.attempts.leases import ALONE, Task
from redrive.jobs.logger import log
from redrive.worker.health import Silence

if TYPE_CHECKING:
    from redrive.attempts.executions import Execution

_STEP = 1.0
"""Seconds that one look adds to the silence, at most: the whole process may have stood still."""
_END = 0.5  # seconds to wait for the thread to end
GUARDED = ("shutdown_asyncgens", "shutdown_default_executor")
"""Methods of a loop that a handler may not call, because it would harm other jobs."""
_GUARDED_SHARED = ("stop", "close", *GUARDED)
"""The same for a loop on which others run at the same time."""
_RUN = asyncio.Handle._run.__code__  # noqa: SLF001 - the frame that says whose callback runs

owner_var: ContextVar[object] = ContextVar("redrive-owner", default=None)
"""The job that a task or callback belongs to: inherited by all that the handler starts."""


class Blame(Protocol):
    """Charges a job with a failure of the loop."""

    def __call__(self, owner: object, error: BaseException) -> None:
        """Count it, unless the job has ended."""
        ...


class JobTask(asyncio.Task[object]):
    """The asyncio task of one job, which only the job itself and the worker can cancel."""

    def __init__(
        self,
        work: Coroutine[object, object, object],
        loop: asyncio.AbstractEventLoop,
        job: Task,
        blame: Blame,
    ) -> None:
        super().__init__(work, loop=loop, name=f"redrive-{job.claim.job.id}")
        self.job = job
        self.is_meddled_with = False
        """True if it was cancelled by an unknown caller."""
        self._blame = blame

    def cancel(self, msg: object = None) -> bool:
        """Cancel it if the job itself asks; another job is charged for trying."""
        by = owner_var.get()
        if by is not None and by is not self.job:
            error = RuntimeError(
                f"a handler cancelled job {self.job.claim.job.id}, which is not its own"
            )
            self._blame(by, error)
            return False
        self.is_meddled_with |= by is None
        return super().cancel(msg)

    def stop(self) -> None:
        """Cancel it for the worker."""
        super().cancel()


class Loop:
    """One thread with an event loop; started when the first async task comes."""

    def __init__(
        self,
        size: int,
        perform: Callable[[Task], Coroutine[object, object, object]],
        blame: Blame,
    ) -> None:
        self.size = size
        self.is_broken = False
        """True if it can run nothing more."""
        self.silence = Silence(_STEP)
        """How long one callback has let nothing else run, as of the last look."""
        self._perform = perform
        self._blame = blame
        self._line: deque[Task] = deque()
        self._unbegun: set[Task] = set()
        """Tasks that have not begun; the one that takes it out may run it."""
        self._tasks: set[JobTask] = set()
        self._alone_until = 0.0
        self._last_end = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._has_answered = True
        self._handle: asyncio.Handle | None = None
        _loops.add(self)

    def put(self, tasks: list[Task]) -> None:
        """Queue tasks."""
        if tasks:
            self._unbegun.update(tasks)
            self._line.extend(tasks)
            self._post(self._start)

    @property
    def waiting(self) -> int:
        """How many tasks were not begun yet."""
        return len(self._unbegun)

    def take(self, task: Task) -> bool:
        """Take a task that has not begun; return False if it is taken already."""
        try:
            self._unbegun.remove(task)
        except KeyError:
            return False
        return True

    def take_back(self) -> list[Task]:
        """Return the tasks that were not begun; they never will be here."""
        return [task for task in list(self._unbegun) if self.take(task)]

    def _post(self, work: Callable[[], object]) -> None:
        """Call a function on the loop, which is started if it is not there."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            guard(self._loop, _GUARDED_SHARED, self._refuse)
            self._thread = threading.Thread(target=self._work, name="redrive-loop", daemon=True)
            self._thread.start()
        with contextlib.suppress(RuntimeError):  # closed: `look` finds out
            self._loop.call_soon_threadsafe(work)

    def _refuse(self, name: str, *_: object, **__: object) -> None:
        error = RuntimeError(f"a handler called {name}() of the event loop that it shares")
        self._blame(owner_var.get(), error)
        raise error

    def _work(self) -> None:
        loop = self._loop
        assert loop is not None  # noqa: S101 - made just before this thread
        asyncio.set_event_loop(loop)
        while not self._is_ending:
            try:
                _run_forever(loop)
            except (KeyboardInterrupt, SystemExit) as error:
                self._blame(owner_in(sys.exc_info()[2]), error)
            except BaseException:
                log.exception("the event loop of the async handlers broke")
                self.is_broken = True
                return
        for name in _GUARDED_SHARED:  # run_until_complete() calls the loop's own stop()
            with contextlib.suppress(AttributeError):
                delattr(loop, name)
        with contextlib.suppress(Exception):
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    def forget(self) -> None:
        """Run nothing more in a fork of this process: the jobs on this loop are the parent's."""
        if self._loop is not None:
            ready: deque[object] = getattr(self._loop, "_ready", deque())
            ready.clear()
            type(self._loop).stop(self._loop)

    def _start(self) -> None:
        assert self._loop is not None  # noqa: S101
        while self._line and len(self._tasks) < self.size and self._may_begin(self._line[0]):
            task = self._line.popleft()
            if task not in self._unbegun:
                continue  # taken back
            made = JobTask(self._owned(task), self._loop, task, self._blame)
            self._tasks.add(made)
            made.add_done_callback(partial(self._next, made))
            if task.alone:
                self._alone_until = time.monotonic() + ALONE
                self._start_later()

    async def _owned(self, task: Task) -> None:
        owner_var.set(task)
        if self.take(task):
            await self._perform(task)

    def _may_begin(self, task: Task) -> bool:
        """Return True unless this task, or one that runs, must be alone; not for ever: see `ALONE`."""
        now = time.monotonic()
        if not self._tasks:
            return True
        if not task.alone:
            return now >= self._alone_until
        if not task.alone_by:
            task.alone_by = now + ALONE
            self._start_later()
        return now >= task.alone_by

    def _start_later(self) -> None:
        assert self._loop is not None  # noqa: S101
        self._loop.call_later(ALONE, self._start)

    def _next(self, ended: JobTask, _: object) -> None:
        assert self._loop is not None  # noqa: S101
        self._tasks.discard(ended)
        self._last_end = time.monotonic()
        if ended.job.alone:
            self._alone_until = 0.0
        if not self._is_ending:
            self._start()
        elif not self._tasks:
            type(self._loop).stop(self._loop)

    def add_slot(self) -> None:
        """Make room for one more task, in the place of one that never ends."""
        self.size += 1
        self._post(self._start)

    @property
    def jobs(self) -> list[Task]:
        """The tasks that are on the loop now."""
        return [task.job for task in list(self._tasks)]

    def is_doubtful(self, task: Task, execution: Execution) -> bool:
        """Return True if a job ended by a cancellation that may be the doing of another job.

        Its own is certain if it cancelled its own task, or if no other job was there since it began.
        """
        if not issubclass(type(execution.error), asyncio.CancelledError):
            return False
        own = execution.cancelled and not getattr(asyncio.current_task(), "is_meddled_with", False)
        return not own and (len(self._tasks) > 1 or self._last_end >= task.began)

    def look(self) -> None:
        """Measure how long one callback has let nothing else run; to be called again and again.

        Many callbacks that each take their time are no silence: each look finds another one running.
        """
        if self._loop is None:
            return
        if self._has_answered:
            self.silence.end()
            self._handle, self._has_answered = None, False
            self._post(self._answer)
            self.is_broken |= self._loop.is_closed()
            return
        _, handle = self._running()
        if handle is not None and handle is not self._handle:
            self.silence.end()
            self._handle = handle
        else:
            self.silence.look()

    def _answer(self) -> None:
        self._has_answered = True

    def _running(self) -> tuple[list[FrameType], asyncio.Handle | None]:
        """Return the callback that runs now with the frames of its code, innermost first."""
        frames: list[FrameType] = []
        ident = self._thread.ident if self._thread else None
        frame = sys._current_frames().get(ident or 0)  # noqa: SLF001 - there is no other way to look
        while frame is not None:
            if frame.f_code is _RUN:
                return frames, frame.f_locals.get("self")
            frames.append(frame)
            frame = frame.f_back
        return [], None

    @property
    def culprit(self) -> object:
        """The job whose callback blocks the loop; None if it is not known."""
        if self._handle is not None:
            return _context_owner(self._handle)
        jobs = self.jobs
        return jobs[0] if len(jobs) == 1 else None

    def where(self) -> str:
        """Return the stack of what runs now, as in a traceback."""
        frames, _ = self._running()
        stack = traceback.StackSummary.extract(
            (frame, frame.f_lineno) for frame in reversed(frames)
        )
        return "".join(["Stack of the event loop (most recent call last):\n", *stack.format()])

    def cancel(self, job: Task | None = None) -> None:
        """Cancel a job, or all."""
        if self._loop is not None:
            self._post(partial(self._stop, job))

    def _stop(self, job: Task | None) -> None:
        for task in self._tasks:
            if job in {None, task.job}:
                task.stop()

    def abandon(self) -> None:
        """Begin nothing more; stop as soon as all tasks have ended."""
        self._is_ending = True
        self._line.clear()
        self.cancel()
        self._post(self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._loop is not None and not self._tasks:
            type(self._loop).stop(self._loop)

    def close(self) -> None:
        """End the loop, whatever is on it."""
        self._is_ending = True
        if self._loop is not None:
            self._post(partial(type(self._loop).stop, self._loop))
        if self._thread is not None:
            self._thread.join(_END)  # a handler that blocks it is left to the end of the process


def guard(
    loop: asyncio.AbstractEventLoop, names: tuple[str, ...], refuse: Callable[..., object]
) -> None:
    """Refuse calls of a loop's own methods; we call those of its class."""
    for name in names:
        with contextlib.suppress(AttributeError):
            setattr(loop, name, partial(refuse, name))


def _context_owner(handle: asyncio.Handle) -> object:
    context = cast("Context", handle._context)  # type: ignore[attr-defined]  # noqa: SLF001
    return context.get(owner_var)


def owner_in(trace: TracebackType | None) -> object:
    """Return the owner of the callback that an error left; None if it is not known."""
    while trace is not None:
        if trace.tb_frame.f_code is _RUN:
            handle = trace.tb_frame.f_locals.get("self")
            return None if handle is None else _context_owner(handle)
        trace = trace.tb_next
    return None


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; end the process if it is a fork that a handler made."""
    pid = os.getpid()
    try:
        loop.run_forever()
    finally:
        if os.getpid() != pid:
            os._exit(0)


_loops: weakref.WeakSet[Loop] = weakref.WeakSet()


def _forget_all() -> None:
    for loop in list(_loops):
        loop.forget()


os.register_at_fork(after_in_child=_forget_all)
