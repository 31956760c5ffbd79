"""The desk: what people see of the jobs, and what they do to them.

The command line and the pages are faces of these verbs. Each deed acts on a set of jobs that was
frozen first, and is recorded with who did it and why.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Unpack

from redrive.desk import search
from redrive.desk.groups import Causes
from redrive.desk.reading import Looking
from redrive.desk.runs import Driving
from redrive.desk.selection import Filters, Target, spelled
from redrive.errors import JobNotFound, Refused, UsageError
from redrive.events import TOLD, Event
from redrive.jobs import checks, durations
from redrive.jobs.durations import Duration
from redrive.jobs.job import Job
from redrive.jobs.transitions import Verb
from redrive.payloads import masking, strict_json
from redrive.payloads.masked_jobs import secrets_of
from redrive.registry import check_lane
from redrive.runs import overrides
from redrive.stores.contract import PAUSE, Moved, Query, note_named

_READ_FOR_REASON = 100
"""So many jobs of an action are read for secrets that its reason may repeat."""


class Desk(Driving, Causes, Looking):
    """Looks at jobs and moves them; `Redrive` is one."""

    def retry(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Drive jobs again. Dead and resolved ones start a fresh life; pending ones become due.

        Groups and filters mean pending and dead jobs unless `state` says otherwise. The next attempt
        of each (of the first 100) asks its providers even if they are in cooldown.
        """
        return self._deed("retry", targets, filters, reason, actor)

    def resolve(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Close jobs: the matter is settled another way. `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._deed("resolve", targets, filters, reason, actor)

    def discard(
        self,
        *targets: Target,
        reason: str,
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Close jobs that shall never be done; the reason is required. `reopen` undoes it.

        Groups and filters mean dead jobs unless `state` says otherwise.
        """
        return self._deed("discard", targets, filters, reason, actor)

    def reopen(
        self,
        *targets: Target,
        reason: str = "",
        actor: str | None = None,
        **filters: Unpack[Filters],
    ) -> Moved:
        """Make resolved or discarded jobs dead letters again."""
        return self._deed("reopen", targets, filters, reason, actor)

    def select(
        self, verb: Verb, *targets: Target, reveal: bool = True, **filters: Unpack[Filters]
    ) -> list[Job | str]:
        """Return the jobs that an action is for, as they are now; an unknown id comes as written.

        `reveal` is as in `each`.
        """
        return list(search.meant(self.keeper.store, verb, targets, filters, reveal=reveal))

    def move(
        self,
        verb: Verb,
        ids: Sequence[str],
        *,
        asked: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Moved:
        """Do a deed to exactly the jobs of a frozen set; `asked` is how they were asked for."""
        if verb == "discard" and not checks.text(reason, "reason").strip():
            msg = "discard needs a reason: those who come after want to know why"
            raise UsageError(msg)
        ids = checks.texts(ids, "ids")
        if verb == "retry":
            overrides.mark(self.keeper.store, ids)
        act = self._act(verb, asked, reason, actor, self._secrets_in(ids) if reason else ())
        moved = self.keeper.store.move(ids, verb, act)
        for job in moved.done:
            self.keeper.bus.emit(Event(TOLD[verb], job, detail=act.reason))
        return moved

    def _secrets_in(self, ids: Sequence[str]) -> list[str]:
        """Return the secrets of the first jobs of a set, for a reason that may repeat one."""
        few = tuple(ids[:_READ_FOR_REASON])
        jobs = self.keeper.store.find(Query(ids=few, limit=len(few))).jobs if few else []
        return [secret for job in jobs for secret in secrets_of(job)]

    def _deed(
        self,
        verb: Verb,
        targets: tuple[Target, ...],
        filters: Filters,
        reason: str,
        actor: str | None,
    ) -> Moved:
        jobs = self.select(verb, *targets, **filters)
        missing = [one for one in jobs if isinstance(one, str)]
        if missing:
            msg = f"no job {missing[0]!r}; nothing was changed"
            raise JobNotFound(msg)
        ids = [job.id for job in jobs if isinstance(job, Job)]
        asked = spelled(targets, filters)
        return self.move(verb, ids, asked=asked, reason=reason, actor=actor)

    def edit(
        self,
        which: str,
        payload: str,
        *,
        expected: int | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Job:
        """Give a job another payload (JSON text); the first one is kept.

        The text must fit the handler where it is registered here. `expected` is how often the job
        had been edited when the person saw it; Refused if somebody was faster.
        """
        if not isinstance(payload, str):
            found = type(payload).__name__
            msg = f"a payload must be JSON text, such as json.dumps gives; found {found}"
            raise UsageError(msg)
        job = self.get(which)
        text = strict_json.compact(payload, max_bytes=self.keeper.settings.payload_limit)
        self.check_payload(job.handler, text)
        known = (*secrets_of(job), *masking.secrets_of(text))
        act = self._act("edit", job.id, reason, actor, known)
        seen = job.edits if expected is None else expected
        edited = self.keeper.store.amend(job.id, text, act, expected=seen)
        self.keeper.bus.emit(Event("edited", edited))
        return edited

    def pause(
        self,
        lane: str,
        *,
        reason: str = "",
        duration: Duration | None = None,
        actor: str | None = None,
    ) -> None:
        """Let a lane's jobs wait, for all workers, until `resume` or for a while; none is spent."""
        seconds = None if duration is None else durations.positive(duration, name="duration")
        act = self._act("pause", check_lane(lane), reason, actor)
        value = json.dumps(
            {"by": act.actor, "reason": act.reason, "since": self.keeper.store.now()}
        )
        self.keeper.store.note(PAUSE + lane, value, expires_in=seconds, durable=True)
        self.keeper.store.record(act)
        self.keeper.bus.emit(Event("paused", detail=lane))

    def resume(self, lane: str, *, reason: str = "", actor: str | None = None) -> None:
        """Let a paused lane go on; Refused if it is not paused."""
        name = PAUSE + check_lane(lane)
        if note_named(self.keeper.store, name) is None:
            msg = f"lane {lane!r} is not paused; `redrive status` shows the lanes that are"
            raise Refused(msg)
        self.keeper.store.note(name, None, durable=True)
        self.keeper.store.record(self._act("resume", lane, reason, actor))
        self.keeper.bus.emit(Event("resumed", detail=lane))
