"""How each verb changes a job's record. Pure: a job goes in, the fields that change come out.

Every rule exists once, in a function that returns *changes*: the changed fields and their new values.
`claim_changes`, `seizure_changes`, `end_changes`, `action_changes` and `amend_changes` are the five;
`claimed`, `seized`, `settled` and `amended` return the job with them. Stores write the changes,
so what no verb names stays as it is stored. Each verb checks `TRANSITIONS`.

`claim_all` and `settle_all` do a batch: jobs that change alike share one dict of changes, so that a
store can write them with one statement. Nobody may write into a dict of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite
from typing import Literal, NamedTuple, Required, TypedDict, TypeVar, Unpack, assert_never

from redrive.errors import Refused, UsageError
from redrive.jobs.job import (
    TRANSITIONS,
    Attempt,
    Category,
    Completed,
    Dead,
    Failure,
    Job,
    Reason,
    Resolution,
    Retry,
    Return,
    Settlement,
    State,
    Verdict,
)
from redrive.jobs.records import altered, evolve, job_of

Verb = Literal["retry", "resolve", "discard", "reopen", "enlist"]
"""What people do to jobs; `enlist` only tags them as part of a run."""

Changes = dict[str, object]
"""The fields of a job that change, and their new values. Read only: several jobs may share one."""

Place = Callable[[Failure], int | None]
"""Returns the number of a failure's group; the store gives it."""

_RUNS = "is running now; wait for it to end"

KEEP_FIRST, KEEP_LAST = 5, 20
"""How many attempts of a job's history are kept at either end; the middle is folded."""
MOST_KEPT = KEEP_FIRST + KEEP_LAST
KEEP_ACTIONS = 20

CHANGED = "changed since the plan was made"
SLACK = 1.0
"""Seconds by which clocks may differ."""

T = TypeVar("T")


class Changed(NamedTuple):
    """A job before and after one verb, and the fields that differ."""

    was: Job
    changes: Changes
    job: Job


def changed(job: Job, changes: Changes) -> Changed:
    """Apply changes to a job."""
    return Changed(job, changes, job_of(job.__dict__ | changes))


def claim_changes(job: Job, *, holder: str, now: float, lease_end: float) -> Changes:
    """Lease a pending job: the attempt is counted here, before the handler starts."""
    _ensure(job, State.RUNNING)
    return {
        "state": State.RUNNING,
        "attempts": job.attempts + 1,
        "lease": job.lease + 1,
        "holder": holder,
        "lease_end": lease_end,
        "updated": now,
    }


def claimed(job: Job, *, holder: str, now: float, lease_end: float) -> Job:
    """Return a pending job as it is once it is leased."""
    changes = claim_changes(job, holder=holder, now=now, lease_end=lease_end)
    return job_of(job.__dict__ | changes)


def claim_all(jobs: Iterable[Job], *, holder: str, now: float, lease_end: float) -> list[Changed]:
    """Lease pending jobs; those with the same numbers of attempts and leases share their changes."""
    alike: dict[tuple[str, int, int], Changes] = {}
    claims: list[Changed] = []
    for job in jobs:
        kind = (job.state._value_, job.attempts, job.lease)
        changes = alike.get(kind)
        if changes is None:
            changes = claim_changes(job, holder=holder, now=now, lease_end=lease_end)
            alike[kind] = changes
        claims.append(Changed(job, changes, job_of(job.__dict__ | changes)))
    return claims


def seizure_changes(job: Job, *, by: str, lease_end: float) -> Changes:
    """Take a running job over from a holder that is gone; nothing is counted yet.

    `updated` stays the time of the claim, so the attempt's record can say when it began.
    """
    return {"lease": job.lease + 1, "holder": by, "lease_end": lease_end}


def seized(job: Job, *, by: str, lease_end: float) -> Job:
    """Return a running job as it is once it was taken over."""
    return job_of(job.__dict__ | seizure_changes(job, by=by, lease_end=lease_end))


class EndFacts(TypedDict, total=False):
    """What the store and the attempt add to the end of a claim."""

    group: Required[int | None]
    max_attempts: int | None
    release: str | None
    """The release of the program that ran the attempt."""


def end_changes(
    job: Job, verdict: Verdict, failure: Failure | None, *, now: float, **facts: Unpack[EndFacts]
) -> Changes:
    """End a claim: the lease goes, the failure is counted, the verdict becomes the state."""
    state, changes = _outcome(job, verdict, now)
    _ensure(job, state)
    changes |= {
        "state": state,
        "holder": None,
        "lease_end": None,
        "updated": now,
        "max_attempts": facts.get("max_attempts") or job.max_attempts,
    }
    if failure is not None:
        changes |= _counted(job, failure, now)
        changes |= {"group": facts["group"], "failed_release": facts.get("release")}
    fails = job.failed_in_run or (failure is not None and (job.run or 0) > 0)
    return changes | _marked(job, failed_in_run=fails and state is State.PENDING)


