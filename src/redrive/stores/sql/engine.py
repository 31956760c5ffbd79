"""The SQL engine: every verb that changes jobs, as statements in one transaction.

A job's next record always comes from `jobs.transitions`; the statements here only write it down. Before
anything is written the rows are read under the transaction's lock, so a fence that was found
standing still stands when its job is written.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from redrive.errors import JobNotFound, Refused, StoreDamaged, UsageError
from redrive.jobs.job import TERMINAL, Act, Claim, Job, Settlement, State
from redrive.jobs.transitions import Verb, amended, moved, seized
from redrive.stores._keys import check_same
from redrive.stores.contract import Moved, PurgeRule
from redrive.stores.sql.lists import SqlLists
from redrive.stores.sql.notes import SqlNotes, act_landed, record_act
from redrive.stores.sql.rows import as_stored, changes_to_row, job_from_row, readable
from redrive.stores.sql.settle import groups_of, held_by_id, settle, settlements_landed
from redrive.stores.sql.tx import Row, Tx


class SqlStore(SqlLists, SqlNotes):
    """A store over a database; a dialect adds how to open it, and how to claim what is due."""

    _claims_are_synced = False
    """Whether seizures, too, are on disk before they are answered, as claims are then."""

    @abstractmethod
    def _insert(self, tx: Tx, jobs: Sequence[Job]) -> bool:
        """Write new jobs with payload and history; False if others took an id or key meanwhile."""

    def add(self, jobs: Sequence[Job], *, within: object = None) -> list[Job]:
        """Keep jobs, whole; see the contract."""
        if within is not None:
            msg = f"`within` needs PostgreSQL; {self.url} has no transactions of yours to join"
            raise UsageError(msg)
        if not jobs:
            return []
        stored = self._write(lambda tx: self._add(tx, jobs), durable=True)
        self._hint_of(stored)
        return stored

    def _add(self, tx: Tx, jobs: Sequence[Job]) -> list[Job]:
        while True:
            answers, fresh = _sorted_out(tx, jobs)
            if self._insert(tx, fresh):
                return answers

    def renew(self, claims: Sequence[Claim], *, lease_for: float) -> list[bool]:
        """Lengthen leases from now; see the contract."""
        return self._write(lambda tx: _renew(tx, claims, lease_for), durable=False)

    def settle(self, results: Sequence[Settlement]) -> list[Job | None]:
        """End claims; see the contract."""
        return self._write(
            lambda tx: settle(tx, results),
            durable=False,
            landed=lambda tx, answers: settlements_landed(tx, results, answers),
        )

    def seize(
        self,
        *,
        by: str,
        lease_for: float,
        holder: str | None = None,
        handlers: Collection[str] | None = None,
        limit: int = 100,
    ) -> list[Claim]:
        """Take over running jobs whose lease has ended; see the contract."""

        def work(tx: Tx) -> list[Claim]:
            return _seize(tx, _lost(tx, holder, handlers, max(limit, 0)), by, lease_for)

        return self._write(
            work,
            durable=self._claims_are_synced,
            landed=_claims_landed,
        )

    def move(
        self,
        ids: Sequence[str],
        verb: Verb,
        act: Act,
        *,
        delays: Sequence[float] | None = None,
        run: int | None = None,
    ) -> Moved:
        """Apply a person's deed to exactly these jobs; see the contract."""
        waits = dict(zip(ids, delays, strict=True)) if delays is not None else {}
        moved = self._write(
            lambda tx: _move(tx, ids, verb, act, waits=waits, run=run),
            durable=True,
            landed=lambda tx, moved: _move_landed(tx, ids, moved),
        )
        self._hint_of(moved.done)
        return moved

    def amend(self, job_id: str, payload: str, act: Act, *, expected: int) -> Job:
        """Give a job another payload; see the contract."""
        return self._write(
            lambda tx: _amend(tx, job_id, payload, act, expected),
            durable=True,
            landed=_amendment_landed,
        )

    def purge(self, rules: Sequence[PurgeRule], *, limit: int = 10_000) -> list[tuple[str, State]]:
        """Remove finished jobs by rule; see the contract."""
        return self._write(lambda tx: _purge(tx, rules, limit), durable=False)


