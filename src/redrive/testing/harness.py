"""The test harness: every app of the process with an empty store in memory, and a clock that stands still."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from redrive import submission
from redrive.attempts.counters import totals
from redrive.errors import BadPayload, UsageError
from redrive.handler import Handler
from redrive.in_place.cooldowns import Override
from redrive.in_place.waiting import no_waiting
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Job, State
from redrive.jobs.threads import Threads, hop
from redrive.payloads import strict_json
from redrive.registry import Entry, Registry
from redrive.stores.contract import Query, every
from redrive.stores.memory import MemoryStore
from redrive.stores.note_verbs import PAUSE, Note, note_named
from redrive.submission import Submitter
from redrive.testing.clock import ManualClock
from redrive.testing.found import FoundJobs, call_of
from redrive.worker.passes import Loop, Pass, PassRunner

_DEAD = frozenset({State.DEAD})
_PENDING = frozenset({State.PENDING})


class _TestStore(MemoryStore):
    """A store in memory that takes `within=`: there is no transaction, a job is stored at once."""

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Store new jobs, whatever connection they were to join."""
        del within
        return super().add(jobs)


class Harness:
    """What a test sees and does: the jobs that were submitted, a clock to move, `run_all()`."""

    def __init__(
        self, clock: ManualClock, stores: Mapping[Submitter, MemoryStore], undo: ExitStack
    ) -> None:
        self.clock = clock
        """The clock of every app; `clock.advance("1h")` moves it."""
        self._stores = stores  # each app has its own: one of an earlier test must claim nothing
        self._undo = undo

    def run_all(self, *, advance: bool | Duration = False, limit: int = 1000) -> Pass:
        """Run jobs in this thread until none is due; return how they ended.

        `advance=True` moves the clock to each next due time until no job waits; `advance="1h"` by
        at most so much. More than `limit` attempts are an AssertionError: a handler that submits
        itself never ends.
        """
        running = getattr(sys.modules.get("asyncio"), "_get_running_loop", bool)
        if running() and any(entry.is_async for app in self._with_jobs() for entry in app.registry):
            raise UsageError("this test is async: use `await redrive_jobs.arun_all()`")
        return self._run_all(advance, limit, None)

    async def arun_all(self, *, advance: bool | Duration = False, limit: int = 1000) -> Pass:
        """Do the same in an async test: async handlers run on its event loop, others in a thread."""
        import asyncio  # noqa: PLC0415 - the awaiting test has imported it

        loop, threads = asyncio.get_running_loop(), Threads(1)

        def run(work: Any) -> object:
            return asyncio.run_coroutine_threadsafe(work, loop).result()

        try:
            return await hop(threads, self._run_all, advance, limit, run)
        finally:
            threads.close(wait=False)

    def submitted(self, handler: str | Handler[..., Any] = "", /, **arguments: object) -> FoundJobs:
        """Return the jobs that were stored, oldest first, whatever their state is now.

        Only those of a handler, and with these arguments; other arguments may have any value.
        """
        return self._found(frozenset(), "job", handler, arguments)

    def dead(self, handler: str | Handler[..., Any] = "", /, **arguments: object) -> FoundJobs:
        """Return the dead letters, oldest first; only those of a handler, and with these arguments."""
        return self._found(_DEAD, "dead job", handler, arguments)

    def limit_retries(self, attempts: int | None) -> None:
        """Limit the attempts of `@retry` for the rest of this test; 1 switches retries off.

        They never wait here; without a limit, each function has the attempts of its own policy.
        """
        self._undo.enter_context(no_waiting(attempts))

    def __repr__(self) -> str:
        number = len(self.submitted())
        return f"Harness({number} job{'s' * (number != 1)})"

    def _found(
        self,
        states: frozenset[State],
        what: str,
        handler: str | Handler[..., Any],
        arguments: dict[str, object],
    ) -> FoundJobs:
        name = handler.name if isinstance(handler, Handler) else handler
        stored = self._stored()
        self._check_name(name, [job for _, job in stored])

        def fits(registry: Registry, job: Job) -> bool:
            entry = registry.get(job.handler)
            names = {job.handler, *([entry.name] if entry else [])}
            of_kind = (not name or name in names) and (not states or job.state in states)
            return of_kind and _has(job, entry, arguments)

        wanted = f"{what} {call_of(name or '*', arguments)}" if name or arguments else what
        jobs = [job for app, job in stored if fits(app.registry, job)]
        return FoundJobs(jobs, wanted, () if jobs else [job for _, job in stored])

    def _stored(self, query: Query = Query()) -> list[tuple[Submitter, Job]]:  # noqa: B008 - frozen
        """Return the jobs of all apps, oldest first."""
        pairs = [(app, job) for app in self._with_jobs() for job in every(self._stores[app], query)]
        return sorted(pairs, key=lambda pair: pair[1].id)

    def _with_jobs(self) -> list[Submitter]:
        return [app for app, store in self._stores.items() if store.counts()]

    def _check_name(self, name: str, stored: list[Job]) -> None:
        """Refuse a name that nothing has: a wrong one would let `assert not submitted(…)` pass."""
        known = {each for app in self._stores for each in app.registry.names()}
        if name and name not in known and all(job.handler != name for job in stored):
            names = ", ".join(sorted(known)) or "none"
            raise UsageError(
                f"no handler named {name!r} is registered in this process, and no job has that name; "
                f"known: {names}. Correct the name, or import the module that registers it"
            )

    def _run_all(self, advance: bool | Duration, limit: int, loop: Loop | None) -> Pass:
        checks.whole(limit, "limit", least=1)
        until = self._until(advance)
        ended: Counter[type] = Counter()
        while self._pass(ended, limit, loop) or self._advance(until):
            pass
        return Pass(**totals(ended))

    def _until(self, advance: bool | Duration) -> float:
        if isinstance(advance, bool):
            return float("inf") if advance else 0.0
        return self.clock.now() + durations.seconds(advance, name="advance")

    def _pass(self, ended: Counter[type], limit: int, loop: Loop | None) -> bool:
        """Run what is due now, for each app; return False if there was nothing."""
        before = ended.total()
        for submitter in self._with_jobs():
            # Never called: every handler runs here. But a program without a name would be warned.
            runner = PassRunner(submitter.runtime(), lambda: "", loop)
            with _in_this_process(submitter.registry):
                runner.run_pass(limit=limit + 1 - ended.total())
            ended.update(runner.ended)
            if ended.total() > limit:
                last = self.submitted()[-1]
                raise AssertionError(
                    f"run_all() made more than {limit} attempts; does a handler submit itself? The "
                    f"newest job is of {last.handler}. Raise limit= if there are that many"
                )
        return ended.total() > before

    def _advance(self, until: float) -> bool:
        """Move the clock to the next time at which a job may run; return False if there is none."""
        now = self.clock.now()
        moment = min((at for at in self._moments() if at > now), default=None)
        if moment is None or moment > until:
            return False
        self.clock.advance(moment - now)
        return True

    def _moments(self) -> Iterator[float]:
        """Yield the due times of jobs that can run here; while lanes are paused, when that may change."""
        pending = self._stored(Query(states=_PENDING))
        served = [(app, job) for app, job in pending if job.handler in app.registry.served_names()]
        yield from (job.due for _, job in served)
        for app, lane in {(app, job.lane) for app, job in served}:
            if note := note_named(self._stores[app], PAUSE + lane):
                yield from _changes(note, self.clock.now())


