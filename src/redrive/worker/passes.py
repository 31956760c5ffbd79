"""One pass over what is due: claim, run, decide, settle, and first sweep up after the dead.

Used by `app.run_due()`, by `redrive work --once`, and by tests. Jobs run one after the other in the
caller's thread (async ones on a loop of the pass); a heartbeat thread keeps the leases meanwhile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Coroutine, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from redrive.attempts.executions import (
    Execution,
    called,
    finished,
    given_back,
)
from redrive.attempts.leases import Leases, Task
from redrive.errors import ChildFailed, UsageError
from redrive.jobs.job import Claim, Settlement, State
from redrive.jobs.logger import log
from redrive.registry import Entry, Registry, warn_unlimited
from redrive.stores.contract import Query, every
from redrive.worker.interrupts import Interrupts
from redrive.worker.runtime import Site, Tally

if TYPE_CHECKING:
    from redrive.worker.children import Child

Loop = Callable[[Coroutine[object, object, object]], object]


_SHARE = 100
"""Jobs of a backlog that one look may let go past a pause."""


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


class Turn(Site):
    """One pass over what is due."""

    program: Callable[[], str | None] = staticmethod(lambda: None)
    """Says how a child can import the program, if it can."""
    _interrupts: Interrupts
    _child: Child | None = None
    _hurried = False

    def run(
        self, *, ignore_waits: bool = False, only: Collection[str] | None = None, limit: int = 0
    ) -> Tally:
        """Run each due job once; a job that fails without a wait is left for the next pass.

        Jobs are claimed one at a time: if one takes this process down, no other is touched.
        """
        _refuse_running_loop(self.registry)
        for entry in self.registry:
            if entry.is_unlimited and self.program() is None:
                warn_unlimited(entry)
        self._interrupts, self._hurried = Interrupts(), ignore_waits
        tally = Tally()
        self.sweep(tally)
        with (
            self._closing_child(),
            _loop(self.registry, self._is_ctrl_c) as loop,
            self.leases() as leases,
            self._interrupts,
            # Closed here: an error's traceback would keep it, and what it holds, alive.
            closing(self._tasks(leases, ignore_waits=ignore_waits, only=only)) as tasks,
        ):
            for task in tasks:
                self._run_one(task, tally, loop)
                leases.drop(task)
                if limit and tally.handled >= limit:
                    break
        self.counters.write_last(self.store)
        self._warn_of_strangers()
        return tally

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
        """Give one claim after the other, each job once; those that crashed before come last."""
        if not ignore_waits and only is None:
            yield from self._past_pauses(leases)
        if ignore_waits and only is None:
            pending = Query(states=frozenset({State.PENDING}))
            only = [job.id for job in every(self.store, pending)]
        chosen = [None] if only is None else [[one] for one in only]
        seen: set[str] = set()
        again: list[Claim] = []
        try:
            for suspects in (False, True):
                for ids in chosen:
                    while task := self._claim(leases, ids, suspects, ignore_waits):
                        if task.claim.job.id in seen:
                            again.append(task.claim)
                            continue
                        seen.add(task.claim.job.id)
                        yield task
                        if ids is not None:
                            break
        finally:
            self._give_back(again)

    def _past_pauses(self, leases: Leases) -> Generator[Task]:
        """Give what may go past a pause: a probe, or a share of a backlog that is let go."""
        while grants := list(self.pauses.grants(room=_SHARE)):
            for grant in grants:
                given = 0
                while given < grant.jobs and (
                    tasks := self.claim(leases, 1, lanes=[grant.lane], past_pauses=True)
                ):
                    given += 1
                    yield tasks[0]
                self.pauses.used(grant, given)

    def _claim(
        self, leases: Leases, only: Collection[str] | None, suspects: bool, ignore_waits: bool
    ) -> Task | None:
        tasks = self.claim(leases, 1, only=only, suspects=suspects, ignore_waits=ignore_waits)
        return tasks[0] if tasks else None

    def _warn_of_strangers(self) -> None:
        """Say which due jobs nobody here can run: they wait and spend nothing."""
        now, known = self.store.now(), self.registry.names()
        lanes = {
            count.lane
            for count in self.store.counts()
            if count.state is State.PENDING and count.oldest is not None and count.oldest <= now
        }
        for lane in sorted(lanes - known):
            due = Query(lane=lane, states=frozenset({State.PENDING}))
            names = {job.handler for job in self.store.find(due).jobs} - known
            for name in sorted(names):
                log.warning("jobs are due for %s, but no handler of that name is here", name)

    def execute(self, task: Task, loop: Loop) -> Settlement:
        """Run one claimed job and decide what becomes of it."""
        claim, entry = task.claim, task.entry
        if entry.is_apart(suspect=claim.job.crashes > 0) and (program := self.program()):
            return self._execute_apart(task, program)
        execution = Execution(
            entry, claim.job, self.clock, lambda: self.store, hurried=self._hurried
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
                self.settle(self._conclude(claim, execution, entry))
                raise
            execution.fail(error)  # nobody pressed Ctrl-C: the handler raised it
        execution.end_copy()
        return self._conclude(claim, execution, entry)

    def _execute_apart(self, task: Task, program: str) -> Settlement:
        """Run it in a child, which can be ended and may crash."""
        from redrive.worker.children import Child  # noqa: PLC0415 - few passes need one

        child = task.child = self._child = self._child or Child(program)
        try:
            ran = child.run(task.claim.job, task.entry, hurried=self._hurried)
        except (ChildFailed, KeyboardInterrupt):
            self._give_back([task.claim])
            raise
        return self.conclude(task.claim, ran.outcome, task.entry, ran.started, ran.duration)

    def _conclude(self, claim: Claim, execution: Execution, entry: Entry) -> Settlement:
        return self.conclude(claim, execution.outcome, entry, execution.started, execution.duration)

    def _run_one(self, task: Task, tally: Tally, loop: Loop) -> None:
        self.settle(self.execute(task, loop), tally)

    def _give_back(self, claims: list[Claim]) -> None:
        """Release claims that were never started; nothing is spent."""
        for claim in claims:
            self.settle(given_back(claim))


def _refuse_running_loop(registry: Registry) -> None:
    """Say so before any job is claimed: async handlers need a loop that is not taken."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or asyncio._get_running_loop() is None:  # noqa: SLF001 - the only one that does not raise
        return
    if any(entry.is_async for entry in registry):
        msg = (
            "run_due() inside a running event loop cannot run async handlers; "
            "use `await app.aio(app.run_due)`"
        )
        raise UsageError(msg)


@contextmanager
def _loop(registry: Registry, is_ctrl_c: Callable[[BaseException], bool]) -> Generator[Loop]:
    """Give a way to run coroutines to their end; a loop is made only if a handler needs one."""
    if not any(entry.is_async for entry in registry):
        yield _no_loop
        return
    from redrive.worker.solo import Solo  # noqa: PLC0415 - asyncio is slow to import

    with closing(Solo(is_ctrl_c)) as solo:
        yield solo.run


def _no_loop(_: Coroutine[object, object, object]) -> object:
    msg = "no async handler is registered"
    raise UsageError(msg)
