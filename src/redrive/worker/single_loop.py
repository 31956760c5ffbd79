"""An event loop for one job at a time, in a pass and in a child."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine

from redrive.jobs.logger import log
from redrive.worker.event_loop import GUARDED, guard, owner_in, owner_var

_LAST_WORDS = 1.0  # seconds in which cancelled tasks may end before their loop is closed
_BEAT = 1.0  # seconds between two heartbeats


class SingleLoop:
    """An event loop in the caller's own thread that runs one job at a time.

    An error that leaves the loop is the fault of the job that runs, unless it comes from a task that
    an earlier job left behind. An error for which `is_final` returns True (Ctrl-C, or the worker's
    order to end) is raised in any case.
    """

    def __init__(
        self,
        is_final: Callable[[BaseException], bool],
        beat: Callable[[], object] | None = None,
    ) -> None:
        self._is_final = is_final
        self._beat = beat
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_beat: asyncio.TimerHandle | None = None

    def run(self, work: Coroutine[object, object, object]) -> object:
        """Run a job to its end; raise its error, or the one with which it left the loop."""
        loop, owner = self._loop or self._new(), object()
        task = loop.create_task(_owned_by(owner, work))
        self._start_beat(loop)
        try:
            while True:
                try:
                    return loop.run_until_complete(task)
                except BaseException as error:
                    if task.done():
                        raise
                    culprit = owner_in(sys.exc_info()[2])
                    if self._is_final(error) or culprit is None or culprit is owner:
                        self.close()
                        raise
                    log.exception("a task that an ended job left behind failed")
        finally:
            if self._next_beat is not None:
                self._next_beat.cancel()

    def _new(self) -> asyncio.AbstractEventLoop:
        self._loop = loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        guard(loop, GUARDED, _refuse)
        return loop

    def _start_beat(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._beat is not None:
            self._beat()
            self._next_beat = loop.call_later(_BEAT, self._start_beat, loop)

    def close(self) -> None:
        """Cancel what is left on the loop and close it; the next job gets another one."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=_LAST_WORDS))
            loop.run_until_complete(type(loop).shutdown_asyncgens(loop))
        except BaseException as error:
            if self._is_final(error):
                raise
            log.exception("tasks that a job left on its event loop could not be cancelled")
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _owned_by(owner: object, work: Coroutine[object, object, object]) -> object:
    owner_var.set(owner)
    return await work


def _refuse(name: str, *_: object, **__: object) -> None:
    raise RuntimeError(f"a handler called {name}() of an event loop that other jobs use too")
