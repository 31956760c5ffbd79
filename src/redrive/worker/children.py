"""Children: reused processes that run one handler at a time and can be ended at any moment.

A `Child` is the worker's handle. It starts its process when it is first needed, keeps it for the
next job, and replaces it when it died, was ended, or reports that a handler left something changed.
Whatever a handler does there, `run` returns an outcome: an answer, a timeout, or a crash with the exact
signal or exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from redrive.attempts import executions
from redrive.errors import ChildFailed
from redrive.jobs.job import Category, Job
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed, Interrupted, Outcome
from redrive.registry import Entry
from redrive.worker.child_process import Message, Process, outcome_in, run_message
from redrive.worker.health import Silence
from redrive.worker.programs import importable

_START_WITHIN = 60.0  # seconds a program has to be imported
_STEP = 1.5
"""Seconds that one look adds to the silence, at most: both processes may have stood still."""
_LAST_WORDS = 1.0  # seconds in which a process that is no longer needed may end by itself


@dataclass(frozen=True, slots=True)
class Ran:
    """How a job ended in a child."""

    outcome: Outcome
    started: float
    duration: float


class Child:
    """Runs jobs of the program `module:attribute`, one at a time, from whatever thread.

    A handler that is late is asked to end, and killed `grace` seconds later.
    Other threads may call `lose` and `stop` at any time.
    """

    def __init__(self, program: str, *, grace: float = 5.0) -> None:
        self.program = program
        self.grace = grace
        self._process: Process | None = None
        self._job_id: str | None = None
        self._is_lost = False
        self._stop: float | None = None
        self._lock = threading.Lock()
        self._pipe: tuple[int, int] | None = None  # one byte into it ends a wait
        _children.add(self)

    def run(
        self,
        job: Job,
        entry: Entry,
        *,
        hurried: bool = False,
        on_start: Callable[[], object] | None = None,
    ) -> Ran:
        """Run a job to its end, whatever that is; `on_start` is called when its handler begins.

        ChildFailed means that the handler did not begin, so the job can be returned unspent.
        """
        with self._lock:
            self._job_id, self._is_lost = job.id, False
        try:
            # Twice: an idle process may have died meanwhile, which is not the job's fault.
            for _ in range(2):
                process = self._ready()
                if process is None:
                    return Ran(Interrupted(), time.time(), 0.0)
                todo = run_message(job, _name_of(entry.function.__module__) or "", hurried=hurried)
                if ran := self._attempt(process, todo, job, entry, on_start):
                    return ran
            raise self._failed("it ended before it started a job")
        except OSError as error:
            raise self._failed(str(error)) from error
        except BaseException:
            self._bury(0.0)  # it may run the job, and nobody listens to it any more
            raise
        finally:
            self._job_id = None

    def lose(self, job_id: str | None = None) -> None:
        """Send the handler that its lease is lost; a job that no longer runs here is ignored."""
        with self._lock:
            self._is_lost |= self._job_id is not None and job_id in {None, self._job_id}
        self._nudge()

    def stop(self, grace: float = 0.5) -> None:
        """End what runs: asked now, killed after `grace` seconds. Nothing is begun afterwards."""
        self._stop = grace
        self._nudge()

    def close(self) -> None:
        """End the process and close all descriptors; not while something runs."""
        self._bury()
        with self._lock:
            pipe, self._pipe = self._pipe, None
            _close(pipe)

    def _nudge(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if self._pipe is not None:
                os.write(self._pipe[1], b".")

    def _ready(self) -> Process | None:
        """Return a process that waits for a job; None if everything stops."""
        if self._process is not None:
            self._process.listen(0.0)
            if self._process.gone:
                self._bury()
        if self._stop is not None or self._process is not None:
            return None if self._stop is not None else self._process
        with self._lock:
            self._pipe = self._pipe or _pipe()
        self._process = process = Process(self.program, self._pipe[0])
        process.tell({"path": sys.path})
        until = time.monotonic() + _START_WITHIN
        while self._stop is None:
            left = until - time.monotonic()
            for message in process.listen(left):
                if "ready" in message:
                    return process
                if "broken" in message:
                    raise self._failed(str(message["broken"]))
            if process.gone:
                raise self._failed()
            if left <= 0:
                raise self._failed(f"it was not ready within {_START_WITHIN:g} s")
        self._bury(0.0)
        return None

    def _attempt(
        self,
        process: Process,
        todo: Message,
        job: Job,
        entry: Entry,
        on_start: Callable[[], object] | None,
    ) -> Ran | None:
        """Run a job; return None if the process ended before the job began."""
        process.output.begin(job.id)
        process.tell(todo)
        ending = _Ending(process, entry, self.grace)
        answer: Message | None = None
        while answer is None and not process.gone:
            for message in process.listen(ending.due - time.monotonic()):
                if "unknown" in message:
                    raise self._failed(f"imported anew, it has no handler {entry.name!r}")
                ending.hear(message)
                if "began" in message and on_start is not None:
                    on_start()
                if "outcome" in message:
                    answer = message
            if self._is_lost:
                self._is_lost = False
                process.tell({"lost": job.id})
            if answer is None:
                ending.press(self._stop)
        process.output.finish()
        took = time.perf_counter() - ending.clock
        if answer is not None and not ending.why:
            took = answer["took"]
        outcome = self._outcome(answer, ending, entry)
        return None if outcome is None else Ran(outcome, ending.began or time.time(), took)

    def _outcome(self, answer: Message | None, ending: _Ending, entry: Entry) -> Outcome | None:
        """Return the outcome; end a process that cannot be used again."""
        if answer is None:
            how = self._bury()
            if not ending.began and not ending.why:
                log.warning("a child of %s %s before it started a job", self.program, how)
                return None
            outcome: Outcome = executions.crash(how)
        else:
            outcome = outcome_in(answer)
            if ending.why or answer.get("spoiled"):
                log.debug("a child is replaced: %s", ending.why or answer["spoiled"])
                self._bury()
        trace = outcome.failure.traceback if isinstance(outcome, Failed) else ""
        if ending.why == "late":
            return Failed(replace(executions.late(entry), traceback=trace))
        if ending.why == "blocked":
            return executions.blocked(trace) if entry.is_async else _frozen()
        if ending.why == "stopped" and isinstance(outcome, Failed):
            return Interrupted()
        return outcome

    def _failed(self, why: str = "") -> ChildFailed:
        end = self._bury()
        return ChildFailed(f"no child for {self.program}: {why or f'{end} while it started'}")

    def _bury(self, patience: float = _LAST_WORDS) -> str:
        """End the process; return how it ended."""
        process, self._process = self._process, None
        if process is None:
            return ""
        process.tell({"bye": True})
        return process.end(patience)

    def forget(self) -> None:
        """Start afresh in a fork of the worker: the process is the parent's."""
        process, self._process = self._process, None
        if process is not None:
            process.forget()
        self._lock = threading.Lock()
        pipe, self._pipe = self._pipe, None
        _close(pipe)