def _sorted_out(tx: Tx, jobs: Sequence[Job]) -> tuple[list[Job], list[Job]]:
    """Give the answer for each job, and those that are to be written."""
    by_id = {job.id: job for job in _stored(tx, "by_ids", (job.id for job in jobs))}
    by_key = _by_key(tx, jobs)
    groups = groups_of(tx, (job.failure for job in jobs if job.id not in by_id))
    fresh: list[Job] = []
    answers: list[Job] = []
    for job in jobs:
        stored = by_id.get(job.id) or _keyed(by_key, job)
        if stored is None:
            fresh.append(_as_new(groups, job))
            stored = by_id[job.id] = _without_history(fresh[-1])
            if job.key is not None:
                by_key[job.key] = stored
        answers.append(stored)
    return answers, fresh


def _stored(tx: Tx, query: str, values: Iterable[str]) -> list[Job]:
    return [job_from_row(row)[1] for row in tx.all(query, (tx.array(values),))]


def _by_key(tx: Tx, jobs: Sequence[Job]) -> dict[str, Job]:
    keys = [job.key for job in jobs if job.key is not None]
    return {job.key: job for job in _stored(tx, "by_keys", keys) if job.key} if keys else {}


def _keyed(by_key: dict[str, Job], job: Job) -> Job | None:
    """Give the job that this one's key stands for; KeyConflict if for other work."""
    stored = by_key.get(job.key) if job.key is not None else None
    if stored is None:
        return None
    check_same(stored, job)
    return replace(stored, is_new=False)


def _as_new(groups: dict[str, int], job: Job) -> Job:
    """Give the job as it is stored: with our number of its group, and a lease number that is free."""
    group = groups.get(job.failure.fingerprint) if job.failure else None
    lease = max([job.lease, *(attempt.ordinal for attempt in job.history)])
    if group == job.group and lease == job.lease and job.is_new:
        return job
    return replace(job, group=group, lease=lease, is_new=True)


def _without_history(job: Job) -> Job:
    return replace(job, history=()) if job.history else job


def _renew(tx: Tx, claims: Sequence[Claim], lease_for: float) -> list[bool]:
    held = held_by_id(tx, claims)
    boot, seconds = tx.lease_clock()
    answers: list[bool] = []
    changes: list[Row] = []
    for claim in claims:
        job = claim.job
        number, lease, holder = held.get(job.id, (0, 0, ""))
        ours = number > 0 and lease == job.lease and holder == job.holder
        if ours:
            changes.append((seconds + lease_for, boot, number))
        answers.append(ours)
    tx.many("renew", changes)
    return answers


def _lost(tx: Tx, holder: str | None, handlers: Collection[str] | None, limit: int) -> list[Row]:
    """Give the running jobs to be taken over, locked."""
    if holder is not None:
        rows = tx.all("held_by", (holder, limit))
        return [row for row in rows if handlers is None or row[5] in handlers]
    if handlers is not None:
        return tx.all("ended_of", (*tx.lease_clock(), tx.array(handlers), limit))
    return tx.all("ended", (*tx.lease_clock(), limit))


def _seize(tx: Tx, rows: list[Row], by: str, lease_for: float) -> list[Claim]:
    boot, seconds = tx.lease_clock()
    claims: list[Claim] = []
    changes: list[Row] = []
    for number, lost in readable(rows):
        job = seized(lost, by=by, lease_end=seconds + lease_for, boot=boot)
        changes.append((job.lease, job.holder, job.lease_end, job.boot, number))
        claims.append(Claim(job, lost_by=lost.holder))
    tx.many("seize", changes)
    return claims


def _claims_landed(tx: Tx, claims: list[Claim]) -> bool:
    """Whether these leases were given: all were, if one of them still stands."""
    fences = {(claim.job.id, claim.job.lease, claim.job.holder) for claim in claims}
    return any(
        job.state is State.RUNNING and (job.id, job.lease, job.holder) in fences
        for job in _stored(tx, "to_change", (claim.job.id for claim in claims))
    )


