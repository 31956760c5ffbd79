"""Sabotage of the worker, each by one name; a worker process calls `sabotage` before it starts."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from broken import processes
from redrive.attempts import executions
from redrive.attempts.executions import Execution
from redrive.attempts.pauses import Pauses
from redrive.jobs.outcomes import Done, Outcome
from redrive.worker import children, suspects
from redrive.worker.child_process import Message, Process, outcome_in
from redrive.worker.dispatch import Dispatcher
from redrive.worker.event_loop import Loop
from redrive.worker.suspects import Suspects


def together() -> None:
    """Claim jobs that crashed before in batches, and run them beside each other."""

    def take(self: Suspects) -> None:
        self._dispatcher.put(self._claim(100))

    _put(Suspects, "take", take)
    _put(Dispatcher, "is_apart", lambda *_: False)


def unasked() -> None:
    """Take every last attempt of a worker that died for begun."""
    _put(suspects, "never_began", lambda *_: False)


def forgiving() -> None:
    """Give back what a worker that died had, as if it had never begun: no crash is recorded."""
    _put(suspects, "never_began", lambda *_: True)


def flood() -> None:
    """Let the whole backlog of a lane go as soon as a probe succeeded."""

    def succeeded(self: Pauses, lane: str) -> None:
        if note := self._tripped(lane):
            self._store.note(note.name, None)

    _put(Pauses, "_succeeded", succeeded)


def interruptible() -> None:
    """Let a KeyboardInterrupt of a handler end the thread that runs it."""
    real = Execution.fail

    def fail(self: Execution, error: BaseException, *, captured: bool = False) -> None:
        if isinstance(error, KeyboardInterrupt):
            raise error
        real(self, error, captured=captured)

    _put(Execution, "fail", fail)


def unwatched() -> None:
    """Never look whether the event loop stands still."""
    _put(Loop, "look", lambda _: None)


def optimistic() -> None:
    """Take the death of a child for success."""
    _put(executions, "crash", lambda *_: Done())


def careless() -> None:
    """Kill a child without what it started; its lifeline, which would end that too, stays open."""
    kept: list[contextlib.ExitStack] = []

    def kill(process: Process, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process._popen.pid, number)  # noqa: SLF001
        if number == signal.SIGKILL:
            kept.append(process._open.pop_all())  # noqa: SLF001

    _put(Process, "signal", kill)


def unaware() -> None:
    """Go on with a child in which a handler changed something."""

    def unspoiled(message: Message) -> Outcome:
        message["spoiled"] = ""
        return outcome_in(message)

    _put(children, "outcome_in", unspoiled)


def _put(where: object, name: str, what: object) -> None:
    """Replace something that is there; a name that is gone is a mistake of ours."""
    assert hasattr(where, name), f"{where!r} has no {name} any more: {processes.STALE}"
    setattr(where, name, what)


_ALL: dict[str, Callable[[], None]] = {
    "together": together,
    "unasked": unasked,
    "forgiving": forgiving,
    "flood": flood,
    "interruptible": interruptible,
    "unwatched": unwatched,
    "optimistic": optimistic,
    "careless": careless,
    "unaware": unaware,
}


def sabotage(name: str) -> None:
    """Break this process; without a name it stays whole."""
    if name in _ALL:
        _ALL[name]()
    else:
        processes.sabotage(name)