def settled(
    job: Job, verdict: Verdict, failure: Failure | None, *, now: float, **facts: Unpack[EndFacts]
) -> Job:
    """Return a job as it is once its claim has ended so."""
    return job_of(job.__dict__ | end_changes(job, verdict, failure, now=now, **facts))


def settle_all(
    results: Iterable[tuple[Job, Settlement]], *, now: float, place: Place
) -> list[Changed]:
    """End claims, each of a job as it is stored; completions with the same words share their changes."""
    alike: dict[tuple[object, ...], Changes] = {}
    ends: list[Changed] = []
    for job, result in results:
        verdict = result.verdict
        attempt = result.attempt
        failure = attempt.failure if attempt else None
        most = result.max_attempts or job.max_attempts
        if type(verdict) is not Completed or failure is not None:
            group = place(failure) if failure else None
            release = attempt.release if attempt else None
            facts = EndFacts(group=group, max_attempts=most, release=release)
            changes = end_changes(job, verdict, failure, now=now, **facts)
        else:
            end = verdict.reason._value_, verdict.detail, most
            kind = (job.state._value_, job.failed_in_run, *end)
            changes = alike.get(kind) or end_changes(
                job, verdict, None, now=now, group=None, max_attempts=most
            )
            alike[kind] = changes
        ends.append(Changed(job, changes, job_of(job.__dict__ | changes)))
    return ends


def _outcome(job: Job, verdict: Verdict, now: float) -> tuple[State, Changes]:
    """Return the state a verdict leads to, and the fields that go with it."""
    match verdict:
        case Completed(reason, detail):
            return State.COMPLETED, {"reason": reason, "detail": detail, "finished": now}
        case Dead(reason, detail):
            died: Changes = {"reason": reason, "detail": detail, "finished": now, "died_at": now}
            return State.DEAD, died
        case Retry(delay, detail):
            return State.PENDING, {"detail": detail, "due": now + _finite(delay)}
        case Return(delay, detail, lane):
            due = job.due if delay is None else now + _finite(delay)
            unspent = {"attempts": max(0, job.attempts - 1), "due": due}
            moved = {} if lane is None else {"lane": lane}
            return State.PENDING, {**unspent, **moved, "detail": detail or job.detail}
        case _:
            assert_never(verdict)


def _finite(delay: float) -> float:
    if not isfinite(delay):
        raise UsageError(f"a delay must be a finite number of seconds; found {delay}")
    return delay


def _counted(job: Job, failure: Failure, now: float) -> Changes:
    """Return the fields that a failure changes."""
    return {
        "spent": {**job.spent, failure.category.value: job.spent.get(failure.category, 0) + 1},
        "crashes": job.crashes + (failure.category is Category.CRASH),
        "first_failed": now if job.first_failed is None else job.first_failed,
        "failure": altered(failure, traceback=""),
    }


def action_changes(
    job: Job,
    verb: Verb,
    *,
    actor: str,
    reason: str,
    now: float,
    delay: float = 0.0,
    run: int | None = None,
) -> Changes:
    """Apply a person's action, or raise Refused with the reason in words.

    A job's `run` is negative while it only waits for that run, positive once it was let go.
    """
    tag = _enlisted(job, run or 0) if verb == "enlist" else _tag_after(job, run)
    changes: Changes = {}
    match verb:
        case "retry":
            changes = _retried(job, now, _finite(delay), run)
        case "resolve":
            changes = _closed(job, Reason.RESOLVED, actor, reason, now)
        case "discard":
            changes = _closed(job, Reason.DISCARDED, actor, reason, now)
        case "reopen":
            changes = _reopened(job, now)
        case "enlist":
            pass
        case _:
            assert_never(verb)
    return changes if tag == job.run else {**changes, "run": tag}


def is_changed(updated: float, since: float, now: float) -> bool:
    """Return True if a job changed after a time; what seems to be of the future is of a clock set back."""
    return since < updated < now + SLACK


def _enlisted(job: Job, run: int) -> int | None:
    """Return the tag of a job that is to wait for a run (below 0), or for none any more (0)."""
    tag = job.run or 0
    if run == 0:
        return None if tag < 0 else job.run
    if tag < 0 and tag != run:
        raise Refused(f"waits for its run R{-tag}")
    if job.state is State.RUNNING:
        raise Refused(_RUNS)
    if job.state is not State.PENDING:
        _ensure(job, State.PENDING)
    return run


