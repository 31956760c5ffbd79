"""What `move` does in every store: one action on jobs, each changed by its rule or left with the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from redrive.errors import JobNotFound, Refused, StoreDamaged
from redrive.jobs.job import Action, Job
from redrive.jobs.transitions import (
    CHANGED,
    Changed,
    Verb,
    action_changes,
    changed,
    is_changed,
    with_action,
)

Skipped = list[tuple[str, str]]
"""Ids of jobs that were left as they are, and why."""


def apply_to(
    load: Callable[[str], Job],
    record: Callable[[Action], Action],
    ids: Sequence[str],
    verb: Verb,
    action: Action,
    *,
    now: float,
    delays: Sequence[float] | None,
    run: int | None,
) -> tuple[list[Changed], Skipped, Action]:
    """Apply an action to jobs, each once; return what changed, what was left, and the recorded action.

    The number of the action is added to the jobs, but where they only leave a run (`run` is 0).
    """
    waits = dict(zip(ids, delays, strict=True)) if delays is not None else {}
    done: list[Changed] = []
    skipped: Skipped = []
    for one in dict.fromkeys(ids):
        try:
            job = load(one)
            if action.at and is_changed(job.updated, action.at, now):
                raise Refused(f"{CHANGED}, now {job.state}")
            changes = action_changes(
                job,
                verb,
                actor=action.actor,
                reason=action.reason,
                now=now,
                delay=waits.get(one, 0.0),
                run=run,
            )
        except (JobNotFound, Refused, StoreDamaged) as error:
            skipped.append((one, str(error)))
        else:
            done.append(changed(job, changes))
    action = record(replace(action, done=len(done), skipped=len(skipped)))
    if run != 0:
        done = [with_action(one, action.number) for one in done]
    return done, skipped, action
