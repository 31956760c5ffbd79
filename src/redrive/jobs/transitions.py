"""How each verb changes a job's record. Pure: a job goes in, the next job comes out.

Both engines of the stores write what these functions give, so a transition exists once. Each checks
`TRANSITIONS`; each says in its first line what it promises.
"""

from __future__ import annotations

from typing import Literal, assert_never

from redrive.errors import Refused
from redrive.jobs.job import (
    TRANSITIONS,
    Attempt,
    Category,
    Completed,
    Dead,
    Failure,
    Job,
    Reason,
    Release,
    Resolution,
    Retry,
    State,
    Verdict,
)
from redrive.jobs.records import altered, evolve, job_of

Verb = Literal["retry", "resolve", "discard", "reopen", "enlist"]
"""What people do to jobs; `enlist` only tags them as part of a run."""

_RUNS = "is running now; wait for it to end"

KEEP_FIRST, KEEP_LAST = 5, 20
"""How many attempts of a job's history are kept at either end; the middle is folded."""


def claimed(job: Job, *, holder: str, now: float, lease_end: float, boot: str | None) -> Job:
    """Lease a pending job: the attempt is counted here, before the handler starts."""
    return evolve(
        _ensure(job, State.RUNNING),
        state=State.RUNNING,
        attempts=job.attempts + 1,
        lease=job.lease + 1,
        holder=holder,
        lease_end=lease_end,
        boot=boot,
        updated=now,
    )


def seized(job: Job, *, by: str, lease_end: float, boot: str | None) -> Job:
    """Take a running job over from a holder that is gone; nothing is counted yet.

    `updated` stays the time of the claim, so the attempt's record can say when it began.
    """
    return evolve(job, lease=job.lease + 1, holder=by, lease_end=lease_end, boot=boot)


def settled(
    job: Job,
    verdict: Verdict,
    failure: Failure | None,
    *,
    now: float,
    group: int | None,
    max_attempts: int | None = None,
) -> Job:
    """End a claim: the lease goes, the failure is counted, the verdict becomes the state."""
    changes = ended(job, verdict, now=now, max_attempts=max_attempts)
    if failure is not None:
        changes |= _counted(job, failure, group, now)
    return job_of(job.__dict__ | changes)


def ended(job: Job, verdict: Verdict, *, now: float, max_attempts: int | None) -> dict[str, object]:
    """Give what the end of a claim changes, but for a failure: alike for jobs that end alike."""
    state, changes = _outcome(job, verdict, now)
    _ensure(job, state)
    changes |= {
        "state": state,
        "holder": None,
        "lease_end": None,
        "boot": None,
        "updated": now,
        "max_attempts": max_attempts or job.max_attempts,
    }
    return changes


def _outcome(job: Job, verdict: Verdict, now: float) -> tuple[State, dict[str, object]]:
    """Give the state a verdict leads to, and the fields that go with it."""
    match verdict:
        case Completed(reason, detail):
            return State.COMPLETED, {"reason": reason, "detail": detail, "finished": now}
        case Dead(reason, detail):
            return State.DEAD, {"reason": reason, "detail": detail, "finished": now}
        case Retry(delay, detail):
            return State.PENDING, {"detail": detail, "due": now + delay}
        case Release(delay, detail):
            due = job.due if delay is None else now + delay
            unspent = {"attempts": max(0, job.attempts - 1), "due": due}
            return State.PENDING, {**unspent, "detail": detail or job.detail}
        case _:
            assert_never(verdict)


def _counted(job: Job, failure: Failure, group: int | None, now: float) -> dict[str, object]:
    """Give the fields that a failure changes."""
    return {
        "spent": {**job.spent, failure.category.value: job.spent.get(failure.category, 0) + 1},
        "crashes": job.crashes + (failure.category is Category.CRASH),
        "first_failed": now if job.first_failed is None else job.first_failed,
        "failure": altered(failure, traceback=""),
        "group": group,
    }


