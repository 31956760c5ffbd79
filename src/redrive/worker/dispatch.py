"""Runs tasks in a thread, on the event loop or in a child. Each ends with one settlement in `ended`.

The thread that ends a task takes it out of `running`, which works once: the late end of a task changes nothing.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from redrive.attempts import conclusions, executions
from redrive.attempts.leases import Leases, Task
from redrive.attempts.runtime import Runtime
from redrive.errors import ChildFailed
from redrive.jobs.job import Settlement
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed, Outcome
from redrive.payloads import masking
from redrive.worker import suspects
from redrive.worker.threads import ThreadPool

if TYPE_CHECKING:
    from redrive.worker.children import Child
    from redrive.worker.event_loop import Loop

_HAND_OVER = 0.02  # seconds to wait, at most, until a last attempt has begun


class Dispatcher:
    """Runs handlers for a worker; `notify` is called when a result is in `ended`."""

    def __init__(
        self,
        runtime: Runtime,
        leases: Leases,
        concurrency: int,
        program: str | None,
        *,
        notify: Callable[[], None],
    ) -> None:
        self.concurrency = concurrency
        self.program = program
        self.closing = False
        """True if nothing more begins."""
        self.ended: deque[tuple[Task, Settlement | None]] = deque()
        self.running: set[Task] = set()
        self._lasts: deque[Task] = deque()
        """Last attempts, and suspects, that wait for a free slot; the note comes before they begin."""
        self._noted: set[Task] = set()  # those of them that began and are not settled
        self._is_begun = threading.Event()
        self._out: set[Task] = set()  # the tasks that were handed out and have not ended
        self.leaked: set[str] = set()
        """The jobs whose handlers never returned."""
        self.is_refusing = False
        """True if one of them was claimed again; it cannot run here beside itself."""
        self.loop: Loop | None = None
        self.is_stuck = False
        """True if the loop is blocked, so that nothing is handed to it."""
        self._is_ending = False  # True if everything on the loop was cancelled for the shutdown
        self._runtime = runtime
        self._store = lambda: runtime.store
        self._leases = leases
        self._notify = notify
        self._pool = ThreadPool(concurrency, self._perform)
        self._children: list[Child] = []

    def _on_loop(self, tasks: list[Task]) -> None:
        """Hand tasks to the loop, which is made when the first comes: asyncio is large."""
        if tasks and self.loop is None:
            from redrive.worker.event_loop import Loop  # noqa: PLC0415

            self.loop = Loop(self.concurrency, self._perform_async, self._blame)
        if self.loop is not None:
            self.loop.put(tasks)

    @property
    def waiting(self) -> int:
        """How many tasks were handed out and not begun."""
        return self.in_line + len(self._lasts)

    @property
    def in_line(self) -> int:
        """How many tasks wait for a free slot and nothing else."""
        return self._pool.waiting + (self.loop.waiting if self.loop else 0)

    def put(self, tasks: list[Task]) -> None:
        """Hand out tasks; what may be the last attempt waits until there is a free slot for it."""
        suspects.mark_alone(self._runtime.store, [task for task in tasks if task.entry.is_async])
        mine: list[Task] = []
        leaked, is_noted = self.leaked, suspects.is_noted
        for task in tasks:
            if leaked and task.claim.job.id in leaked:
                self.is_refusing = True
                self.return_unspent(task, delay=self._runtime.lease_for)
            elif is_noted(task.claim, task.entry):
                self._lasts.append(task)
            else:
                mine.append(task)
        self._hand_out(mine)
        self.begin_lasts()

    def begin_lasts(self) -> None:
        """Begin last attempts for which there are slots, each once it is noted that it begins.

        One after the other: if one takes the process with it, those after it are not yet noted.
        """
        free = self.concurrency - len(self._out)
        for task in list(itertools.islice(self._lasts, max(0, free))):
            claims = [noted.claim for noted in (*self._noted, task)]
            suspects.note_begun(self._runtime.store, self._runtime.holder, claims)
            self._noted.add(self._lasts.popleft())
            self._is_begun.clear()
            self._hand_out([task])
            if not self.is_apart(task):
                self._is_begun.wait(_HAND_OVER)

    def forget(self, tasks: Iterable[Task]) -> None:
        """Forget tasks that are settled."""
        self._noted.difference_update(tasks)

    def _hand_out(self, mine: list[Task]) -> None:
        self._out.update(mine)
        if self.is_stuck:
            for task in mine:
                task.detoured = task.entry.is_async and task.entry.isolation != "thread"
        on_loop = [task for task in mine if task.entry.is_async and not self.is_apart(task)]
        if on_loop:
            mine = [task for task in mine if not task.entry.is_async or self.is_apart(task)]
        self._on_loop(on_loop)
        self._pool.put(mine)

    def is_apart(self, task: Task) -> bool:
        """Return True if a task runs in a child."""
        suspect = task.alone or task.claim.job.crashes > 0
        is_apart = task.detoured or task.entry.is_apart(suspect=suspect)
        return self.program is not None and is_apart

    def _perform(self, task: Task) -> bool:
        """Run a task in this thread or a child; return False if it was given up meanwhile."""
        try:
            return self._performed(task)
        except BaseException:
            log.exception("job %s could not be run; a sweep will find it", task.claim.job.id)
            self.running.discard(task)
            self._end_task(task, None)
            return True

    def _performed(self, task: Task) -> bool:
        if not self._may_begin(task):
            self.return_unspent(task)
            return True
        if self.program is not None and self.is_apart(task):
            return self._perform_apart(task)
        execution = self._begin(task)
        try:
            with execution:
                execution.value = executions.finished(task.entry.function(**execution.arguments))
        except BaseException as error:  # noqa: BLE001 - nobody presses Ctrl-C here: the handler raised it
            execution.fail(error)
        execution.end_copy()
        return self._finish(task, execution.outcome, execution.started, execution.duration)

    async def _perform_async(self, task: Task) -> None:
        """Run a task on the loop."""
        if not self._may_begin(task):
            self.return_unspent(task)
            return
        execution = self._begin(task)
        try:
            with execution:
                result = task.entry.function(**execution.arguments)
                execution.value = await executions.awaited(execution, result)
        except BaseException as error:  # noqa: BLE001 - cancelled at a shutdown, or the handler raised it
            if not (execution.cancelled and self._is_ending):
                execution.fail(error)
        execution.end_copy()
        if not self._may_be_anothers(task, execution):
            self._finish(task, execution.outcome, execution.started, execution.duration)
        elif self._took_out(task):
            log.warning("job %s was cancelled by an unknown caller; returned", task.claim.job.id)
            self._return_once(task)

    def _may_be_anothers(self, task: Task, execution: executions.Execution) -> bool:
        if self.loop is None or self._is_ending or task not in self.running or task.alone:
            return False
        return not execution.timed_out and self.loop.is_doubtful(task, execution)

    def _return_once(self, task: Task) -> None:
        """Return the job of a loop that failed, unspent; from now on it runs alone."""
        suspects.note_returned(self._runtime.store, task.claim.job.id)
        self.return_unspent(task)

    def _blame(self, owner: object, error: BaseException) -> None:
        """Count what a job did to the loop, or to jobs beside it, as a crash."""
        if isinstance(owner, Task) and owner.execution and self._took_out(owner):
            job = owner.claim.job
            log.error("job %s (%s) broke the event loop that it shares", job.id, job.handler)
            self._charge(owner, executions.broke_loop(owner.execution, error))
            if self.loop is not None:
                self.loop.cancel(owner)
        else:
            log.error("something on the event loop raised %s", masking.type_name(error))

    def _charge(self, task: Task, outcome: Outcome) -> None:
        """End a task that still runs; its handler is told, and its result will not count."""
        task.lose()
        ran = time.monotonic() - task.began
        self._conclude(task, outcome, self._runtime.clock.now() - ran, ran)

    def detour(self) -> None:
        """Run what waits for a blocked loop in children, where there can be any."""
        if self.loop is not None and self.program is not None:
            self._hand_out(self.loop.take_back())

    def give_up_loop(self) -> None:
        """End what is on a loop that failed: charge the job that did it, return the others.

        Where nobody can tell which it was, all are returned once, and charged the next time.
        """
        loop, self.loop = self.loop, None
        if loop is None:
            return
        culprit, where = loop.culprit, loop.where()
        is_certain = isinstance(culprit, Task) and (
            culprit in self.running or culprit.claim.job.id in self.leaked
        )
        waiting = loop.take_back()
        for task in loop.jobs:
            if not self._took_out(task):
                continue
            if task is culprit or (task.alone and not is_certain):
                trace = masking.mask_text(where, masking.secrets_of(task.claim.job.payload))
                self._charge(task, executions.blocked(trace))
            else:
                task.lose()
                self._return_once(task)
        loop.abandon()
        self._on_loop(waiting)

    def _may_begin(self, task: Task) -> bool:
        """Return True unless we stop, the lease may be lost, or the handler cannot run here."""
        withdrawn = self._runtime.registry.withdrawn
        return not self.closing and task.entry.name not in withdrawn and self._leases.is_safe(task)

    def _begin(self, task: Task) -> executions.Execution:
        clock, job = self._runtime.clock, task.claim.job
        task.execution = execution = executions.Execution(task.entry, job, clock, self._store)
        task.context = execution.context
        task.began = time.monotonic()
        if not self._is_begun.is_set():  # it is rarely waited for, and setting takes a lock
            self._is_begun.set()
        self.running.add(task)
        return execution

    def _perform_apart(self, task: Task) -> bool:
        from redrive.worker.children import Child  # noqa: PLC0415 - many workers need none

        assert self.program is not None  # noqa: S101 - asked before
        try:
            child = self._children.pop()
        except IndexError:
            child = Child(self.program)
        task.child, task.began = child, time.monotonic()
        self.running.add(task)
        try:
            ended = child.run(task.claim.job, task.entry)
        except ChildFailed as error:
            log.error("job %s was returned: %s", task.claim.job.id, error)  # noqa: TRY400
            child.close()
            if self._took_out(task):
                self.return_unspent(task, delay=self._runtime.lease_for)
            return True
        except Exception as error:
            log.exception("the answer from the child of job %s cannot be read", task.claim.job.id)
            child.close()
            crash = executions.crash(f"its answer cannot be read ({type(error).__name__})")
            return self._finish(task, crash, self._runtime.clock.now(), 0.0)
        self._children.append(child)
        return self._finish(task, ended.outcome, ended.started, ended.duration)

    def _took_out(self, task: Task) -> bool:
        """Take a task out of `running`; return False if that was done already."""
        try:
            self.running.remove(task)
        except KeyError:
            return False
        return True

    def _finish(self, task: Task, outcome: Outcome, started: float, duration: float) -> bool:
        if not self._took_out(task):
            log.warning("job %s ended after it was given up; discarded", task.claim.job.id)
            self.leaked.discard(task.claim.job.id)
            return False
        self._conclude(task, outcome, started, duration)
        return True

    def _conclude(self, task: Task, outcome: Outcome, started: float, duration: float) -> None:
        try:
            settlement = self._runtime.conclude(task.claim, outcome, task.entry, started, duration)
        except BaseException:
            log.exception("job %s could not be concluded; a sweep will find it", task.claim.job.id)
            self._end_task(task, None)
        else:
            self._end_task(task, settlement)

    def return_unspent(self, task: Task, delay: float | None = None) -> None:
        """Return a claim unspent."""
        self._end_task(task, conclusions.returned(task.claim, delay))

    def _end_task(self, task: Task, settlement: Settlement | None) -> None:
        self._out.discard(task)
        self.ended.append((task, settlement))
        self._notify()

    def give_up_late(self) -> None:
        """Settle what ran past its limit and cannot be ended; its thread is lost to us."""
        self._pool.refill()
        for task in list(self.running):
            if not task.is_late:
                continue
            if (
                task.entry.is_async
                and self.is_stuck
                and self.loop
                and task is not self.loop.culprit
            ):
                continue  # another job holds up the loop
            if self._took_out(task):
                self._leak(task)

    def _leak(self, task: Task) -> None:
        entry = task.entry
        self.leaked.add(task.claim.job.id)
        log.error(
            "job %s (%s) ignored its time limit; its slot is lost", task.claim.job.id, entry.name
        )
        if self.loop is not None and entry.is_async:
            self.loop.add_slot()
        else:
            self._pool.replace_thread()
        self._charge(task, Failed(executions.late(entry)))

    @property
    def has_limits(self) -> bool:
        """True if something runs here that must be given up when it is late."""
        return any(task.entry.timeout and not task.child for task in list(self.running))

    def take_back(self) -> None:
        """Return what was handed out and has not begun."""
        on_loop = self.loop.take_back() if self.loop else []
        for task in [*self._lasts, *self._pool.take_back(), *on_loop]:
            self.return_unspent(task)
        self._lasts.clear()

    def end(self, last_wait: float) -> None:
        """Return what did not end in time; the fence keeps its late result out.

        Cancelled tasks and stopped children have `last_wait` seconds to end.
        """
        self._is_ending = True
        if self.loop is not None:
            self.loop.cancel()
        for task in list(self.running):
            if task.child is not None:
                task.child.stop(last_wait / 2)
        until = time.monotonic() + last_wait
        while self._some_can_be_ended() and time.monotonic() < until:
            time.sleep(0.01)
        for task in list(self.running):
            if self._took_out(task):
                job_id = task.claim.job.id
                log.warning("job %s did not end in time; it was returned", job_id)
                task.lose()
                self.return_unspent(task)

    def _some_can_be_ended(self) -> bool:
        tasks = list(self.running)
        return any(task.child is not None or task.entry.is_async for task in tasks)

    def close(self) -> None:
        """End the threads, the loop and the children."""
        self._pool.close()
        if self.loop is not None:
            self.loop.close()
        while self._children:
            self._children.pop().close()