@contextmanager
def in_memory(*, now: float | None = None) -> Generator[Harness]:
    """Replace the store of every app by an empty one in memory, and its clock by one that stands still.

    Holds for all apps of this process, also those made inside `with`; afterwards they use their own store again.
    The clock starts at `now`, or at the present time. Jitter is the middle of its range. `@retry`
    does not wait.
    """
    clock = ManualClock(int(time.time()) if now is None else now)
    with ExitStack() as undo:
        stores: dict[Submitter, MemoryStore] = {}
        harness = Harness(clock, stores, undo)
        harness.limit_retries(None)

        def enter(app: Submitter) -> None:
            store = stores[app] = _TestStore(clock=clock)
            settings = replace(app.settings, clock=clock, rand=lambda: 0.5)
            undo.callback(app.registry.reinstate)
            undo.callback(app.swap, app.swap((store, lambda: store, settings)))

        for app in list(submission.submitters):
            enter(app)
        submission.on_new.append(enter)
        undo.callback(submission.on_new.remove, enter)
        undo.callback(setattr, Override, "store", Override.store)
        Override.store = MemoryStore(clock=clock)
        yield harness


@contextmanager
def _in_this_process(registry: Registry) -> Generator[None]:
    """Run every handler in this process, inside `with`: a child would not see what a test patches."""
    before = {entry.name: entry for entry in registry}
    registry.wrap(lambda entry: replace(entry, isolation="thread"))
    try:
        yield
    finally:
        registry.wrap(lambda entry: before.get(entry.name, entry))


def _has(job: Job, entry: Entry | None, arguments: dict[str, object]) -> bool:
    """Compare as the handler would get them; without a handler, as JSON."""
    if not arguments:
        return True
    try:
        values = entry.arguments.load(job.payload) if entry else strict_json.loads(job.payload)
    except BadPayload:
        return False
    return all(name in values and values[name] == value for name, value in arguments.items())


def _changes(note: Note, now: float) -> Iterator[float]:
    """Yield when a pause ends, or when Redrive lets a job past it."""
    if note.expires_in is not None:
        yield now + note.expires_in
    fields = note.fields
    if "probe" in fields and "at" in fields:
        step = fields["probe"] if fields.get("mode") == "paused" else 1 / max(fields["rate"], 0.001)
        yield fields["at"] + step
