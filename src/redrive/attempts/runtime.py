"""What a worker, a pass and the submitter share to run jobs: claim, conclude, settle, and report it."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from redrive.attempts import counters
from redrive.attempts.conclusions import conclude
from redrive.attempts.executions import worker_name
from redrive.attempts.leases import Leases, Task
from redrive.attempts.pauses import Pauses
from redrive.errors import StoreError
from redrive.events import Bus, Event, Kind
from redrive.jobs import durations
from redrive.jobs.clock import Clock
from redrive.jobs.job import Claim, Failure, Job, Return, Settlement, State
from redrive.jobs.logger import log
from redrive.jobs.outcomes import Failed, Outcome, Returned
from redrive.payloads import masking, strict_json
from redrive.policies.policy import Keep
from redrive.registry import Entry, Registry
from redrive.stores.contract import Store
from redrive.strategies import Rand

_KINDS: Mapping[State, Kind] = {State.COMPLETED: "succeeded", State.DEAD: "died"}
_LONGEST_ERROR = 200  # characters of an error in a log line


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of an app that hold until it ends."""

    clock: Clock
    lease: float = 30.0
    payload_limit: int = strict_json.MAX_BYTES
    release: str | None = None
    actor: str = ""
    rand: Rand = random.random
    keep: Keep = field(default_factory=Keep)
    """How long finished jobs of handlers stay that the program does not know."""


class ClaimOptions(TypedDict, total=False):
    """Which due jobs a claim takes; see the store's contract."""

    lanes: Collection[str]
    only: Collection[str] | None
    suspects: bool
    ignore_waits: bool
    past_pauses: bool


class Runtime:
    """A store, the handlers, the listeners and the settings, and the holder that claims jobs."""

    def __init__(
        self, store: Store, registry: Registry, bus: Bus, settings: Settings, holder: str
    ) -> None:
        self.store = store
        self.registry = registry
        self.bus = bus
        self.holder = holder
        self.clock = settings.clock
        self.lease_for = settings.lease
        self.rand = settings.rand
        self.worker = worker_name()
        self.release = settings.release
        self.pauses = Pauses(store, registry, bus)
        self.counters = counters.of(store)
        self._ahead = 0.0  # how far the store's clock was ahead of ours at the last claim

    def leases(self) -> Leases:
        """Return an empty set of leases; inside `with` a thread renews them."""
        return Leases(self.store, lease_for=self.lease_for, clock=self.clock)

    def claim(self, leases: Leases, limit: int, **options: Unpack[ClaimOptions]) -> list[Task]:
        """Claim due jobs of our handlers and hold their leases."""
        since = leases.now()
        self.now()
        claims = self._claimed(limit, options)
        need = self.registry.need
        tasks = [Task(claim, need(claim.job.handler)) for claim in claims]
        leases.hold(tasks, since)
        if self.bus.has_listeners:
            for claim in claims:
                self.bus.emit(Event("claimed", claim.job))
        return tasks

    def _claimed(self, limit: int, options: ClaimOptions) -> list[Claim]:
        """Claim jobs; those whose program did not know their lane are moved there and claimed again."""
        claims: list[Claim] = []
        while True:
            new = self.store.claim(
                self.registry.served_names(),
                limit=limit - len(claims),
                holder=self.holder,
                lease_for=self.lease_for,
                **options,
            )
            lanes = [self.registry.lane_of(claim.job) for claim in new]
            if not any(lanes):
                return [*claims, *new]
            pairs = [*zip(new, lanes, strict=True)]
            claims += [claim for claim, lane in pairs if lane is None]
            moves = [Settlement(claim, Return(lane=lane)) for claim, lane in pairs if lane]
            self.store.settle(moves)

    def conclude(
        self, claim: Claim, outcome: Outcome, entry: Entry, started: float, duration: float
    ) -> Settlement:
        """Decide the next state of a job whose attempt ended here."""
        if isinstance(outcome, Failed):
            outcome = self.pauses.excused(entry, claim.job, outcome)
        elif isinstance(outcome, Returned) and outcome.missing:
            self.registry.withdraw(entry.name, outcome.missing)
        return conclude(
            claim,
            outcome,
            entry,
            started=started,
            duration=duration,
            worker=self.worker,
            release=self.release,
            now=self.clock.now() + self._ahead,
            rand=self.rand,
        )

    def now(self) -> float:
        """Return the store's time; if it does not answer, our time plus the last known difference."""
        ours = self.clock.now()
        with contextlib.suppress(StoreError):
            self._ahead = self.store.now() - ours
        return ours + self._ahead

    def settle(self, settlement: Settlement) -> Job | None:
        """Settle one claim and report it; return the job, or None if the lease was lost."""
        job = self.store.settle([settlement])[0]
        self.report(job, settlement)
        self.counters.write_if_due(self.store)
        return job

    def settle_all(self, settlements: Sequence[Settlement]) -> None:
        """Settle many claims in one write; if one of them is at fault, each in its own."""
        try:
            jobs = self.store.settle(settlements)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - logged in settle_each
            self.settle_each(settlements, error)
            return
        self.report_all(jobs, settlements)

    def settle_each(self, settlements: Sequence[Settlement], fault: BaseException) -> None:
        """Settle claims one by one, after an error that may be the fault of only one."""
        log.error("settling a batch failed; settling one by one", exc_info=fault)
        for settlement in settlements:
            self._settle_alone(settlement)

    def report_all(self, jobs: Sequence[Job | None], settlements: Sequence[Settlement]) -> None:
        """Count, log and publish many settlements; `jobs` is what the store returned for them."""
        self.counters.count_all(jobs, settlements)
        has_listeners = self.bus.has_listeners
        for job, settlement in zip(jobs, settlements, strict=True):
            # Most successes are only counted.
            if has_listeners or job is None or not self.pauses.is_no_news(settlement):
                self.report(job, settlement, is_counted=True)

    def _settle_alone(self, settlement: Settlement) -> None:
        try:
            self.settle(settlement)
        except StoreError:
            raise
        except Exception:
            job_id = settlement.claim.job.id
            log.exception("job %s could not be settled; it stays for the next sweep", job_id)

    def report(self, job: Job | None, settlement: Settlement, *, is_counted: bool = False) -> None:
        """Count, log and publish a settlement; one that the store refused is only logged."""
        if job is not None:
            if not is_counted:
                self.counters.count(job, settlement)
            self._publish(job, settlement)
            try:
                self.pauses.seen(settlement)
            except StoreError as error:  # what is settled is settled
                log.debug("a pause could not be updated: %s", error)
            return
        claim = settlement.claim
        log.warning(
            "job %s: lease %d of %s was lost; its result (%s) was discarded",
            claim.job.id,
            claim.job.lease,
            claim.job.holder,
            settlement.attempt.outcome if settlement.attempt else "returned",
        )
        self.bus.emit(Event("lease_lost", claim.job))

    def _publish(self, job: Job, settlement: Settlement) -> None:
        """Log the new state of a job and call the listeners."""
        failure = settlement.attempt.failure if settlement.attempt else None
        kind = _KINDS.get(job.state, "failed" if failure else "returned")
        _log_end(kind, job, failure, settlement)
        if self.bus.has_listeners:
            self.bus.emit(Event(kind, job, failure, job.detail))


