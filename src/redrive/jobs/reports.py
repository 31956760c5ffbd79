"""Which changes of a job the outbox reports, and as what. Pure."""

from __future__ import annotations

from typing import Literal

from redrive.jobs.job import Job, State

EventKind = Literal["died", "retried", "reopened", "resolved", "completed", "recovered", "purged"]
"""What an outbox can report of a job. Recovered: completed, after it had been a dead letter."""

_OWN = "redrive."
"""Handlers whose name starts so are Redrive's own: no events are sent for their jobs."""

IMPORTED = "import"  # the worker of attempts that an import tells of
_JUST_DIED = 60.0
"""Seconds after its death in which a job that is added is a new dead letter, not an imported one."""


def is_new_death(job: Job, now: float) -> bool:
    """Return True if a job that is being added has just died: captured, or failed in place.

    An event has an origin from the start; only if it was run here did it die here.
    """
    ran_here = bool(job.history) and job.history[-1].worker != IMPORTED
    return (
        job.state is State.DEAD
        and (job.origin is None or ran_here)
        and job.died_at is not None
        and abs(now - job.died_at) <= _JUST_DIED
    )


def events_of(was: Job | None, job: Job | None, *, now: float) -> list[EventKind]:
    """Return what the outbox reports of a change, in order.

    No job before is an add, no job after a purge. Retries of the policy report nothing.
    """
    one = job or was
    if one is None or one.handler.startswith(_OWN):
        return []
    if job is None:
        return ["purged"]
    if was is None:
        return ["died"] if is_new_death(job, now) else []
    kind = _EVENTS.get((was.state, job.state))
    if kind == "completed" and job.died_at is not None:
        return ["completed", "recovered"]
    return [kind] if kind else []


_EVENTS: dict[tuple[State, State], EventKind] = {
    (State.RUNNING, State.COMPLETED): "completed",
    (State.PENDING, State.DEAD): "died",
    (State.RUNNING, State.DEAD): "died",
    (State.RESOLVED, State.DEAD): "reopened",
    (State.DEAD, State.PENDING): "retried",
    (State.RESOLVED, State.PENDING): "retried",
    (State.PENDING, State.RESOLVED): "resolved",
    (State.RUNNING, State.RESOLVED): "resolved",
    (State.DEAD, State.RESOLVED): "resolved",
}
"""What each change of state is reported as."""