def moved(
    job: Job,
    verb: Verb,
    *,
    actor: str,
    reason: str,
    now: float,
    delay: float = 0.0,
    run: int | None = None,
) -> Job:
    """Apply a person's deed, or raise Refused with the reason in words.

    A job's `run` is negative while it only waits for that run, positive once it was let go.
    """
    tag = _enlisted(job, run or 0) if verb == "enlist" else _tag_after(job, run)
    match verb:
        case "retry":
            job = _retried(job, now, delay)
        case "resolve":
            job = _closed(job, Reason.RESOLVED, actor, reason, now)
        case "discard":
            job = _closed(job, Reason.DISCARDED, actor, reason, now)
        case "reopen":
            job = _reopened(job, now)
        case "enlist":
            pass
        case _:
            assert_never(verb)
    return evolve(job, run=tag)


def _enlisted(job: Job, run: int) -> int | None:
    """Give the tag of a job that is to wait for a run (below 0), or for none any more (0)."""
    tag = job.run or 0
    if run == 0:
        return None if tag < 0 else job.run
    if tag < 0 and tag != run:
        msg = f"waits for its run R{-tag}"
        raise Refused(msg)
    if job.state is State.RUNNING:
        raise Refused(_RUNS)
    if job.state is not State.PENDING:
        _ensure(job, State.PENDING)
    return run


def _tag_after(job: Job, run: int | None) -> int | None:
    """Give the tag after a deed: only a run lets go what waits for it; by any other deed it leaves."""
    tag = job.run or 0
    if run is None:
        return None if tag < 0 else job.run
    if tag != -run:
        msg = f"no longer waits for its run R{run}"
        raise Refused(msg)
    return run


def _retried(job: Job, now: float, delay: float) -> Job:
    """Start a fresh life for a dead or resolved job; a pending one only becomes due now."""
    due = now + delay
    if job.state is State.PENDING:
        return evolve(job, due=due)
    if job.state is State.RUNNING:
        raise Refused(_RUNS)
    return evolve(
        _ensure(job, State.PENDING),
        state=State.PENDING,
        reason=None,
        detail="",
        attempts=0,
        spent={},
        crashes=0,
        redrives=job.redrives + 1,
        due=due,
        since=due,
        updated=now,
        finished=None,
        resolution=None,
    )


def _closed(job: Job, how: Reason, actor: str, reason: str, now: float) -> Job:
    was = job.reason if job.state is State.DEAD else None
    return evolve(
        _ensure(job, State.RESOLVED),
        state=State.RESOLVED,
        reason=how,
        detail=reason,
        resolution=Resolution(actor=actor, reason=reason, at=now, was=was),
        finished=now,
        updated=now,
        holder=None,
        lease_end=None,
        boot=None,
    )


def _reopened(job: Job, now: float) -> Job:
    if job.state is not State.RESOLVED:
        msg = f"is {job.state}; only a resolved job can be reopened"
        raise Refused(msg)
    was = job.resolution.was if job.resolution else None
    return evolve(
        job,
        state=State.DEAD,
        reason=was or Reason.MANUAL,
        detail="reopened",
        finished=now,
        updated=now,
        resolution=None,
    )


def amended(job: Job, payload: str, *, now: float) -> Job:
    """Give a job another payload; the first one is kept and the delivery key changes."""
    if job.state in {State.RUNNING, State.COMPLETED}:
        msg = f"is {job.state}; only a pending, dead or resolved job can be edited"
        raise Refused(msg)
    original = job.payload if job.original is None else job.original
    return evolve(
        job,
        payload=payload,
        original=original,
        edits=job.edits + 1,
        updated=now,
        run=_tag_after(job, None),
    )


def with_attempt(job: Job, attempt: Attempt) -> Job:
    """Append to the history; when it grows too long the middle is folded and counted."""
    history = (*job.history, attempt)
    extra = len(history) - KEEP_FIRST - KEEP_LAST
    if extra <= 0:
        return evolve(job, history=history)
    return evolve(
        job,
        history=history[:KEEP_FIRST] + history[KEEP_FIRST + extra :],
        folded=job.folded + extra,
    )


def _ensure(job: Job, to: State) -> Job:
    if to not in TRANSITIONS[job.state]:
        msg = f"is {job.state} and cannot become {to}"
        raise Refused(msg)
    return job
