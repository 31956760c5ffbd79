"""One pass over the due jobs: sweep, then claim, run and settle one job after the other.

Used by `app.run_due()`, by `redrive work --once`, and by tests. Jobs run in the caller's thread (async
ones on a loop of the pass), while another thread renews the leases.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import TYPE_CHECKING, Self

from redrive.attempts.conclusions import returned
from redrive.attempts.executions import Execution, called, finished
from redrive.attempts.leases import Leases, Task
from redrive.attempts.runtime import Runtime
from redrive.errors import ChildFailed, UsageError
from redrive.jobs.job import Action, Claim, Settlement, State
from redrive.jobs.logger import log
from redrive.registry import Registry, warn_unlimited
from redrive.runs.driver import Driver
from redrive.stores.contract import Query, Store, every
from redrive.worker.schedule import queued
from redrive.worker.sweep import sweep

if TYPE_CHECKING:
    from redrive.worker.children import Child

Loop = Callable[[Coroutine[object, object, object]], object]


_MINUTE = 60.0
_SHARE = 100  # jobs of a backlog that one grant may release past a pause


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did: taken = succeeded + failed; died is part of failed.

    `returned` jobs could not be tried and spent nothing, for example because every provider was in
    cooldown.
    """

    taken: int = 0
    succeeded: int = 0
    failed: int = 0
    died: int = 0
    returned: int = 0
    purged: int = 0


def log_begin(store: Store) -> None:
    """Log how many jobs wait."""
    number = queued(store)
    log.info("pass begins: %d queued", number, extra={"event": "begins", "queued": number})


def log_end(store: Store, done: Pass) -> None:
    """Log what a pass did, and an empty queue."""
    fields = asdict(done)
    text = "pass ended: %d taken, %d succeeded, %d failed, %d died, %d returned, %d purged"
    log.info(text, *fields.values(), extra={"event": "worked", **fields})
    if done.taken and queued(store) == 0:
        log.info("the queue is empty", extra={"event": "empty"})


class Interrupts:
    """Notes inside `with` that SIGINT came; it still raises as before.

    Ctrl-C is meant for the program: the job is returned unspent. A KeyboardInterrupt that a handler
    raises is a failure of the job: returned, it would stop the next pass too.
    """

    def __init__(self) -> None:
        self.seen = False
        self._watching = False

    def __enter__(self) -> Self:
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if usual and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self._note)
            self._watching = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._watching:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._watching = False

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        signal.default_int_handler(number, frame)