class _Ending:
    """When an attempt must be ended, why, and what is done next."""

    def __init__(self, process: Process, entry: Entry, grace: float) -> None:
        self._process = process
        self._grace = grace
        # An async handler is first ended by its own loop, which leaves the process whole.
        self._limit = entry.timeout and entry.timeout + (grace if entry.is_async else 0.0)
        self._is_async = entry.is_async
        self._silence = Silence(_STEP)
        self.why: Literal["", "late", "blocked", "stopped"] = ""
        self.due = float("inf")
        self.began: float | None = None
        self.clock = time.perf_counter()

    def hear(self, message: Message) -> None:
        """Start the clock when the handler begins; note each heartbeat."""
        if "began" in message:
            self.began, self.clock = message["began"], time.perf_counter()
            if self._limit is not None:
                self.due = time.monotonic() + self._limit
        if "began" in message or "beat" in message:
            self._silence.end()

    def _is_blocked(self) -> bool:
        """Return True if nothing but the handler could run for too long.

        A plain handler with a time limit may take all of it.
        """
        if self.began is not None and self._limit is not None and not self._is_async:
            return False
        return self._silence.look() >= executions.BLOCKED

    def press(self, stop: float | None) -> None:
        """Ask the handler to end, or kill it, if that is due."""
        now = time.monotonic()
        if stop is not None and not self.why:
            self._ask("stopped", now + stop)
        elif not self.why and self._is_blocked():
            self._end_blocked(now)
        elif now < self.due:
            return
        elif self.why:
            self._process.signal(signal.SIGKILL)
            self.due = float("inf")
        else:
            self._ask("late", now + self._grace)

    def _end_blocked(self, now: float) -> None:
        """End a process that is silent; only an event loop can be asked, and report where it was.

        One that did not begin is silent because of an earlier job, so nobody is charged.
        """
        if self.began is None:
            self._process.signal(signal.SIGKILL)
        else:
            self._ask("blocked", now + (self._grace if self._is_async else 0.0))

    def _ask(self, why: Literal["late", "blocked", "stopped"], due: float) -> None:
        self.why, self.due = why, due
        self._process.tell({"end": True})
        self._process.signal(signal.SIGTERM)


def _frozen() -> Failed:
    """Return the outcome of a plain handler that let nothing else run in its child."""
    why = f"held the GIL of its process for over {executions.BLOCKED:g} s, or stopped the process"
    hint = "; if it needs that long, give its handler a timeout="
    return Failed(
        replace(executions.text_failure(Category.CRASH, "Frozen", why), message=why + hint)
    )


def _close(pipe: tuple[int, int] | None) -> None:
    for end in pipe or ():
        os.close(end)


def _pipe() -> tuple[int, int]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return read, write


_name_of = cache(importable)
_children: weakref.WeakSet[Child] = weakref.WeakSet()


def _forget_all() -> None:
    for child in list(_children):
        child.forget()


os.register_at_fork(after_in_child=_forget_all)
