"""The engine of the memory and the journal store: every verb, evaluated against the index.

Nothing here touches a file. An operation looks at the index and drafts its changes; whoever runs it
keeps the changes (writes the lines) and applies them. An operation that raises has changed nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from redrive.errors import JobNotFound, Refused
from redrive.jobs.clock import Clock
from redrive.jobs.job import TERMINAL, Act, Claim, Group, Job, Settlement, State
from redrive.jobs.transitions import Verb, amended, claimed, moved, seized, settled, with_attempt
from redrive.stores._keys import check_same
from redrive.stores.contract import ALONE, Count, Members, Moved, Page, PurgeRule, Query
from redrive.stores.index import search
from redrive.stores.index.draft import Draft
from redrive.stores.index.entries import Change, Entry, Index, Noted, Purged, Queue
from redrive.stores.index.search import without_history
from redrive.stores.note_verbs import PAUSE, Note

R = TypeVar("R")
Drafted = tuple[R, list[Change]]
"""What an operation gives back, and what must be kept before it may."""


class Engine:
    """The verbs of a store over an index; `load` gives the whole job of an entry."""

    def __init__(self, index: Index, clock: Clock, load: Callable[[Entry], Job]) -> None:
        self.index = index
        self._clock = clock
        self._load = load

    def add(self, jobs: Sequence[Job]) -> Drafted[list[Job]]:
        """Keep jobs, or give those that are there already."""
        draft = Draft(self.index, self._load)
        return [without_history(self._add(draft, job)) for job in jobs], draft.changes

    def _add(self, draft: Draft, job: Job) -> Job:
        stored = draft.job(job.id)
        if stored is not None:
            return stored
        if job.key is not None:
            stored = draft.keyed(job.key)
            if stored is not None:
                check_same(stored, job)
                return replace(stored, is_new=False)
        group = draft.group(job.failure) if job.failure else None
        lease = job.lease
        if job.history:
            lease = max(lease, *(attempt.ordinal for attempt in job.history))
        if group != job.group or lease != job.lease or not job.is_new:
            job = replace(job, group=group, lease=lease, is_new=True)
        draft.put(job)
        return job

    def claim(
        self,
        handlers: Collection[str],
        *,
        limit: int,
        holder: str,
        lease_for: float,
        lanes: Collection[str] | None,
        only: Collection[str] | None,
        suspects: bool,
        ignore_waits: bool,
        past_pauses: bool,
    ) -> Drafted[list[Claim]]:
        """Lease due jobs, earliest first."""
        now = self._clock.now()
        boot, seconds = self._clock.boot()
        draft = Draft(self.index, self._load)
        queues = self._claimable(
            handlers, lanes, suspects=suspects, ignore_pauses=ignore_waits or past_pauses
        )
        latest = float("inf") if ignore_waits else now
        if only is None:
            if suspects and not ignore_waits and self._suspect_runs(now):
                limit = 0
            due = self._take(queues, latest, limit)
        else:
            due = self._among(only, queues, latest)[: max(limit, 0)]
        claims: list[Claim] = []
        for entry in due:
            job = claimed(
                self._load(entry), holder=holder, now=now, lease_end=seconds + lease_for, boot=boot
            )
            draft.put(job)
            claims.append(Claim(without_history(job)))
        return claims, draft.changes

    def _suspect_runs(self, now: float) -> bool:
        """Whether a job that crashed before has just been claimed, and runs."""
        entries = (self.index.entries[one] for one in self.index.running)
        jobs = (self._load(entry) for entry in entries if entry.queue.suspect)
        return any(abs(now - job.updated) < ALONE for job in jobs)

    def _claimable(
        self,
        handlers: Collection[str],
        lanes: Collection[str] | None,
        *,
        suspects: bool,
        ignore_pauses: bool,
    ) -> list[Queue]:
        paused: set[str] = set()
        if not ignore_pauses:
            paused = {note.name.removeprefix(PAUSE) for note in self._live_notes(PAUSE)}
        wanted = frozenset(handlers)
        return [
            queue
            for (lane, handler, suspect), queue in self.index.queues.items()
            if suspect is suspects
            and handler in wanted
            and lane not in paused
            and (lanes is None or lane in lanes)
        ]

    def _take(self, queues: list[Queue], latest: float, limit: int) -> list[Entry]:
        """Give the first waiting jobs over all queues. They stay in their heaps."""
        heads = [(item, at) for at, queue in enumerate(queues) if (item := self._top(queue))]
        heapq.heapify(heads)
        taken: list[tuple[Queue, tuple[float, str]]] = []
        while heads and len(taken) < limit and heads[0][0][0] <= latest:
            item, at = heads[0]
            queue = queues[at]
            heapq.heappop(queue.heap)
            if not taken or taken[-1][1] != item:  # the same job may lie there twice
                taken.append((queue, item))
            following = self._top(queue)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, at))
        for queue, item in taken:
            # Put back, so that an operation that fails later has changed nothing; once a job is
            # claimed its item is a leftover and goes away when it comes to the top again.
            heapq.heappush(queue.heap, item)
        return [self.index.entries[item[1]] for _, item in taken]

    def _top(self, queue: Queue) -> tuple[float, str] | None:
        """Give the first item that still waits; drops the leftovers above it."""
        heap = queue.heap
        while heap:
            if self.index.is_waiting(queue, heap[0]):
                return heap[0]
            heapq.heappop(heap)
        return None

    def _among(self, ids: Iterable[str], queues: list[Queue], latest: float) -> list[Entry]:
        """Give those of some jobs that may be claimed, earliest due first."""
        wanted = {id(queue) for queue in queues}
        found = (self.index.entries.get(one) for one in set(ids))
        due = [
            entry
            for entry in found
            if entry is not None
            and entry.state is State.PENDING
            and entry.due <= latest
            and id(entry.queue) in wanted
        ]
        return sorted(due, key=lambda entry: (entry.due, entry.id))

    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> Drafted[list[bool]]:
        """Lengthen leases that are still held."""
        boot, seconds = self._clock.boot()
        draft = Draft(self.index, self._load)
        taken: list[bool] = []
        for claim in claims:
            job = self._held(draft, claim)
            taken.append(job is not None)
            if job is not None:
                draft.put(replace(job, lease_end=seconds + lease_for, boot=boot))
        return taken, draft.changes

    def settle(self, results: Sequence[Settlement]) -> Drafted[list[Job | None]]:
        """End claims that are still held."""
        now = self._clock.now()
        draft = Draft(self.index, self._load)
        return [self._settle(draft, result, now) for result in results], draft.changes

    def _settle(self, draft: Draft, result: Settlement, now: float) -> Job | None:
        job = self._held(draft, result.claim)
        if job is None:
            return None
        attempt, most = result.attempt, result.max_attempts
        failure = attempt.failure if attempt else None
        group = draft.group(failure) if failure else None
        job = settled(job, result.verdict, failure, now=now, group=group, max_attempts=most)
        if attempt is None:
            draft.put(job)
            return without_history(job)
        whole = with_attempt(job, attempt)
        draft.put(whole)
        return without_history(whole) if job.history else job

    def _held(self, draft: Draft, claim: Claim) -> Job | None:
        """Give the job of a claim if its fence still stands."""
        job = claim.job
        lease = self.index.running.get(job.id)
        if lease is None or lease.number != job.lease or lease.holder != job.holder:
            return None
        now = draft.job(job.id)
        # Asked again, because an earlier part of this operation may have ended it.
        return now if now is not None and now.state is State.RUNNING else None

    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None,
        handlers: Collection[str] | None,
        limit: int,
    ) -> Drafted[list[Claim]]:
        """Take over running jobs whose holder is gone."""
        boot, seconds = self._clock.boot()
        draft = Draft(self.index, self._load)
        claims: list[Claim] = []
        for one, lease in self.index.running.items():
            if len(claims) >= limit:
                break
            ended = lease.boot != boot or lease.end is None or lease.end <= seconds
            if handlers is not None and self.index.entries[one].queue.handler not in handlers:
                continue
            if lease.holder == holder if holder is not None else ended:
                job = self._load(self.index.entries[one])
                job = seized(job, by=by, lease_end=seconds + lease_for, boot=boot)
                draft.put(job)
                claims.append(Claim(without_history(job), lost_by=lease.holder))
        return claims, draft.changes

    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        act: Act,
        *,
        delays: Sequence[float] | None,
        run: int | None,
    ) -> Drafted[Moved]:
        """Apply a person's deed to jobs, each once."""
        now = self._clock.now()
        draft = Draft(self.index, self._load)
        done: list[Job] = []
        skipped: list[tuple[str, str]] = []
        waits = dict(zip(ids, delays, strict=True)) if delays is not None else {}
        for one in dict.fromkeys(ids):
            try:
                job = draft.need(one)
                job = moved(
                    job,
                    verb,
                    actor=act.actor,
                    reason=act.reason,
                    now=now,
                    delay=waits.get(one, 0.0),
                    run=run,
                )
            except (JobNotFound, Refused) as error:
                skipped.append((one, str(error)))
                continue
            draft.put(job)
            done.append(without_history(job))
        kept = draft.act(replace(act, done=len(done), skipped=len(skipped)), now)
        return Moved(done, skipped, kept), draft.changes

    def amend(self, job_id: str, payload: str, act: Act, *, expected: int) -> Drafted[Job]:
        """Give a job another payload, if nobody else did meanwhile."""
        now = self._clock.now()
        draft = Draft(self.index, self._load)
        job = draft.need(job_id)
        if job.edits != expected:
            msg = f"was edited meanwhile ({job.edits} edits, not {expected}); look at it again"
            raise Refused(msg)
        job = amended(job, payload, now=now)
        draft.put(job)
        draft.act(replace(act, done=1), now)
        return without_history(job), draft.changes

    def purge(self, rules: Sequence[PurgeRule], *, limit: int) -> Drafted[list[tuple[str, State]]]:
        """Remove finished jobs by rule."""
        now = self._clock.now()
        gone: list[Entry] = []
        for entry in self.index.entries.values():
            if len(gone) >= limit:
                break
            if entry.state in TERMINAL and any(_is_over(entry, rule, now) for rule in rules):
                gone.append(entry)
        changes: list[Change] = [Purged(tuple(entry.id for entry in gone))] if gone else []
        return [(entry.queue.handler, entry.state) for entry in gone], changes

    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None,
        expires_in: float | None,
    ) -> Drafted[Note | None]:
        """Write or remove a note, if its version is still the expected one."""
        now = self._clock.now()
        stored = self.index.notes.get(name)
        live = stored is not None and _is_live(stored, now)
        if expected is not None and expected != (stored.version if stored and live else 0):
            return None, []
        version = self.index.note_version + 1
        if value is None:
            changes: list[Change] = [Noted(name, None, version, None)] if stored else []
            return Note(name, "", 0), changes
        expires = None if expires_in is None else now + expires_in
        return Note(name, value, version, expires_in), [Noted(name, value, version, expires)]

    def record(self, act: Act) -> Drafted[Act]:
        """Keep an act that moved no job."""
        draft = Draft(self.index, self._load)
        return draft.act(act, self._clock.now()), draft.changes

    def get(self, job_id: str) -> Job | None:
        """Give one job with its history."""
        entry = self.index.entries.get(job_id)
        return None if entry is None else self._load(entry)

    def find(self, query: Query) -> Page:
        """Give a page of jobs."""
        return search.find(self.index, self._load, query, self._clock.now())

    def counts(self) -> list[Count]:
        """Count all jobs."""
        return search.counts(self.index)

    def groups(self, query: Query) -> list[Group]:
        """Count jobs by cause."""
        return search.groups(self.index, self._load, query, self._clock.now())

    def deaths(
        self, width: float, number: int, groups: Collection[int] | None
    ) -> dict[int, list[int]]:
        """Count when jobs died."""
        return search.deaths(self.index, self._clock.now(), width, number, groups)

    def members(self, run: int, limit: int) -> Members:
        """Count the jobs of a run."""
        return search.members(self.index, run, limit)

    def notes(self, prefix: str) -> list[Note]:
        """Give the live notes, by name."""
        now = self._clock.now()
        return [
            Note(
                note.name,
                note.value or "",
                note.version,
                None if note.expires is None else note.expires - now,
            )
            for note in sorted(self._live_notes(prefix))
        ]

    def _live_notes(self, prefix: str) -> Iterator[Noted]:
        now = self._clock.now()
        for name, note in self.index.notes.items():
            if name.startswith(prefix) and _is_live(note, now):
                yield note

    def acts(self, *, limit: int, before: int | None) -> list[Act]:
        """Give acts, newest first."""
        found = (act for act in reversed(self.index.acts) if before is None or act.number < before)
        return [act for act, _ in zip(found, range(max(limit, 0)), strict=False)]


def _is_over(entry: Entry, rule: PurgeRule, now: float) -> bool:
    handler = entry.queue.handler
    return (
        entry.state is rule.state
        and entry.finished is not None
        and now - entry.finished > rule.older_than
        and (rule.handlers is None or handler in rule.handlers)
        and handler not in rule.but
        and (rule.ids is None or entry.id in rule.ids)
    )


def _is_live(note: Noted, now: float) -> bool:
    return note.expires is None or note.expires > now
