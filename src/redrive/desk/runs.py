"""Runs at the desk: starting one, reading it, pausing, resuming and cancelling it, changing its rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

from redrive.desk import search
from redrive.desk.search import USUAL, Target, no_run, read
from redrive.desk.selectors import Filters
from redrive.errors import Refused
from redrive.jobs import checks
from redrive.jobs.job import Action
from redrive.payloads.masked_jobs import masked
from redrive.payloads.masking import mask_text
from redrive.runs import rules, run_records
from redrive.runs.run_records import Phase, Run, Spec
from redrive.stores.contract import Query

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log

_UNFINISHED: frozenset[Phase] = frozenset({"freezing", "done", "stopped", "cancelled"})
"""The phases in which a run may have been abandoned: being made, or being closed."""

_TEXTS = ("by", "asked", "name", "reason", "why")

_MANY = 20  # how many groups of a run are counted for arrivals, at most


class Runs:
    """Starts runs, reads them and steers them."""

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def start(
        self,
        *targets: Target,
        canary: int = 0,
        rate: float | str | None = None,
        ramp: bool = False,
        stop_on: str = "",
        name: str = "",
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Run:
        """Retry jobs as one run, which the workers carry out; `get` returns its progress.

        Exactly the jobs that are there now: they are tagged before this returns, and wait as they
        are until the run releases them. `canary` jobs go first, the others only if these succeed.
        `rate` is in jobs a second, or like "30/m"; with `ramp` it begins at a tenth of it. `stop_on`
        is "10%" or "25": the share or number of jobs that may fail again before the run stops.
        """
        spec = rules.spec_of(canary=canary, rate=rate, ramp=ramp, stop_on=stop_on)
        usual = USUAL["retry"]
        store, selection = self._backend.store, read(targets, filters, usual)
        self.close_abandoned()
        jobs, live = search.known(search.meant(store, selection, usual)), run_records.book(store)[1]
        held = {job.id: abs(job.run) for job in jobs if job.run and abs(job.run) in live}
        return self.freeze(
            [job.id for job in jobs if job.id not in held],
            [(job_id, f"is part of R{run}") for job_id, run in held.items()],
            spec,
            asked=selection.asked,
            name=name,
            reason=reason,
            actor=actor,
        )

    def freeze(
        self,
        ids: Sequence[str],
        skipped: list[tuple[str, str]],
        spec: Spec,
        *,
        asked: str,
        since: float = 0.0,
        name: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Run:
        """Freeze exactly these jobs as a run; those that cannot be taken are added to the skipped ones.

        So are those that changed after `since`. Refused if none of them can be taken. Until it returns no job is released.
        """
        from redrive.runs import driver  # noqa: PLC0415 - a command that only reads needs none

        self.close_abandoned()
        store = self._backend.store
        secrets = search.secrets_in(store, ids) if reason or name else ()
        action = self._log.action("retry", asked, reason, actor, secrets)
        name = mask_text(checks.text(name, "name"), secrets)
        asked, reason = action.target, action.reason
        now, number = store.now(), run_records.open_next(store)
        run = Run(
            number=number, by=action.actor, asked=asked, name=name, reason=reason, created=now
        )
        run = driver.freeze(store, replace(run, spec=spec), ids, skipped, since=since)
        detail = {"run": run.id}
        skipped_jobs = sum(run.skipped.values())
        store.record(replace(action, done=run.total, skipped=skipped_jobs, detail=detail))
        return self.get(number)

    def close_abandoned(self) -> None:
        """Close runs that were cancelled while no worker ran, or whose maker died long ago."""
        store = self._backend.store
        for number in run_records.book(store)[1]:
            stored = run_records.stored(store, number)
            if stored is not None and stored[0].phase in _UNFINISHED:
                self._close(number)

    def arrived(self, run: Run) -> int:
        """Count the jobs that died of the run's causes since it was asked for, apart from its own."""
        store = self._backend.store
        since = max(0.0, store.now() - run.created)
        queries = [Query(group=group, newer_than=since, limit=1) for group in run.groups[:_MANY]]
        died = sum(group.jobs for query in queries for group in store.groups(query))
        return max(0, died - (run.counts.same if run.counts else 0))

    def recent(self, *, counted: bool = True) -> list[Run]:
        """Return the runs that are remembered, newest first, with their progress if `counted`."""
        runs = run_records.every(self._backend.store)
        return [self._with_counts(run) if counted else masked(run, *_TEXTS) for run in runs]

    def live(self, *, counted: bool = True) -> list[Run]:
        """Return the runs that are not over, newest first, with their progress if `counted`."""
        live = [run for run in self.recent(counted=False) if not run.is_over]
        return [self._with_counts(run) for run in live] if counted else live

    def get(self, number: int | str | Run) -> Run:
        """Return a run with its progress: `runs.get("R12").counts.succeeded`."""
        return self._with_counts(self._stored(number)[0])

    def pause(self, number: int | str | Run, *, reason: str = "", actor: str | None = None) -> Run:
        """Release no more jobs of a run until `resume`; those that are released go on."""
        return self._change(number, self._action("pause", reason, actor), {"live"}, _to("paused"))

    def resume(self, number: int | str | Run, *, reason: str = "", actor: str | None = None) -> Run:
        """Resume a paused run; a ramp begins anew."""
        return self._change(number, self._action("resume", reason, actor), {"paused"}, _to("live"))

    def set_rate(
        self,
        number: int | str | Run,
        rate: float | str,
        *,
        reason: str = "",
        actor: str | None = None,
    ) -> Run:
        """Change how many jobs a second a run releases; a ramp goes on towards the new rate."""
        per_second = rules.rate_of(rate)
        action, value = self._action("rate", reason, actor), f"{per_second:g}/s"
        reason = f"{value}: {action.reason}" if reason else value
        action = replace(action, reason=reason, detail={"rate": per_second})

        def change(run: Run, _reason: str) -> Run:
            return replace(run, spec=replace(run.spec, rate=per_second), paced=0.0)

        return self._change(number, action, {"live", "paused"}, change)

    def cancel(self, number: int | str | Run, *, reason: str = "", actor: str | None = None) -> Run:
        """End a run: jobs that wait for it stay as they were, those that are released go on."""
        phases: set[Phase] = {"freezing", "paused", "live"}
        action = self._action("cancel", reason, actor)
        run = self._change(number, action, phases, _to("cancelled"))
        self._close(run.number)
        return self.get(run)

    def _close(self, number: int) -> None:
        from redrive.runs.driver import Driver  # noqa: PLC0415

        Driver(self._backend.store, self._backend.bus, self._backend.holder).close(number)

    def _action(self, verb: str, reason: str, actor: str | None) -> Action:
        return self._log.action(verb, "", reason, actor)

    def _change(
        self,
        number: int | str | Run,
        action: Action,
        phases: AbstractSet[Phase],
        change: Callable[[Run, str], Run],
    ) -> Run:
        """Change a run that is in one of these phases, and record the action."""
        from redrive.runs import driver  # noqa: PLC0415

        store = self._backend.store
        while True:
            run, version = self._stored(number)
            if run.phase not in phases:
                allowed = " or ".join(sorted(phases - {"freezing"}))
                msg = f"{run.id} is {run.phase}; {action.verb} needs a run that is {allowed}"
                raise Refused(msg)
            changed = change(run, action.reason)
            if driver.save(store, changed, version, durable=True) is not None:
                store.record(replace(action, target=run.id))
                return self._with_counts(changed)

    def _stored(self, number: int | str | Run) -> tuple[Run, int]:
        wanted = run_records.number_of(number)
        stored = run_records.stored(self._backend.store, wanted)
        if stored is None:
            raise no_run(wanted)
        return stored

    def _with_counts(self, run: Run) -> Run:
        run, counts = run_records.counted(self._backend.store, run)
        return replace(masked(run, *_TEXTS), counts=counts)


def _to(phase: Phase) -> Callable[[Run, str], Run]:
    """Return the change of a run to a phase, with the reason for it."""
    return lambda run, why: replace(run, phase=phase, why=why, paced=0.0, ramped=0.0)