class PassRunner:
    """Runs passes and counts them in `ended`; `program` returns how a child can import the program.

    Async handlers run on a loop of the pass, or by `loop`, which runs a coroutine to its end.
    """

    def __init__(
        self,
        runtime: Runtime,
        program: Callable[[], str | None] = lambda: None,
        loop: Loop | None = None,
    ) -> None:
        self.runtime = runtime
        self._given_loop = loop
        self.ended: Counter[type] = Counter()
        """How many claims ended with which verdict."""
        self._program = program
        self._interrupts = Interrupts()
        self._child: Child | None = None
        self._hurried = False

    def run_pass(
        self, *, ignore_waits: bool = False, only: Collection[str] | None = None, limit: int = 0
    ) -> None:
        """Run what is due, and what runs release meanwhile; log due jobs without a handler here."""
        driver = Driver(self.runtime.store, self.runtime.bus, self.runtime.holder)
        driver.tick()
        self.run(ignore_waits=ignore_waits, only=only, limit=limit)
        while only is None and (not limit or self.ended.total() < limit) and (ids := driver.tick()):
            self.run(only=ids, limit=limit)
        self._warn_unserved()
        driver.leave()

    def run(
        self, *, ignore_waits: bool = False, only: Collection[str] | None = None, limit: int = 0
    ) -> None:
        """Run each due job once; a job that fails without a wait is left for the next pass.

        Jobs are claimed one at a time: if one takes this process down, no other is touched.
        """
        registry = self.runtime.registry
        _refuse_running_loop(registry)
        for entry in registry:
            if entry.is_unlimited and self._program() is None:
                warn_unlimited(entry)
        self._hurried = ignore_waits
        sweep(self.runtime, self._count)
        with (
            self.runtime.leases() as leases,
            self.executing() as execute,
            # Closed here: an error's traceback would keep it, and what it holds, alive.
            closing(self._tasks(leases, ignore_waits=ignore_waits, only=only)) as tasks,
        ):
            for task in tasks:
                try:
                    settlement = execute(task)
                except (ChildFailed, KeyboardInterrupt):
                    self._return([task.claim])
                    raise
                self._settle(settlement)
                leases.drop([task])
                if limit and self.ended.total() >= limit:
                    break
        self.runtime.counters.write_last(self.runtime.store)

    @contextmanager
    def executing(self) -> Generator[Callable[[Task], Settlement]]:
        """Yield a function that runs one claimed job in this thread and decides its next state.

        It raises if the program is being stopped, or if no child process can be started.
        """
        self._interrupts = Interrupts()
        registry = self.runtime.registry
        given = self._given_loop
        with (
            self._closing_child(),
            _loop(registry, self._is_ctrl_c, given) as loop,
            self._interrupts,
        ):
            yield lambda task: self._execute(task, loop)

    def _is_ctrl_c(self, error: BaseException) -> bool:
        return self._interrupts.seen and issubclass(type(error), KeyboardInterrupt)

    @contextmanager
    def _closing_child(self) -> Generator[None]:
        try:
            yield
        finally:
            if self._child is not None:
                self._child.close()
                self._child = None

    def _tasks(
        self, leases: Leases, *, ignore_waits: bool, only: Collection[str] | None
    ) -> Generator[Task]:
        """Yield one claim after the other, each job once; those that crashed before come last."""
        if not ignore_waits and only is None:
            yield from self._past_pauses(leases)
        if ignore_waits and only is None:
            pending = Query(states=frozenset({State.PENDING}))
            only = [job.id for job in every(self.runtime.store, pending)]
        chosen = [None] if only is None else [[job_id] for job_id in only]
        seen: set[str] = set()
        again: list[Claim] = []
        try:
            for suspects in (False, True):
                for ids in chosen:
                    while tasks := self.runtime.claim(
                        leases, 1, only=ids, suspects=suspects, ignore_waits=ignore_waits
                    ):
                        (task,) = tasks
                        if task.claim.job.id in seen:
                            again.append(task.claim)
                            continue
                        seen.add(task.claim.job.id)
                        yield task
                        if ids is not None:
                            break
        finally:
            self._return(again)

    def _past_pauses(self, leases: Leases) -> Generator[Task]:
        """Yield claims past a pause: a probe, or a share of a backlog that is released."""
        while grants := list(self.runtime.pauses.grants(room=_SHARE)):
            for grant in grants:
                claimed = 0
                while claimed < grant.jobs and (
                    tasks := self.runtime.claim(leases, 1, lanes=[grant.lane], past_pauses=True)
                ):
                    claimed += 1
                    yield tasks[0]
                self.runtime.pauses.used(grant, claimed)

    def _warn_unserved(self) -> None:
        """Log which due jobs have no handler here: they wait and spend nothing.

        Not those of Redrive itself, such as alerts: another thread may be about to send them.
        """
        store, known = self.runtime.store, self.runtime.registry.names()
        now = store.now()
        lanes = {count.lane for count in store.counts() if count.is_due(now)}
        for lane in sorted(lane for lane in lanes - known if not lane.startswith("redrive.")):
            due = Query(lane=lane, states=frozenset({State.PENDING}))
            names = {job.handler for job in store.find(due).jobs} - known
            for name in sorted(names):
                fields = {"event": "unserved", "lane": lane, "handler": name}
                text = "jobs are due for %s, but this program has no such handler"
                log.warning(text, name, extra=fields)

    def _execute(self, task: Task, loop: Loop) -> Settlement:
        """Run one claimed job and decide its next state."""
        claim, entry = task.claim, task.entry
        if entry.is_apart(suspect=claim.job.crashes > 0) and (program := self._program()):
            return self._execute_apart(task, program)
        runtime = self.runtime
        execution = Execution(
            entry, claim.job, runtime.clock, lambda: runtime.store, hurried=self._hurried
        )
        task.context = execution.context
        try:
            with execution:
                if entry.is_async:
                    execution.value = loop(called(execution))
                else:
                    execution.value = finished(entry.function(**execution.arguments))
        except KeyboardInterrupt as error:
            if self._interrupts.seen:
                raise
            execution.fail(error)  # nobody pressed Ctrl-C: the handler raised it
        execution.end_copy()
        started, duration = execution.started, execution.duration
        return runtime.conclude(claim, execution.outcome, entry, started, duration)

    def _execute_apart(self, task: Task, program: str) -> Settlement:
        """Run a job in a child, which can be ended and may crash."""
        from redrive.worker.children import Child  # noqa: PLC0415 - few passes need one

        child = task.child = self._child = self._child or Child(program)
        ran = child.run(task.claim.job, task.entry, hurried=self._hurried)
        return self.runtime.conclude(task.claim, ran.outcome, task.entry, ran.started, ran.duration)

    def _settle(self, settlement: Settlement) -> None:
        if self.runtime.settle(settlement) is not None:
            self._count(settlement)

    def _count(self, settlement: Settlement) -> None:
        self.ended[type(settlement.verdict)] += 1

    def _return(self, claims: list[Claim]) -> None:
        """Return claims that were never started; nothing is spent."""
        for claim in claims:
            self.runtime.settle(returned(claim))


def _refuse_running_loop(registry: Registry) -> None:
    """Raise UsageError before any job is claimed if async handlers find a running loop."""
    # Another thread may be importing asyncio just now; then no loop runs in this one.
    running = getattr(sys.modules.get("asyncio"), "_get_running_loop", bool)
    if running() and any(entry.is_async for entry in registry):
        raise UsageError(
            "run_due() inside a running event loop cannot run async handlers; "
            "use `await app.aio(app.run_due)`"
        )


@contextmanager
def _loop(
    registry: Registry, is_ctrl_c: Callable[[BaseException], bool], given: Loop | None
) -> Generator[Loop]:
    """Yield a function that runs a coroutine to its end; a loop is made only if a handler needs one."""
    if given is not None or not any(entry.is_async for entry in registry):
        yield given or _no_loop
        return
    from redrive.worker.single_loop import SingleLoop  # noqa: PLC0415 - asyncio is slow to import

    with closing(SingleLoop(is_ctrl_c)) as single:
        yield single.run


def _no_loop(_: Coroutine[object, object, object]) -> object:
    raise UsageError("no async handler is registered")


def retry_one(
    runtime: Runtime, program: Callable[[], str | None], which: str, action: Action
) -> bool:
    """Retry a job in this thread; False if it cannot be taken. Workers leave it alone for a minute."""
    if not runtime.store.move([which], "retry", action, delays=[_MINUTE]).done:
        return False
    PassRunner(runtime, program).run(only=[which], ignore_waits=True)
    return True