def _move(
    tx: Tx, ids: Sequence[str], verb: Verb, act: Act, *, waits: dict[str, float], run: int | None
) -> Moved:
    now = tx.now()
    found = {row[1]: row for row in tx.all("to_change", (tx.array(ids),))}
    done: list[Job] = []
    skipped: list[tuple[str, str]] = []
    changes: list[Row] = []
    for one in dict.fromkeys(ids):
        try:
            number, job = _present(found.get(one), one)
            wait = waits.get(one, 0.0)
            job = moved(job, verb, actor=act.actor, reason=act.reason, now=now, delay=wait, run=run)
        except (JobNotFound, Refused, StoreDamaged) as error:
            skipped.append((one, str(error)))
            continue
        # Of a job that is to wait for its run nothing but the tag changes: one index instead of all.
        changes.append((job.run, number) if verb == "enlist" else changes_to_row(job, number))
        done.append(as_stored(job))
    tx.many("enlist" if verb == "enlist" else "rewrite", changes)
    act = record_act(tx, replace(act, done=len(done), skipped=len(skipped)))
    return Moved(done, skipped, act)


def _move_landed(tx: Tx, ids: Sequence[str], moved: Moved) -> bool:
    tx.all("to_change", (tx.array(ids),))
    return act_landed(tx, moved.act)


def _present(row: Row | None, job_id: str) -> tuple[int, Job]:
    if row is None:
        msg = f"no job {job_id}; it may have been purged"
        raise JobNotFound(msg)
    return job_from_row(row)


def _amend(tx: Tx, job_id: str, payload: str, act: Act, expected: int) -> Job:
    row = tx.one("to_change", (tx.array([job_id]),))
    number, job = _present(row, job_id)
    if job.edits != expected:
        msg = f"was edited meanwhile ({job.edits} edits, not {expected}); look at it again"
        raise Refused(msg)
    job = amended(job, payload, now=tx.now())
    tx.many("rewrite", [changes_to_row(job, number)])
    tx.run("repay", (job.payload, job.original, number))
    record_act(tx, replace(act, done=1))
    return job


def _amendment_landed(tx: Tx, job: Job) -> bool:
    stored = _stored(tx, "to_change", [job.id])
    return [(one.edits, one.payload, one.updated) for one in stored] == [
        (job.edits, job.payload, job.updated)
    ]


def _purge(tx: Tx, rules: Sequence[PurgeRule], limit: int) -> list[tuple[str, State]]:
    gone: dict[int, tuple[str, State]] = {}
    for rule in rules:
        if rule.state not in TERMINAL:
            continue
        before = tx.now() - rule.older_than
        if rule.ids is not None:
            gone.update(_named(tx, rule, before))
            continue
        for lane, handler, category, _ in tx.all("kinds", (rule.state.value, 0)):
            if handler in rule.but or not (rule.handlers is None or handler in rule.handlers):
                continue
            args = (rule.state.value, lane, handler, category, before, max(limit, 0))
            gone.update((number, (handler, rule.state)) for (number,) in tx.all("over", args))
    chosen = dict(list(gone.items())[: max(limit, 0)])
    for query in ("remove_attempts", "remove_payloads", "remove_jobs"):
        tx.run(query, (tx.array(chosen),))
    tx.run("remove_expired", (tx.now(),))
    return list(chosen.values())


def _named(tx: Tx, rule: PurgeRule, before: float) -> Iterator[tuple[int, tuple[str, State]]]:
    """Give those of a rule's own jobs that it removes, locked until they are gone."""
    for number, job in map(job_from_row, tx.all("to_change", (tx.array(rule.ids or ()),))):
        allowed = job.handler not in rule.but and (
            rule.handlers is None or job.handler in rule.handlers
        )
        if allowed and job.state is rule.state and (job.finished or 0.0) < before:
            yield number, (job.handler, job.state)
