"""What running jobs takes, wherever they run: claim, conclude, settle, sweep, and tell of it."""

from __future__ import annotations

import contextlib
import logging
import random
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, Unpack

from redrive.attempts import counters
from redrive.attempts.executions import conclude, crash, given_back, worker_name
from redrive.attempts.leases import Leases, Task
from redrive.attempts.pauses import Pauses
from redrive.errors import StoreError
from redrive.events import Bus, Event, Kind
from redrive.jobs import durations
from redrive.jobs.clock import Clock
from redrive.jobs.job import (
    Claim,
    Completed,
    Dead,
    Failed,
    Job,
    Outcome,
    Release,
    Retry,
    Returned,
    Settlement,
    State,
)
from redrive.jobs.logger import log
from redrive.payloads import masking
from redrive.registry import Entry, Registry
from redrive.stores.contract import Store
from redrive.stores.worker_notes import WORKER
from redrive.strategies import Rand
from redrive.worker import last_attempts

_KINDS: Mapping[State, Kind] = {State.COMPLETED: "succeeded", State.DEAD: "died"}


class Which(TypedDict, total=False):
    """Which due jobs a claim takes; see the store's contract."""

    lanes: Collection[str]
    only: Collection[str] | None
    suspects: bool
    ignore_waits: bool
    past_pauses: bool


@dataclass(slots=True)
class Tally:
    """The numbers of a pass while it goes on."""

    taken: int = 0
    succeeded: int = 0
    failed: int = 0
    died: int = 0
    returned: int = 0

    @property
    def handled(self) -> int:
        """How many claims came to an end."""
        return self.taken + self.returned

    def count(self, settlement: Settlement) -> None:
        """Count one settled claim; a returned one was not taken."""
        match settlement.verdict:
            case Completed():
                self.succeeded += 1
            case Retry():
                self.failed += 1
            case Dead():
                self.failed += 1
                self.died += 1
            case Release():
                self.returned += 1
                return
        self.taken += 1

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.taken + other.taken,
            self.succeeded + other.succeeded,
            self.failed + other.failed,
            self.died + other.died,
            self.returned + other.returned,
        )


class Watcher(Protocol):
    """Looks after a store beside the work on its jobs, now and then."""

    def tick(self) -> None:
        """Look; it never raises."""
        ...

    def leave(self) -> None:
        """Look no more."""
        ...


class Alerting(Protocol):
    """Makes the watcher of an app; `redrive.alerts.Alerts` is one."""

    def watch(self, app: Any) -> Watcher:
        """Give the watcher over an app's store."""
        ...


