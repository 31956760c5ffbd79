"""The walk of one event, from its first try to its end.

It is the road of any job (the same classifier, decision, transitions and records), only in memory:
what succeeds is never stored, what dies is stored whole, with every attempt. Each change is told to
the stream file.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from redrive import _transitions
from redrive.errors import GiveUp
from redrive.job import Attempt, Claim, Completed, Dead, Job, Release, Retry, Settlement
from redrive.keeping import Keeper, Options
from redrive.policy import Policy
from redrive.strategy import Rand
from redrive.stream.event import RetryInfo, Status, StreamEvent, dead_line, line, planned, waiting
from redrive.stream.log import EventLog
from redrive.stream.tally import Tally
from redrive.stream.work import Work
from redrive.worker.run import Execution, conclude, worker_name

log = logging.getLogger("redrive.stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What all events of a stream share."""

    keeper: Keeper
    log: EventLog
    tally: Tally
    policy: Callable[[], Policy]
    """Asked after each failure: a strategy may be replaced while events are on their way."""
    sleep: Callable[[float], object]
    rand: Rand

    def now(self) -> float:
        """Give the wall time."""
        return self.keeper.settings.clock.now()

    def limit(self, job: Job) -> int:
        """Give the attempts this event may have."""
        return self.policy().limited(job.max_attempts).ceiling

    def claimed(self, job: Job) -> Job:
        """Count the next attempt of a waiting job, before it starts."""
        now = self.now()
        holder = self.keeper.holder
        return _transitions.claimed(job, holder=holder, now=now, lease_end=now, boot=None)


class Walk:
    """One event on its way; `run` takes it to the end."""

    def __init__(
        self, means: Means, event: StreamEvent, work: Work, max_attempts: int | None
    ) -> None:
        self.means = means
        self.event = event
        self.work = work
        entry = replace(work.entry, policy=means.policy())
        options = Options(tags=(event.id,), max_attempts=max_attempts)
        job = means.keeper.draft(entry, work.payload, options)
        self.job = means.claimed(replace(job, origin=event.origin()))

    def run(self) -> None:
        """Try until it is done, dead, or interrupted by Ctrl-C."""
        self.means.tally.add("emitted")
        self._tell("pending", None)
        while True:
            execution = self._try()
            settlement = self._conclude(execution)
            match settlement.verdict:
                case Retry(delay):
                    self._wait(settlement, delay)
                case Completed(_, detail):
                    return self._succeeded(settlement, detail)
                case Dead():
                    return self._died(settlement, _exit_code(execution.error))
                case Release():
                    return None  # only Ctrl-C leads here, and that has gone on up
                case _:
                    assert_never(settlement.verdict)

    def _try(self) -> Execution:
        execution = Execution(self.work.entry, self.job, self.means.keeper.settings.clock)
        try:
            with execution:
                execution.value = _finished(self.work.call())
        except KeyboardInterrupt:
            self._tell("failed", None, actions=["interrupted by Ctrl-C"])
            raise
        return execution

    def _conclude(self, execution: Execution) -> Settlement:
        settlement = conclude(
            Claim(self.job),
            execution.outcome,
            replace(execution.entry, policy=self.means.policy()),
            started=execution.started,
            duration=execution.duration,
            worker=worker_name(),
            now=self.means.now(),
            rand=self.means.rand,
        )
        failure = settlement.attempt.failure if settlement.attempt else None
        self.means.tally.attempt(execution.duration, failure.category.value if failure else None)
        return settlement

    def _wait(self, settlement: Settlement, delay: float) -> None:
        """Tell of the failure, wait, and make the job ready for its next try."""
        now, attempt = self.means.now(), settlement.attempt
        number, limit = self.job.attempts, self.means.limit(self.job)
        retry = waiting(number, limit, delay, now)
        self._tell("retrying", attempt, retry=retry, actions=[planned(number, limit, delay)])
        failure = attempt.failure if attempt else None
        job = _transitions.settled(self.job, settlement.verdict, failure, now=now, group=None)
        job = _transitions.with_attempt(job, attempt) if attempt else job
        self.means.sleep(delay)
        self.means.tally.add("retries")
        self.job = self.means.claimed(job)

    def _succeeded(self, settlement: Settlement, detail: str) -> None:
        recovered = ("recovered",) if self.job.attempts > 1 else ()
        self.means.tally.add("succeeded", *recovered)
        actions = [f"skipped: {detail}"] if detail else []
        self._tell("success", settlement.attempt, actions=actions, exit_code=0)

    def _died(self, settlement: Settlement, exit_code: int) -> None:
        """Keep the dead letter; where the store cannot, the stream file still tells of it."""
        try:
            kept = self.means.keeper.keep_failed(settlement, Options())
        except Exception:
            log.exception("the dead letter of event %s could not be kept", self.event.id)
            self.means.tally.add("not_kept")
            actions = ["the dead-letter store could not keep it; see the program's log"]
            self._tell("failed", settlement.attempt, actions=actions, exit_code=exit_code)
            return
        self.means.tally.add("dead_lettered")
        kept = replace(kept, history=(settlement.attempt,) if settlement.attempt else ())
        self.means.log.write(dead_line(kept, self.means.limit(kept), exit_code=exit_code))

    def _tell(
        self,
        status: Status,
        attempt: Attempt | None,
        *,
        retry: RetryInfo | None = None,
        actions: list[str] | None = None,
        exit_code: int | None = None,
    ) -> None:
        used = RetryInfo(count=self.job.attempts - 1, max_retries=self.means.limit(self.job) - 1)
        told = line(
            self.event,
            status,
            self.means.now(),
            retry=retry or used,
            attempt=attempt,
            actions=actions or (),
            exit_code=exit_code,
        )
        self.means.log.write(told)


def _finished(value: object) -> object:
    """Refuse a coroutine: nobody would ever run it, and the event would pass for a success."""
    if inspect.iscoroutine(value):
        value.close()
        msg = "the action gave a coroutine, which nobody awaits here; give a function that is not async"
        raise GiveUp(msg)
    return value


def _exit_code(error: BaseException | None) -> int:
    code = error.code if isinstance(error, SystemExit) else None
    return code if isinstance(code, int) and code else 1
