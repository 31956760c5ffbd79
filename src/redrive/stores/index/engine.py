"""The verbs that change jobs, evaluated against the index; nothing here touches a file."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from redrive.errors import UsageError
from redrive.jobs.job import TERMINAL, Action, Claim, Job, Settlement, State
from redrive.jobs.records import evolve
from redrive.jobs.transitions import (
    Verb,
    amend_changes,
    changed,
    claim_all,
    is_changed,
    seized,
    settle_all,
    with_action,
    with_attempt,
)
from redrive.stores._keys import check_same
from redrive.stores.contract import ALONE, Moved, PurgeRule
from redrive.stores.counting import counts_added, counts_of, last_release
from redrive.stores.index.base import Drafted, writes
from redrive.stores.index.changes import Purged
from redrive.stores.index.draft import Draft
from redrive.stores.index.entries import Entry, Queue
from redrive.stores.index.search import SearchStore, without_history
from redrive.stores.moving import apply_to
from redrive.stores.note_verbs import PAUSE


class EngineStore(SearchStore):
    """Evaluates the verbs that change jobs; see the contract for what each promises."""

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, or return those that are there already."""
        if within is not None:
            msg = f"`within` needs PostgreSQL; {self.url} has no transactions of yours to join"
            raise UsageError(msg)
        stored = self._write(lambda: self._add_all(jobs), durable=True)
        self._hint_of(stored)
        return stored

    def _add_all(self, jobs: Sequence[Job]) -> Drafted[list[Job]]:
        draft = self._draft()
        dead: list[Job] = []
        stored = [without_history(self._add(draft, job, dead)) for job in jobs]
        if dead:
            self._count(draft, counts_added(dead, draft.now))
        return stored, draft.changes

    def _add(self, draft: Draft, job: Job, dead: list[Job]) -> Job:
        stored = draft.job(job.id)
        if stored is not None:
            return stored
        if job.key is not None:
            stored = draft.keyed(job.key)
            if stored is not None:
                check_same(stored, job)
                return replace(stored, is_new=False)
        if job.failure is not None or job.history or job.group or not job.is_new:
            job = self._placed(draft, job)
        draft.put(job)
        draft.report(None, job)
        if job.state is State.DEAD:
            dead.append(job)
        return job

    def _placed(self, draft: Draft, job: Job) -> Job:
        """Return a job that has lived before with the numbers that this store gives it."""
        group = draft.place(job.failure, last_release(job)) if job.failure else None
        lease = max([job.lease, *(attempt.ordinal for attempt in job.history)])
        return evolve(job, group=group, lease=lease, is_new=True)

    @writes(durable=False)
    def claim(
        self,
        handlers: Collection[str],
        *,
        limit: int,
        holder: str,
        lease_for: float,
        lanes: Collection[str] | None = None,
        only: Collection[str] | None = None,
        suspects: bool = False,
        ignore_waits: bool = False,
        past_pauses: bool = False,
    ) -> Drafted[list[Claim]]:
        """Lease due jobs, earliest first."""
        draft = self._draft()
        now = draft.now
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
        jobs = map(self._load, due)
        leased = claim_all(jobs, holder=holder, now=now, lease_end=now + lease_for)
        for _, _, job in leased:
            draft.put(job)
        return [Claim(without_history(job)) for _, _, job in leased], draft.changes

    def _suspect_runs(self, now: float) -> bool:
        """Return True if a job that crashed before has just been claimed, and runs."""
        entries = self.index.entries
        running = self.index.running.items()
        return any(
            entries[one].queue.suspect and abs(now - lease.since) < ALONE for one, lease in running
        )

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
            for queue in self.index.queues.values()
            if queue.state is State.PENDING
            and queue.suspect is suspects
            and queue.handler in wanted
            and queue.lane not in paused
            and (lanes is None or queue.lane in lanes)
        ]

    def _take(self, queues: list[Queue], latest: float, limit: int) -> list[Entry]:
        """Return the first waiting jobs over all queues. They stay in their heaps."""
        heads = [
            (item, at)
            for at, queue in enumerate(queues)
            if (item := self.index.first_waiting(queue))
        ]
        heapq.heapify(heads)
        taken: list[tuple[Queue, tuple[float, str]]] = []
        while heads and len(taken) < limit and heads[0][0][0] <= latest:
            item, at = heads[0]
            queue = queues[at]
            heapq.heappop(queue.heap)
            if not taken or taken[-1][1] != item:  # the same job may lie there twice
                taken.append((queue, item))
            following = self.index.first_waiting(queue)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following, at))
        for queue, item in taken:
            # Put back, so that an operation that fails later has changed nothing; once a job is
            # claimed its item is a leftover and goes away when it comes to the top again.
            heapq.heappush(queue.heap, item)
        return [self.index.entries[item[1]] for _, item in taken]

    def _among(self, ids: Iterable[str], queues: list[Queue], latest: float) -> list[Entry]:
        """Return those of some jobs that may be claimed, earliest due first."""
        wanted = set(queues)
        found = (self.index.entries.get(one) for one in set(ids))
        due = [
            entry
            for entry in found
            if entry is not None and entry.due <= latest and entry.queue in wanted
        ]
        return sorted(due, key=lambda entry: (entry.due, entry.id))

    @writes(durable=False)
    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> Drafted[list[bool]]:
        """Lengthen leases that are still held."""
        draft = self._draft()
        taken: list[bool] = []
        for claim in claims:
            job = self._held(draft, claim)
            taken.append(job is not None)
            if job is not None:
                draft.put(evolve(job, lease_end=draft.now + lease_for))
        return taken, draft.changes

    @writes(durable=False)
    def settle(self, results: Sequence[Settlement]) -> Drafted[list[Job | None]]:
        """End claims that are still held."""
        draft = self._draft()
        held: dict[str, tuple[Job, Settlement]] = {}
        took: list[bool] = []
        releases: dict[int, str | None] = {}
        for result in results:
            job = self._held(draft, result.claim)
            took.append(job is not None and job.id not in held)
            if job is not None and took[-1]:
                held[job.id] = (job, result)
                attempt = result.attempt
                if attempt is not None and attempt.failure is not None:
                    releases.setdefault(id(attempt.failure), attempt.release or job.release)
        ends = settle_all(
            held.values(),
            now=draft.now,
            place=lambda failure: draft.place(failure, releases[id(failure)]),
        )
        settled: list[Job] = []
        for (_, result), end in zip(held.values(), ends, strict=True):
            whole = with_attempt(end.job, result.attempt) if result.attempt else end.job
            draft.put(whole)
            settled.append(without_history(whole) if end.job.history else end.job)
            draft.report(end.was, settled[-1])
        self._count(draft, counts_of(zip((one for _, one in held.values()), ends, strict=True)))
        jobs = iter(settled)
        return [next(jobs) if taken else None for taken in took], draft.changes

    def _held(self, draft: Draft, claim: Claim) -> Job | None:
        """Return the job of a claim if its fence still stands."""
        job = claim.job
        lease = self.index.running.get(job.id)
        if lease is None or (lease.number, lease.holder, lease.since) != (
            job.lease,
            job.holder,
            job.updated,
        ):
            return None
        now = draft.job(job.id)
        # Asked again, because an earlier part of this operation may have ended it.
        return now if now is not None and now.state is State.RUNNING else None

    @writes(durable=False)
    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None = None,
        handlers: Collection[str] | None = None,
        limit: int = 100,
    ) -> Drafted[list[Claim]]:
        """Take over running jobs whose holder is gone."""
        draft = self._draft()
        claims: list[Claim] = []
        for one, lease in self.index.running.items():
            if len(claims) >= limit:
                break
            ended = lease.end is None or lease.end <= draft.now
            if handlers is not None and self.index.entries[one].queue.handler not in handlers:
                continue
            if lease.holder == holder if holder is not None else ended:
                job = self._load(self.index.entries[one])
                job = seized(job, by=by, lease_end=draft.now + lease_for)
                draft.put(job)
                claims.append(Claim(without_history(job), lost_by=lease.holder))
        return claims, draft.changes

    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        action: Action,
        *,
        delays: Sequence[float] | None = None,
        run: int | None = None,
    ) -> Moved:
        """Apply an action to jobs, each once."""

        def work() -> Drafted[Moved]:
            draft = self._draft()
            done, skipped, kept = apply_to(
                draft.need, draft.action, ids, verb, action, now=draft.now, delays=delays, run=run
            )
            for one in done:
                draft.put(one.job)
                draft.report(one.was, without_history(one.job))
            return Moved([without_history(one.job) for one in done], skipped, kept), draft.changes

        moved = self._write(work, durable=True)
        self._hint_of(moved.done)
        return moved

    @writes(durable=True)
    def amend(self, job_id: str, payload: str, action: Action, *, expected: int) -> Drafted[Job]:
        """Replace a job's payload, if nobody else did meanwhile."""
        draft = self._draft()
        job = draft.need(job_id)
        change = changed(job, amend_changes(job, payload, now=draft.now, expected=expected))
        change = with_action(change, draft.action(replace(action, done=1)).number)
        draft.put(change.job)
        return without_history(change.job), draft.changes

    @writes(durable=False)
    def purge(
        self, rules: Sequence[PurgeRule], *, limit: int = 10_000
    ) -> Drafted[list[tuple[str, State]]]:
        """Remove finished jobs by rule."""
        draft = self._draft()
        now = draft.now
        gone: list[Entry] = []
        for entry in self.index.entries.values():
            if len(gone) >= limit:
                break
            if entry.state in TERMINAL and any(_is_over(entry, rule, now) for rule in rules):
                gone.append(entry)
        if any("purged" in kinds for kinds in self.index.subscriptions.values()):
            for entry in gone:
                draft.report(without_history(self._load(entry)), None)
        if gone:
            draft.changes.append(Purged(tuple(entry.id for entry in gone)))
        return [(entry.queue.handler, entry.state) for entry in gone], draft.changes


def _is_over(entry: Entry, rule: PurgeRule, now: float) -> bool:
    return (
        entry.state is rule.state
        and now - entry.updated > rule.older_than
        and rule.is_for(entry.queue.handler)
        and rule.was_dead in {None, entry.died is not None}
        and (rule.ids is None or entry.id in rule.ids)
        and (not rule.since or not is_changed(entry.updated, rule.since, now))
    )