def _log_end(kind: Kind, job: Job, failure: Failure | None, settlement: Settlement) -> None:
    if kind == "died":
        error = _error_line(failure) or masking.inert(job.detail)
        group, trace = f"G{job.group}" if job.group else "-", failure.traceback if failure else ""
        extra = _fields("dead_letter", job) | {"reason": job.reason, "traceback": trace}
        text = "dead_letter job=%s handler=%s reason=%s attempts=%d cause=%s %s"
        log.warning(text, job.id, job.handler, job.reason, job.attempts, group, error, extra=extra)
    elif kind == "failed" and log.isEnabledFor(logging.INFO):
        error, delay = _error_line(failure), durations.words(max(0.0, job.due - job.updated))
        text = "job %s (%s) failed: %s; next attempt in %s"
        log.info(text, job.id, job.handler, error, delay, extra=_fields("failed", job))
    elif isinstance(settlement.verdict, Return) and settlement.verdict.detail:
        why = masking.inert(settlement.verdict.detail)
        log.info("job %s (%s) %s", job.id, job.handler, why, extra=_fields("returned", job))


def _fields(event: str, job: Job) -> dict[str, object]:
    """Return the fields of a JSON log line; see `redrive.logs`."""
    return {
        "event": event,
        "job": job.id,
        "handler": job.handler,
        "lane": job.lane,
        "attempts": job.attempts,
        "category": job.failure.category if job.failure else None,
        "group": f"G{job.group}" if job.group else None,
    }


def _error_line(failure: Failure | None) -> str:
    """Return the error of an attempt, which is masked, as a short part of a log line."""
    if failure is None:
        return ""
    text = masking.inert(f"{failure.type}: {failure.message}" if failure.type else failure.message)
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 1] + "…"