class Site:
    """Where jobs run: the store they are in, who handles them, what time it is."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        holder: str,
        lease_for: float,
        clock: Clock,
        bus: Bus,
        rand: Rand = random.random,
    ) -> None:
        self.store = store
        self.registry = registry
        self.holder = holder
        self.lease_for = lease_for
        self.clock = clock
        self.bus = bus
        self.rand = rand
        self.worker = worker_name()
        self.pauses = Pauses(store, registry, bus)
        self.counters = counters.of(store)
        self.dead_holders: list[str] = []
        """Holders whose process has ended for certain; their jobs need not wait for their lease."""
        self._ahead = 0.0
        """How far the store's clock was ahead of ours at the last claim."""

    def leases(self) -> Leases:
        """Give a keeper of leases; inside `with` its heartbeat runs."""
        return Leases(self.store, lease_for=self.lease_for, clock=self.clock)

    def claim(self, leases: Leases, limit: int, **which: Unpack[Which]) -> list[Task]:
        """Claim due jobs of our handlers, and hold their leases."""
        since = leases.now()
        self.now()
        claims = self.store.claim(
            self.registry.served_names(),
            limit=limit,
            holder=self.holder,
            lease_for=self.lease_for,
            **which,
        )
        need = self.registry.need
        tasks = [Task(claim, need(claim.job.handler)) for claim in claims]
        leases.hold_all(tasks, since)
        if self.bus.has_listeners:
            for claim in claims:
                self.bus.emit(Event("claimed", claim.job))
        return tasks

    def conclude(
        self, claim: Claim, outcome: Outcome, entry: Entry, started: float, duration: float
    ) -> Settlement:
        """Decide what becomes of a job that ran here."""
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
            now=self.clock.now() + self._ahead,
            rand=self.rand,
        )

    def now(self) -> float:
        """Give the store's time; while it cannot be asked, as far as we know."""
        ours = self.clock.now()
        with contextlib.suppress(StoreError):
            self._ahead = self.store.now() - ours
        return ours + self._ahead

    def settle(self, settlement: Settlement, tally: Tally | None = None) -> Job | None:
        """Make one verdict true, then tell everybody."""
        job = self.store.settle([settlement])[0]
        if tally is not None and job is not None:
            tally.count(settlement)
        self._told(job, settlement)
        self.counters.write_if_due(self.store)
        return job

    def settle_all(self, settlements: Sequence[Settlement]) -> None:
        """Make many verdicts true in one write; if one of them is at fault, each in its own."""
        try:
            jobs = self.store.settle(settlements)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - told with the first of them
            self.settle_each(settlements, error)
            return
        self.told_all(jobs, settlements)

    def settle_each(self, settlements: Sequence[Settlement], fault: BaseException) -> None:
        """Make verdicts true one by one, after an error that may be the fault of only one."""
        log.error("settling a batch failed; settling one by one", exc_info=fault)
        for one in settlements:
            self._settle_alone(one)

    def told_all(self, jobs: Sequence[Job | None], settlements: Sequence[Settlement]) -> None:
        """Tell everybody of many verdicts, with what the store answered."""
        self.counters.count_all(jobs, settlements)
        is_heard = self.bus.has_listeners
        for job, settlement in zip(jobs, settlements, strict=True):
            # Of most successes nobody wants to know more than their number.
            if is_heard or job is None or not self.pauses.is_no_news(settlement):
                self._told(job, settlement, is_counted=True)

    def _settle_alone(self, settlement: Settlement) -> None:
        try:
            self.settle(settlement)
        except StoreError:
            raise
        except Exception:
            job_id = settlement.claim.job.id
            log.exception("job %s could not be settled; it stays for the next sweep", job_id)

    def _told(self, job: Job | None, settlement: Settlement, *, is_counted: bool = False) -> None:
        """Tell everybody of a verdict. A refused one is only written to the log."""
        if job is not None:
            if not is_counted:
                self.counters.count(job, settlement)
            self._say(job, settlement)
            try:
                self.pauses.seen(settlement)
            except StoreError as error:  # what is settled is settled
                log.debug("a pause could not be looked after: %s", error)
            return
        claim = settlement.claim
        log.warning(
            "job %s: lease %d of %s was lost; its result (%s) was not taken",
            claim.job.id,
            claim.job.lease,
            claim.job.holder,
            settlement.attempt.outcome if settlement.attempt else "given back",
        )
        self.bus.emit(Event("lease_lost", claim.job))

    def sweep(self, tally: Tally | None = None) -> int:
        """Take over jobs whose worker vanished, and decide about each like about any failure.

        Only those this program knows: others have policies that are not ours to guess.
        """
        total = self._sweep("worker vanished, lease expired", None, tally)
        while self.dead_holders:
            holder = self.dead_holders[0]
            total += self._sweep("its worker process died", holder, tally)
            self.store.note(WORKER + holder, None)
            self.dead_holders.remove(holder)
        return total

    def _sweep(self, why: str, holder: str | None, tally: Tally | None) -> int:
        """Take over what lost its lease, or all that one holder has."""
        total = 0
        while claims := self.store.seize(
            by=last_attempts.sweeper(self.holder),
            lease_for=self.lease_for,
            holder=holder,
            handlers=self.registry.names(),
        ):
            for claim in claims:
                self._bury(claim, why, tally)
            total += len(claims)
        return total

    def _bury(self, claim: Claim, why: str, tally: Tally | None) -> None:
        """Settle a job whose worker vanished; whatever goes wrong with it stops no other."""
        log.warning("job %s: %s (held by %s)", claim.job.id, why, claim.lost_by)
        entry = self.registry.need(claim.job.handler)
        try:
            if last_attempts.never(self.store, claim, entry):
                self.settle(given_back(claim))
                return
            settlement = conclude(
                claim,
                crash(why),
                entry,
                started=claim.job.updated,
                duration=max(0.0, self.clock.now() - claim.job.updated),
                worker=claim.lost_by or "",
                now=self.now(),
                rand=self.rand,
            )
            self.settle(settlement, tally)
        except StoreError:
            raise
        except Exception:
            log.exception("job %s could not be settled; it stays for the next sweep", claim.job.id)

    def tell(self, job: Job, settlement: Settlement) -> None:
        """Count and log what became of a job, and tell the listeners, once it is true."""
        self.counters.count(job, settlement)
        self._say(job, settlement)

    def _say(self, job: Job, settlement: Settlement) -> None:
        """Log what became of a job, and tell the listeners."""
        failure = settlement.attempt.failure if settlement.attempt else None
        kind = _KINDS.get(job.state, "failed" if failure else "released")
        if kind == "died":
            log.warning(
                "dead_letter job=%s handler=%s reason=%s attempts=%d cause=%s %s\n%s",
                job.id,
                job.handler,
                job.reason,
                job.attempts,
                f"G{job.group}" if job.group else "-",
                masking.inert(job.detail),
                _indented(failure.traceback if failure else ""),
                extra=_fields("dead_letter", job) | {"reason": job.reason},
            )
        elif kind == "failed" and log.isEnabledFor(logging.INFO):
            log.info(
                "job %s (%s) failed: %s; next try in %s",
                job.id,
                job.handler,
                masking.inert(failure.why) if failure else "",
                durations.words(max(0.0, job.due - job.updated)),
                extra=_fields("failed", job),
            )
        elif isinstance(settlement.verdict, Release) and settlement.verdict.detail:
            log.info(
                "job %s (%s) %s",
                job.id,
                job.handler,
                masking.inert(settlement.verdict.detail),
                extra=_fields("returned", job),
            )
        if self.bus.has_listeners:
            self.bus.emit(Event(kind, job, failure, job.detail))


def _fields(event: str, job: Job) -> dict[str, object]:
    """Say the same for those who read the log by machine; see `redrive.logs`."""
    return {
        "event": event,
        "job": job.id,
        "handler": job.handler,
        "lane": job.lane,
        "attempts": job.attempts,
        "category": job.failure.category if job.failure else None,
        "group": f"G{job.group}" if job.group else None,
    }


def _indented(text: str) -> str:
    """Make many lines safe for a log: none can pass for a line of its own."""
    return textwrap.indent(masking.inert(text, keep_newlines=True), "    ", lambda _: True)
