"""What changes jobs beside claims and their ends: people's actions, edits, seizures, purges.

Rows are locked and read, the next record comes from `jobs.transitions`, and it is written under the fence;
a job that changed tables meanwhile makes the transaction begin anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from psycopg.errors import SerializationFailure

from redrive.errors import JobNotFound, Refused, StoreDamaged
from redrive.jobs.job import TERMINAL, Act, Claim, Job, State
from redrive.jobs.transitions import (
    Changed,
    Verb,
    action_changes,
    amend_changes,
    changed,
    seized,
)
from redrive.stores.contract import Moved, PurgeRule
from redrive.stores.postgres.rows import ROW, job_from_row, readable, state_row
from redrive.stores.postgres.tx import PostgresTx
from redrive.stores.sql.notes import act_landed, record_act
from redrive.stores.sql.outbox import Reports, keep_action_jobs, remove_old, write_events
from redrive.stores.sql.tx import Row


def move(
    tx: PostgresTx,
    ids: Sequence[str],
    verb: Verb,
    act: Act,
    reports: Reports,
    *,
    waits: dict[str, float],
    run: int | None,
) -> Moved:
    """Apply a person's action to exactly these jobs."""
    found = {row[1]: row for row in tx.all("to_change", (list(ids),))}
    done: list[Changed] = []
    skipped: list[tuple[str, str]] = []
    for one in dict.fromkeys(ids):
        try:
            job = _present(found.get(one), one)
            wait = waits.get(one, 0.0)
            changes = action_changes(
                job, verb, actor=act.actor, reason=act.reason, now=tx.now(), delay=wait, run=run
            )
        except (JobNotFound, Refused, StoreDamaged) as error:
            skipped.append((one, str(error)))
            continue
        done.append(changed(job, changes))
    act = _write(tx, done, replace(act, done=len(done), skipped=len(skipped)), verb, reports)
    return Moved([change.job for change in done], skipped, act)


def _write(
    tx: PostgresTx, done: Sequence[Changed], act: Act, verb: Verb | None, reports: Reports
) -> Act:
    """Write jobs that an action changed, the action, and what they were before it."""
    name, row = ("enlist", _tag_row) if verb == "enlist" else ("change_jobs", _change_row)
    rows = sorted(map(row, done), key=itemgetter(0))
    cursor = tx.batch(name, rows)
    (took,) = (cursor.fetchone() if cursor else None) or (0,)
    if took != len(done):
        msg = "a job was changed meanwhile"
        raise SerializationFailure(msg)
    write_events(tx, reports, ((one.was, one.job) for one in done))
    act = record_act(tx, act)
    if verb != "enlist":
        keep_action_jobs(tx, act.number, done)
    return act


def _tag_row(change: Changed) -> Row:
    return change.job.__dict__[ROW], change.was.lease, change.job.run


def _change_row(change: Changed) -> Row:
    job = change.job
    head, rest = state_row(job)[:5], state_row(job)[5:]
    return (job.__dict__[ROW], change.was.lease, change.was.holder, *head, job.run, *rest)


def move_landed(tx: PostgresTx, ids: Sequence[str], moved: Moved) -> bool:
    """Return True if exactly this was done."""
    tx.all("to_change", (list(ids),))
    return act_landed(tx, moved.act)


def _present(row: Row | None, job_id: str) -> Job:
    if row is None:
        msg = f"no job {job_id}; it may have been purged"
        raise JobNotFound(msg)
    return job_from_row(row)


def amend(
    tx: PostgresTx, job_id: str, payload: str, act: Act, reports: Reports, *, expected: int
) -> Job:
    """Replace a job's payload."""
    job = _present(tx.one("to_change", ([job_id],)), job_id)
    if job.edits != expected:
        msg = f"was edited meanwhile ({job.edits} edits, not {expected}); look at it again"
        raise Refused(msg)
    change = changed(job, amend_changes(job, payload, now=tx.now()))
    _write(tx, [change], replace(act, done=1), None, reports)
    new = change.job
    tx.run("repay", (new.payload, new.original, new.__dict__[ROW]))
    return new


def amendment_landed(tx: PostgresTx, job: Job) -> bool:
    """Return True if the job is as this edit left it."""
    stored = [job_from_row(row) for row in tx.all("to_change", ([job.id],))]
    return [(one.edits, one.payload, one.updated) for one in stored] == [
        (job.edits, job.payload, job.updated)
    ]


def seize(
    tx: PostgresTx,
    *,
    by: str,
    lease_for: float,
    holder: str | None,
    handlers: Collection[str] | None,
    damaged: list[int],
    limit: int,
    place: str,
) -> list[Claim]:
    """Take over running jobs whose lease has ended, or all of one holder."""
    only = None if handlers is None else list(handlers)
    args = (holder, tx.now(), holder, only, only, damaged, max(limit, 0))
    numbers = [number for (number,) in tx.all("lock_lost", args)]
    lost = readable(tx.all("by_numbers", (numbers,)), place) if numbers else []
    end = tx.now() + lease_for
    claims = [
        Claim(seized(job, by=by, lease_end=end, boot=None), lost_by=job.holder) for job in lost
    ]
    jobs = [claim.job for claim in claims]
    tx.many("seize", [(job.__dict__[ROW], job.lease, job.holder, job.lease_end) for job in jobs])
    return claims


def claims_landed(tx: PostgresTx, claims: list[Claim]) -> bool:
    """Return True if these leases were given: all were, if one of them still stands."""
    fences = {(claim.job.id, claim.job.lease, claim.job.holder) for claim in claims}
    rows = tx.all("to_change", ([claim.job.id for claim in claims],))
    return any((job.id, job.lease, job.holder) in fences for job in map(job_from_row, rows))


def purge(
    tx: PostgresTx, rules: Sequence[PurgeRule], limit: int, reports: Reports
) -> list[tuple[str, State]]:
    """Remove ended jobs by rule, and what else is beyond its bounds."""
    gone: dict[int, tuple[str, State]] = {}
    for rule in rules:
        if rule.state not in TERMINAL:
            continue
        before = tx.now() - rule.older_than
        if rule.ids is not None:
            gone.update(_named(tx, rule, before))
            continue
        for lane, handler, category in tx.all("kinds", (rule.state.value,)):
            if _is_of(rule, handler):
                args = (rule.state.value, lane, handler, category, before, max(limit, 0))
                gone.update((number, (handler, rule.state)) for (number,) in tx.all("over", args))
    chosen = dict(list(gone.items())[: max(limit, 0)])
    if chosen and reports.wants("purged"):
        jobs = readable(tx.all("by_numbers", (list(chosen),)))
        write_events(tx, reports, ((job, None) for job in jobs))
    tx.run("remove_jobs", (list(chosen),))
    remove_old(tx)
    return list(chosen.values())


def _is_of(rule: PurgeRule, handler: str) -> bool:
    return handler not in rule.but and (rule.handlers is None or handler in rule.handlers)


def _named(
    tx: PostgresTx, rule: PurgeRule, before: float
) -> Iterator[tuple[int, tuple[str, State]]]:
    """Return those of a rule's own jobs that it removes, locked until they are gone."""
    for job in map(job_from_row, tx.all("to_change", (list(rule.ids or ()),))):
        if _is_of(rule, job.handler) and job.state is rule.state and job.updated < before:
            yield job.__dict__[ROW], (job.handler, job.state)
