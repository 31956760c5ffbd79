"""Looks after the event loop of a worker: goes round one that stands still, and gives it up."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from redrive.attempts import executions, presence
from redrive.attempts.leases import Task
from redrive.errors import StoreError

if TYPE_CHECKING:
    from redrive.attempts.runtime import Runtime
    from redrive.worker.dispatch import Dispatcher
    from redrive.worker.event_loop import Loop

_LOOK = 0.25
"""Seconds between two looks at the event loop."""
_STUCK = 2.0
"""Seconds for which the loop stands still before people are told and jobs do not wait for it."""


class LoopWatch:
    """Measures the loop of a worker's async handlers; tells of it in the worker's sign of life."""

    def __init__(self, dispatcher: Dispatcher, runtime: Runtime, replaced: bool) -> None:
        self._blocked: Mapping[str, object] | None = None
        """Which job blocks the loop, and since when."""
        self._dispatcher = dispatcher
        self._runtime = runtime
        self._since = runtime.clock.now()
        self._replaced = replaced
        self._next = 0.0

    def is_given_up(self) -> bool:
        """Look, if it is time; return True if the loop was blocked or broken and was given up."""
        loop, now = self._dispatcher.loop, time.monotonic()
        if loop is None or now < self._next:
            return False
        self._next = now + _LOOK
        loop.look()
        if loop.is_broken or loop.stalled >= executions.BLOCKED:
            self._dispatcher.closing |= self._replaced
            self._dispatcher.give_up_loop()
            self._note(None)
            return True
        is_stuck = loop.stalled >= min(_STUCK, executions.BLOCKED / 2)
        self._note(loop if is_stuck else None)
        if is_stuck:
            self._dispatcher.detour()
        return False

    def _note(self, stuck: Loop | None) -> None:
        """Write into the sign of life which job blocks the loop, or that none does any more."""
        if self._dispatcher.is_stuck == (stuck is not None):
            return
        self._dispatcher.is_stuck = stuck is not None
        self._blocked = None if stuck is None else self._blocking_job(stuck)
        with contextlib.suppress(StoreError):  # the next sign says it
            self.sign()

    def sign(self) -> None:
        """Write the worker's sign of life."""
        presence.sign(self._runtime, self._since, blocked=self._blocked)

    def _blocking_job(self, loop: Loop) -> Mapping[str, object]:
        said: dict[str, object] = {"since": self._runtime.clock.now() - loop.stalled}
        if isinstance(loop.culprit, Task):
            said |= {"job": loop.culprit.claim.job.id, "handler": loop.culprit.entry.name}
        return said
