"""Retry events in place, as jobs: in memory until the first failure, in the store from then on."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from redrive.attempts.executions import Execution, failure_of, text_failure
from redrive.contrib.event_log import LONGEST_VALUE, plain
from redrive.desk import retention
from redrive.errors import BadPayload, GiveUp, StoreError
from redrive.handler import Handler
from redrive.jobs import logger
from redrive.jobs.job import Category, Claim, Completed, Dead, Job, Reason, Retry, Settlement, State
from redrive.jobs.outcomes import Failed, Returned
from redrive.payloads import masking
from redrive.registry import Entry
from redrive.stores.contract import PurgeRule, Query, every
from redrive.submission import Options

if TYPE_CHECKING:
    from redrive.app import Redrive
    from redrive.policies.policy import Policy

log = logger.log.getChild("stream")

_DAY = 86400.0

Action: TypeAlias = "Callable[[], object] | Handler[..., object]"


class EventRetries:
    """Runs the events of one app; `tell` writes a line to the log, `policy` is asked each time."""

    def __init__(
        self,
        app: Redrive,
        tell: Callable[..., None],
        sleep: Callable[[float], object],
        policy: Callable[[], Policy],
    ) -> None:
        self.app = app
        self._tell = tell
        self._sleep = sleep
        self._policy = policy

    def walk(
        self, job: Job, entry: Entry, run: Callable[[Execution], None], shows_result: bool
    ) -> None:
        """Run an event until it succeeds or is dead; from its first failure on it is stored."""
        submitter, is_stored = self.app.submitter, False
        clock = submitter.settings.clock
        claimed: Job | None = submitter.take(job)
        while claimed is not None:
            execution = self._executed(Execution(entry, claimed, clock), run, is_stored=is_stored)
            settlement = submitter.conclude(execution)
            verdict, job = settlement.verdict, submitter.settled(settlement)
            other: dict[str, object] = {}
            if is_stored or not isinstance(verdict, Completed):
                is_stored, other = self.keep(settlement, job, is_stored=is_stored)
            result: object = execution.value
            if shows_result and isinstance(verdict, Completed) and isinstance(result, Mapping):
                other["data"] = plain(cast("Mapping[str, object]", result))
            self._tell(job, **{"job_id": job.id if is_stored else None, **other})
            if not isinstance(verdict, Retry):
                return
            self._sleep(verdict.delay)
            claimed = self._claimed(job) if is_stored else submitter.take(job)

    def _executed(
        self, execution: Execution, run: Callable[[Execution], None], *, is_stored: bool
    ) -> Execution:
        """Run an action once, under a lease if its event is stored."""
        entry = execution.entry
        try:
            with self.app.submitter.holding(execution, Options(durable=is_stored)):
                run(execution)
        except KeyboardInterrupt:
            self._interrupted(execution, is_stored=is_stored)
            raise
        if isinstance(execution.outcome, Returned) and execution.error is not None:
            # No worker could do better: what it lacks is an error like any other here.
            lacks = failure_of(execution.error, entry, execution.job, execution.clock)
            execution.outcome = Failed(lacks)
        # Asked only now: the strategy may be replaced while events are on their way.
        execution.entry = replace(entry, policy=self._policy())
        return execution

    def keep(
        self, settlement: Settlement, job: Job, *, is_stored: bool
    ) -> tuple[bool, dict[str, object]]:
        """Store an attempt; return whether the store has it, and what else the log is to say."""
        submitter = self.app.submitter
        reserve = submitter.settings.lease
        try:
            kept = submitter.keep_attempt(settlement, is_stored=is_stored, reserve=reserve)
        except Exception:
            log.exception("the failure of event %s could not be kept", job.event)
            if isinstance(settlement.verdict, Retry):
                return False, {}
            note = "the dead-letter store could not keep it; see the program's log"
            status = "failed" if isinstance(settlement.verdict, Dead) else "success"
            return False, {"status": status, "recovery_actions": [note]}
        if kept is None:
            note = f"its lease was lost; another process decides: redrive show {job.id}"
            return True, {"recovery_actions": [note]}
        return True, {}

    def _claimed(self, job: Job) -> Job | None:
        """Claim a stored event for its retry here; None if a worker or a person was faster."""
        submitter = self.app.submitter
        try:
            claims = submitter.store.claim(
                [job.handler],
                limit=1,
                holder=submitter.holder,
                lease_for=submitter.settings.lease,
                only=[job.id],
                ignore_waits=True,
            )
        except StoreError:
            log.exception("event %s could not be claimed; it waits for a worker", job.event)
            return None
        return claims[0].job if claims else None

    def _interrupted(self, execution: Execution, *, is_stored: bool) -> None:
        """Return the claim of an event that Ctrl-C stopped, and write that to the stream file."""
        note = "interrupted by Ctrl-C"
        job_id = execution.job.id if is_stored else None
        if is_stored:
            submitter = self.app.submitter
            with suppress(StoreError):  # then its lease ends, and a worker takes it over
                submitter.runtime().settle(submitter.conclude(execution))
        self._tell(execution.job, error_info=None, recovery_actions=[note], job_id=job_id)

    def keep_dead(self, job: Job, error: Mapping[str, object]) -> bool:
        """Store an event that failed elsewhere as a dead letter; return False if that failed."""
        submitter = self.app.submitter
        named = str(error.get("category", ""))
        category = Category(named) if named in set(Category) else Category.UNKNOWN
        known = masking.secrets_of(job.payload)
        kind, message, trace = (
            masking.error_text(str(error.get(name) or ""), known, limit=LONGEST_VALUE)
            for name in ("type", "message", "stacktrace")
        )
        failure = text_failure(category, kind or "Event", message or "it failed elsewhere")
        entry = replace(Entry.unregistered(job.handler), policy=self._policy())
        execution = Execution(entry, submitter.take(job), submitter.settings.clock)
        execution.outcome = Failed(replace(failure, traceback=trace), captured=True)
        settlement = submitter.conclude(execution)
        return self.keep(settlement, job, is_stored=False)[0]

    def end_killed(self) -> None:
        """Dead-letter the events of plain functions whose program was killed in mid-retry.

        Nothing else can run them; workers take over those of registered handlers.
        """
        store, runtime = self.app.store, self.app.submitter.runtime()
        now, lease = store.now(), self.app.submitter.settings.lease
        unfinished = list(every(store, Query(states=frozenset({State.PENDING, State.RUNNING}))))
        lost = [job for job in unfinished if function_of(job) and not job.redrives]
        waiting = [job for job in lost if job.state is State.PENDING and job.due < now]
        running = {job.handler for job in lost if job.state is State.RUNNING}
        # Crashes of a handler with the same name are for its own workers.
        running -= {job.handler for job in unfinished if job.holder and not function_of(job)}
        held: dict[str, Any] = {"lease_for": lease, "limit": max(1, len(lost))}
        claims = store.seize(by=f"{runtime.holder}~", handlers=running, **held) if running else []
        if waiting:
            names, ids = {job.handler for job in waiting}, [job.id for job in waiting]
            holder = runtime.holder
            claims += store.claim(names, holder=holder, only=ids, ignore_waits=True, **held)
        for claim in claims:
            module, _, name = function_of(claim.job).partition(":")
            why = f"the program that retried it ended; to run it, call {name}() of {module}"
            runtime.settle(Settlement(Claim(claim.job), Dead(Reason.CAPTURED, why)))

    def remove_recovered(self) -> None:
        """Remove events of plain functions that recovered over a day ago.

        Nobody else does if no worker runs; the policies of handlers say how long others are kept.
        """
        store, completed = self.app.store, State.COMPLETED
        old = every(store, Query(states=frozenset({completed}), older_than=_DAY))
        if ids := frozenset(job.id for job in old if function_of(job)):
            rule = PurgeRule(state=completed, older_than=_DAY, ids=ids)
            retention.purge(store, [rule], self.app.submitter.bus)


def run_action(execution: Execution, action: Action, misfit: str) -> None:
    """Call the action of an event; BadPayload if its data does not fit the handler."""
    with execution:
        if isinstance(action, Handler) and misfit:
            raise BadPayload(misfit)
        arguments = execution.arguments if isinstance(action, Handler) else {}
        call = cast("Callable[..., object]", action)
        if execution.entry.timeout is None:
            value = call(**arguments)
        else:
            value = _limited(execution, lambda: call(**arguments))
        if inspect.iscoroutine(value):
            value.close()
            raise GiveUp("the action is async, which is not supported here; pass a plain function")
        execution.value = value


def _limited(execution: Execution, call: Callable[[], object]) -> object:
    """Return the result of a call in a thread of its own; TimeoutError when its time is over."""
    ended: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    context = copy_context()

    def work() -> None:
        try:
            ended.put((context.run(call), None))
        except BaseException as error:  # noqa: BLE001 - raised below, in the caller's thread
            ended.put((None, error))

    threading.Thread(target=work, name="redrive-event", daemon=True).start()
    try:
        value, error = ended.get(timeout=execution.entry.timeout)
    except Empty:
        execution.timed_out = True
        raise TimeoutError(f"ran past its time limit of {execution.entry.timeout:g} s") from None
    if error is not None:
        raise error
    return value


def name_of(action: Action) -> str:
    """Return where a plain function can be imported from: `shop.events:refresh`."""
    name = getattr(action, "__qualname__", None) or type(action).__qualname__
    module = getattr(action, "__module__", None) or "?"
    main = sys.modules[module] if module == "__main__" else None
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None or file:  # the program itself: by the name under which others import it
        module = spec.name if spec else Path(str(file)).stem
    return f"{module}:{name}"


def function_of(job: Job) -> str:
    """Return the name of the plain function that an event was emitted with; empty for a handler."""
    return str((job.origin or {}).get("function") or "")
