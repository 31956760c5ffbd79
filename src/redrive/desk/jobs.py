"""Jobs at the desk: finding them, counting them, and moving a frozen set of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Unpack

from redrive.desk import search
from redrive.desk.search import Target, job_id, read
from redrive.desk.selectors import Filters
from redrive.errors import BadPayload, JobNotFound, UsageError
from redrive.jobs import checks
from redrive.jobs.job import TERMINAL, Job, State
from redrive.jobs.transitions import amend_changes
from redrive.payloads import editing, masked_jobs, strict_json
from redrive.payloads.masked_jobs import seen
from redrive.payloads.masking import error_text, mask_json, secrets_of
from redrive.stores.contract import Count, Moved, Page, PurgeRule, Query, Scope, oldest_by_lane

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log
    from redrive.desk.search import Selection
    from redrive.jobs.transitions import Verb
    from redrive.stores.contract import Store

__all__ = ["Count", "Editable", "Jobs", "Moved", "Page", "Scope", "oldest_by_lane"]

_PURGED_AT_ONCE = 10_000


class Editable(NamedTuple):
    """A job for an editor: masked; `Desk.edit` puts back what its payloads hide."""

    job: Job
    payload: str
    original: str | None


class Jobs:
    """Reads jobs, masked, and moves exactly the jobs of a set.

    `reveal=True` returns them as they are stored, and is recorded in the audit log.
    """

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def get(self, which: str, *, reveal: bool = False) -> Job:
        """Return one job with its whole history, by its id or the beginning of one, key or event."""
        job = self._stored(which)
        if not reveal:
            return seen(job)
        self._log.reveal(job.id)
        return job

    def _stored(self, which: str) -> Job:
        store = self._backend.store
        job = store.get(job_id(store, which))
        if job is None:
            raise JobNotFound(f"no job {which!r}")
        return job

    def editable(self, which: str, *, reveal: bool = False, actor: str | None = None) -> Editable:
        """Return a job for an editor; with `reveal` its payloads hide nothing."""
        job = self._stored(which)
        if reveal:
            self._log.reveal(job.id, actor)
        payload = editing.shown_of(job, job.payload, reveal=reveal)
        if job.original is None:
            return Editable(seen(job), payload, None)
        original = editing.shown_of(job, job.original, reveal=reveal)
        return Editable(seen(job), payload, original)

    def find(
        self,
        *words: Target,
        limit: int = 100,
        cursor: str | None = None,
        by_change: bool = False,
        reveal: bool = False,
        **filters: Unpack[Filters],
    ) -> Page:
        """Return a page of jobs, newest first; every word and filter given must hold.

        Words are those of the selector grammar: `find("handler:billing.* age:>2h")`. What no index
        answers, such as a tag or a text, is asked of the newest 20,000 jobs that come into question.
        Then the page's `scope` says so, and its cursor goes on. Without `reveal` nothing that is masked
        can be asked for.
        """
        selection = self._selection(words, filters, reveal=reveal)
        store = self._backend.store
        checks.whole(limit, "limit", least=1)
        cursor = None if cursor is None else checks.text(cursor, "cursor")
        page = search.find(store, selection, limit=limit, cursor=cursor, by_change=by_change)
        return page if reveal else page._replace(jobs=list(map(seen, page.jobs)))

    def _selection(self, words: tuple[Target, ...], filters: Filters, *, reveal: bool) -> Selection:
        selection = read(words, filters, reveal=reveal)
        if reveal:  # who may reveal may ask for a secret; the audit log is for all
            self._log.reveal(selection.asked, secrets=selection.maskable)
        return selection

    def each(
        self, *words: Target, reveal: bool = False, **filters: Unpack[Filters]
    ) -> Iterator[Job]:
        """Return all jobs that match, newest first, page by page as they are asked for."""
        jobs = search.each(self._backend.store, self._selection(words, filters, reveal=reveal))
        return jobs if reveal else map(seen, jobs)

    def with_history(self, ids: Sequence[str]) -> list[Job]:
        """Return those of these jobs that there are, with their histories, in one read."""
        query = Query(ids=tuple(ids), limit=len(ids), history=True)
        jobs = {job.id: job for job in self._backend.store.find(query).jobs}
        return [seen(jobs[job_id]) for job_id in ids if job_id in jobs]

    def ids(self, *words: Target, **filters: Unpack[Filters]) -> Iterator[str]:
        """Return the ids of all jobs that match, newest first; quicker than `each`."""
        return (job.id for job in search.each(self._backend.store, read(words, filters)))

    def same_as_masked(self, handler: str, key: str, payload: str) -> Job | None:
        """Return the job of a key if it differs from this payload in masked values only.

        To refuse it, and to take the same payload, would tell if a secret was guessed right.
        """
        for job in self._backend.store.find(Query(key=key, limit=1)).jobs:
            first = job.payload if job.original is None else job.original
            if job.handler == handler and strict_json.same(mask_json(first), mask_json(payload)):
                return replace(seen(job), is_new=False)
        return None

    def counts(self) -> list[Count]:
        """Count all jobs by state, lane and category."""
        return self._backend.store.counts()

    def move(
        self,
        verb: Verb,
        ids: Sequence[str],
        *,
        asked: str = "",
        since: float = 0.0,
        reason: str = "",
        actor: str | None = None,
    ) -> Moved:
        """Move exactly the jobs of a frozen set that are unchanged since a time (0 is any).

        `asked` is how they were asked for.
        """
        from redrive.events import EVENT_OF, Event  # noqa: PLC0415 - a desk that only reads needs none

        check_reason(checks.choice(verb, "verb", EVENT_OF), reason)
        ids, store = checks.texts(ids, "ids"), self._backend.store
        secrets = search.secrets_in(store, ids) if reason else ()
        action = self._log.action(verb, asked, reason, actor, secrets)
        moved = store.move(ids, verb, replace(action, at=since))
        for job in moved.done:
            self._backend.bus.emit(Event(EVENT_OF[verb], job, detail=action.reason))
        return moved._replace(done=list(map(seen, moved.done)))

    def purge(
        self,
        ids: Sequence[str],
        *,
        target: str = "",
        since: float = 0.0,
        reason: str = "",
        actor: str | None = None,
    ) -> int:
        """Remove those of these jobs that are finished, and unchanged since a time; return how many."""
        store, removed, ids = self._backend.store, 0, checks.texts(ids, "ids")
        try:
            for start in range(0, len(ids), _PURGED_AT_ONCE):
                some = frozenset(ids[start : start + _PURGED_AT_ONCE])
                rule = PurgeRule(state=State.DEAD, older_than=-inf, ids=some, since=since)
                rules = [replace(rule, state=state) for state in TERMINAL]
                removed += len(store.purge(rules, limit=len(some)))
        finally:
            if removed:
                action = self._log.action("purge", target, reason, actor)
                store.record(replace(action, done=removed, skipped=len(ids) - removed))
        return removed

    def check_payload(self, handler: str, payload: str, secrets: Sequence[str] = ()) -> None:
        """Raise BadPayload unless the handler takes it; one that is not registered here takes all.

        The error shows neither the secrets of the payload nor these.
        """
        entry = self._backend.registry.get(checks.text(handler, "handler"))
        checks.text(payload, "payload")
        if entry is not None:
            try:
                entry.arguments.load(payload, stored=False)
            except BadPayload as error:  # the text may repeat a secret value
                known = (*secrets_of(payload), *secrets)
                text, field = (error_text(part, known, limit=500) for part in (error, error.field))
                raise BadPayload(text, field=field) from None

    def preview_edit(
        self, which: str, payload: str, *, expected: int | None = None, taker: Jobs | None = None
    ) -> str:
        """Return the payload that `Desk.edit` would store, masked.

        BadPayload if the taker's handler refuses it. What was typed is masked as if nothing of the old
        payload were known: that would tell if a secret was guessed right.
        """
        job, text = restored(self._backend.store, which, payload, expected)
        first = masked_jobs.secrets_of(job, first=True)
        if taker is not None:
            taker.check_payload(job.handler, text, first)
        return mask_json(text, first)


def check_reason(verb: str, reason: str) -> None:
    """Raise UsageError if an action must have a reason and has none."""
    if verb == "discard" and not checks.text(reason, "reason").strip():
        raise UsageError("discard needs a reason: write why these jobs are never to be run")


def restored(
    store: Store, which: str, payload: str, expected: int | None, limit: int = strict_json.MAX_BYTES
) -> tuple[Job, str]:
    """Return a job, and a payload from an editor with the hidden values in their places again."""
    job = store.get(job_id(store, which))
    if job is None:
        raise JobNotFound(f"no job {which!r}")
    # First: the masks of another version stand for other values.
    amend_changes(job, payload, now=job.updated, expected=expected)
    return job, strict_json.compact(editing.restored_of(job, payload), max_bytes=limit)
