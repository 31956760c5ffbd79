"""What people do to jobs, and what retention removes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from redrive.errors import JobNotFound, Refused, StoreDamaged
from redrive.jobs.job import TERMINAL, Act, Job, State
from redrive.jobs.transitions import Changed, Verb, action_changes, amend_changes, changed
from redrive.stores.contract import Moved, PurgeRule
from redrive.stores.sql.notes import record_act
from redrive.stores.sql.outbox import Reports, keep_action_jobs, remove_old, write_events
from redrive.stores.sql.tx import Row
from redrive.stores.sqlite.changing import write_changes
from redrive.stores.sqlite.rows import job_from_row, readable
from redrive.stores.sqlite.tx import SqliteTx


def move(
    tx: SqliteTx,
    ids: Sequence[str],
    verb: Verb,
    act: Act,
    reports: Reports,
    *,
    waits: dict[str, float],
    run: int | None,
) -> Moved:
    """Apply an action to exactly these jobs."""
    now = tx.now()
    found = {row[1]: row for row in tx.all("by_ids", (tx.array(ids),))}
    changes: list[tuple[int, Changed]] = []
    skipped: list[tuple[str, str]] = []
    for one in dict.fromkeys(ids):
        try:
            number, job = _present(found.get(one), one)
            fields = action_changes(
                job,
                verb,
                actor=act.actor,
                reason=act.reason,
                now=now,
                delay=waits.get(one, 0.0),
                run=run,
            )
        except (JobNotFound, Refused, StoreDamaged) as error:
            skipped.append((one, str(error)))
            continue
        changes.append((number, changed(job, fields)))
    write_changes(tx, [one for one in changes if one[1].changes])
    done = [change for _, change in changes]
    act = record_act(tx, replace(act, done=len(done), skipped=len(skipped)))
    if verb != "enlist":
        keep_action_jobs(tx, act.number, done)
        write_events(tx, reports, ((one.was, one.job) for one in done))
    return Moved([one.job for one in done], skipped, act)


def _present(row: Row | None, job_id: str) -> tuple[int, Job]:
    if row is None:
        msg = f"no job {job_id}; it may have been purged"
        raise JobNotFound(msg)
    return job_from_row(row)


def amend(tx: SqliteTx, job_id: str, payload: str, act: Act, expected: int) -> Job:
    """Give a job another payload if it was not edited meanwhile."""
    number, job = _present(tx.one("by_id", (job_id,)), job_id)
    if job.edits != expected:
        msg = f"was edited meanwhile ({job.edits} edits, not {expected}); look at it again"
        raise Refused(msg)
    change = changed(job, amend_changes(job, payload, now=tx.now()))
    write_changes(tx, [(number, change)])
    tx.run("repay", (change.job.payload, change.job.original, number))
    act = record_act(tx, replace(act, done=1))
    keep_action_jobs(tx, act.number, [change])
    return change.job


def purge(
    tx: SqliteTx, rules: Sequence[PurgeRule], limit: int, reports: Reports
) -> list[tuple[str, State]]:
    """Remove ended jobs by rule, and all else that is beyond its bounds."""
    gone: dict[int, tuple[str, State]] = {}
    for rule in rules:
        if rule.state in TERMINAL:
            gone.update(_over(tx, rule, max(limit, 0)))
    chosen = dict(list(gone.items())[: max(limit, 0)])
    numbers = tx.array(chosen)
    if reports.wants("purged"):
        jobs = readable(tx.all("by_numbers", (numbers,)))
        write_events(tx, reports, ((job, None) for _, job in jobs))
    for query in ("remove_attempts", "remove_payloads", "remove_jobs"):
        tx.run(query, (numbers,))
    remove_old(tx)
    return list(chosen.values())


def _over(tx: SqliteTx, rule: PurgeRule, limit: int) -> Iterator[tuple[int, tuple[str, State]]]:
    """Return the numbers of jobs that a rule removes."""
    before = tx.now() - rule.older_than
    if rule.ids is not None:
        args = (tx.array(rule.ids), rule.state._value_, before)
        for number, handler in tx.all("over_of", args):
            if _is_allowed(rule, handler):
                yield number, (handler, rule.state)
        return
    for lane, handler, category, _ in tx.all("kinds", (rule.state._value_, 0)):
        if _is_allowed(rule, handler):
            kind = (rule.state._value_, lane, handler, category)
            for (number,) in tx.all("over", (*kind, before, limit)):
                yield number, (handler, rule.state)


def _is_allowed(rule: PurgeRule, handler: str) -> bool:
    return handler not in rule.but and (rule.handlers is None or handler in rule.handlers)