def _tag_after(job: Job, run: int | None) -> int | None:
    """Return the tag after an action: only a run lets go what waits for it; others remove it."""
    tag = job.run or 0
    if run is None:
        return None if tag < 0 else job.run
    if tag != -run:
        raise Refused(f"no longer waits for its run R{run}")
    return run


def _marked(job: Job, *, failed_in_run: bool) -> Changes:
    """Return the change of the mark that a job failed since its run released it, if it changes."""
    return {} if job.failed_in_run == failed_in_run else {"failed_in_run": failed_in_run}


def _retried(job: Job, now: float, delay: float, run: int | None) -> Changes:
    """Start a fresh life for a dead or resolved job; a pending one only becomes due now."""
    due = now + delay
    if job.state is State.PENDING:
        return {"due": due} | _marked(job, failed_in_run=job.failed_in_run and run is None)
    if job.state is State.RUNNING:
        raise Refused(_RUNS)
    _ensure(job, State.PENDING)
    return {
        "state": State.PENDING,
        "reason": None,
        "detail": "",
        "attempts": 0,
        "spent": {},
        "crashes": 0,
        "redrives": job.redrives + 1,
        "due": due,
        "since": due,
        "updated": now,
        "finished": None,
        "resolution": None,
        **_marked(job, failed_in_run=False),
    }


def _closed(job: Job, how: Reason, actor: str, reason: str, now: float) -> Changes:
    _ensure(job, State.RESOLVED)
    was = job.reason if job.state is State.DEAD else None
    return {
        "state": State.RESOLVED,
        "reason": how,
        "detail": reason,
        "resolution": Resolution(actor=actor, reason=reason, at=now, was=was),
        "finished": now,
        "updated": now,
        "holder": None,
        "lease_end": None,
    }


def _reopened(job: Job, now: float) -> Changes:
    """Make a resolved job a dead letter again; if it never was one, it is one from now on."""
    if job.state is not State.RESOLVED:
        raise Refused(f"is {job.state}; only a resolved job can be reopened")
    was = job.resolution.was if job.resolution else None
    changes: Changes = {
        "state": State.DEAD,
        "reason": was or Reason.MANUAL,
        "detail": "reopened",
        "finished": now,
        "updated": now,
        "resolution": None,
    }
    return changes if job.died_at is not None else {**changes, "died_at": now}


def amend_changes(job: Job, payload: str, *, now: float, expected: int | None = None) -> Changes:
    """Replace a job's payload; the first one is kept and the delivery key changes.

    Refused if its number of edits is not `expected` any more.
    """
    if expected not in {None, job.edits}:
        raise Refused(f"was edited meanwhile ({job.edits} edits, not {expected}); read it again")
    if job.state in {State.RUNNING, State.COMPLETED}:
        raise Refused(f"is {job.state}; only a pending, dead or resolved job can be edited")
    changes: Changes = {
        "payload": payload,
        "original": job.payload if job.original is None else job.original,
        "edits": job.edits + 1,
        "updated": now,
    }
    tag = _tag_after(job, None)
    return changes if tag == job.run else {**changes, "run": tag}


def amended(job: Job, payload: str, *, now: float) -> Job:
    """Return a job as it is with another payload; Refused if its state does not allow it."""
    return job_of(job.__dict__ | amend_changes(job, payload, now=now))


def with_action(change: Changed, number: int) -> Changed:
    """Add the number of the action that made a change to the job; the newest ones are kept."""
    actions = (*change.was.actions, number)[-KEEP_ACTIONS:]
    return changed(change.was, {**change.changes, "actions": actions})


def with_attempt(job: Job, attempt: Attempt) -> Job:
    """Append to the history; when it grows too long the middle is folded and counted."""
    history = (*job.history, attempt)
    extra = len(middle_of(history))
    kept = history[:KEEP_FIRST] + history[KEEP_FIRST + extra :] if extra else history
    return evolve(job, history=kept, folded=job.folded + extra)


def middle_of(history: Sequence[T]) -> Sequence[T]:
    """Return what of a history is folded away: all between the first and the last ones to be kept."""
    return history[KEEP_FIRST : max(KEEP_FIRST, len(history) - KEEP_LAST)]


def is_suspect(job: Job) -> bool:
    """Return True if an open job crashed before: it waits and runs apart from the others."""
    return job.crashes > 0 and job.state in _OPEN


_OPEN = frozenset({State.PENDING, State.RUNNING})


def _ensure(job: Job, to: State) -> None:
    if to not in TRANSITIONS[job.state]:
        already = f"is already {to}"
        raise Refused(already if to is job.state else f"is {job.state} and cannot become {to}")
