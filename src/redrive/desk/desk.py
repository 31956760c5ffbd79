"""The desk: what operators see of the jobs, and what they do to them.

The command line, the web API, alerts and metrics reach jobs through it alone. Each action takes a set
of jobs that was frozen first, and is recorded in the audit log with who did it and why. The parts are
imported on first use, so that a command that only reads starts fast.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Unpack

from redrive.desk import search
from redrive.desk.groups import Groups
from redrive.desk.jobs import Jobs, restored
from redrive.desk.lanes import Lanes
from redrive.desk.log import Log
from redrive.desk.search import USUAL, Target, read
from redrive.desk.selectors import Filters
from redrive.errors import UsageError
from redrive.payloads import masking
from redrive.payloads.masked_jobs import secrets_of, seen

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.plan import Order, Plan
    from redrive.desk.plan import Verb as PlanVerb
    from redrive.desk.runs import Runs
    from redrive.desk.shapes import Done
    from redrive.desk.transfer import Transfer
    from redrive.jobs.job import Job
    from redrive.jobs.transitions import Verb
    from redrive.stores.contract import Moved, Store


class Desk:
    """Reads jobs and changes them; `app.desk` is one.

    The everyday actions stand here; the rest is in its parts: `jobs`, `groups`, `runs`, `lanes`,
    `log` and `transfer`.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.log = Log(backend)
        self.jobs = Jobs(backend, self.log)
        self.groups = Groups(backend, self.log)
        self.lanes = Lanes(backend, self.log)

    @cached_property
    def runs(self) -> Runs:
        """Bulk retries with a canary, a rate and a stop rule."""
        from redrive.desk.runs import Runs  # noqa: PLC0415 - few commands need it

        return Runs(self._backend, self.log)

    @cached_property
    def transfer(self) -> Transfer:
        """Export and import."""
        from redrive.desk.transfer import Transfer  # noqa: PLC0415 - few commands need it

        return Transfer(self._backend, self.log)

    @property
    def store(self) -> Store:
        """The open store: its `url`, `durability`, `now()`, and `verify()`."""
        return self._backend.store

    def plan(
        self, verb: PlanVerb, *targets: Target, as_of: str | None = None, as_run: bool = False
    ) -> Plan:
        """Return which jobs an action would take; nothing is changed. JobNotFound if no id is known.

        The verb is retry, resolve, discard, reopen or purge. `carry_out` needs the plan's `as_of`; with
        it here, only the jobs count that have not changed since that plan. A run takes no job of another
        run: so does a retry of several jobs, or of one with `as_run`.
        """
        from redrive.desk import plan  # noqa: PLC0415 - few commands need it

        return plan.plan(self, verb, targets, as_of=as_of, as_run=as_run)

    def carry_out(self, verb: PlanVerb, *targets: Target, **order: Unpack[Order]) -> Done:
        """Carry out a plan on those of its jobs that have not changed since; see `desk.plan`.

        A repeat finds none of them left, changes nothing, and answers what became of them.
        """
        from redrive.desk import plan  # noqa: PLC0415 - few commands need it

        return plan.carry_out(self, verb, targets, **order)

    def retry(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Make jobs due now. Dead and resolved ones get all their attempts again.

        Groups and filters mean pending and dead jobs unless `state` says otherwise.
        """
        return self._move("retry", targets, filters, reason, actor)

    def resolve(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Close jobs that were settled another way; `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._move("resolve", targets, filters, reason, actor)

    def discard(
        self,
        *targets: Target,
        reason: str,
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Discard jobs that are never to be run; the reason is required. `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._move("discard", targets, filters, reason, actor)

    def reopen(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Make resolved or discarded jobs dead letters again."""
        return self._move("reopen", targets, filters, reason, actor)

    def _move(
        self,
        verb: Verb,
        targets: tuple[Target, ...],
        filters: Filters,
        reason: str,
        actor: str | None,
    ) -> Moved:
        selection = read(targets, filters, USUAL[verb])
        meant = search.meant(self.store, selection, USUAL[verb])
        ids = [job.id for job in search.known(meant)]
        return self.jobs.move(verb, ids, asked=selection.asked, reason=reason, actor=actor)

    def edit(
        self,
        which: str,
        payload: str,
        *,
        expected: int | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Job:
        """Replace a job's payload (JSON text); the first one is kept.

        The text must fit the handler where it is registered here. Masked values in it, as
        `jobs.get` or `jobs.editable` show them, stay what they were; BadPayload where that cannot be
        told. `expected` is how often the job had been edited when the person saw it; Refused if it
        was edited since.
        """
        from redrive.events import Event  # noqa: PLC0415 - a desk that only reads needs none

        if not isinstance(payload, str):
            kind = type(payload).__name__
            msg = f"a payload must be JSON text, such as json.dumps returns; found {kind}"
            raise UsageError(msg)
        limit = self._backend.settings.payload_limit
        job, text = restored(self.store, which, payload, expected, limit)
        known = (*secrets_of(job), *masking.secrets_of(text))
        self.jobs.check_payload(job.handler, text, known)
        action = self.log.action("edit", job.id, reason, actor, known)
        version = job.edits if expected is None else expected
        edited = self._backend.store.amend(job.id, text, action, expected=version)
        self._backend.bus.emit(Event("edited", edited))
        return seen(edited)
