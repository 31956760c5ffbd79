"""Make the documents of jobs, groups, runs and actions; `shapes` has their fields.

They show records as the desk returns them, masked: nothing is masked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

from redrive.desk import shapes
from redrive.jobs.clock import iso
from redrive.jobs.job import Action, Attempt, Failure, Group, Job
from redrive.payloads.masking import loads

if TYPE_CHECKING:  # who lists jobs does not wait for runs
    from redrive.desk.desk import Desk
    from redrive.desk.jobs import Scope
    from redrive.desk.lanes import LanePause, LiveWorker
    from redrive.desk.shared_facts import SharedFacts
    from redrive.runs.run_records import Counts, Run, Spec

T = TypeVar("T")

WIDTH = 7200.0  # seconds of one number of a trend, which covers a day
_ALONE = "ran before the run released them"
_CHANGED = "retried, closed, edited or purged outside the run"


def _filled(shape: type[T], record: object, **other: object) -> T:
    """Return a document whose fields are those of a record, but for the others."""
    names = shape.__annotations__
    return cast("T", {n: other[n] if n in other else getattr(record, n) for n in names})


def job_document(job: Job) -> shapes.Job:
    """Return what a list shows of a job."""
    return _filled(
        shapes.Job,
        job,
        detail=job.detail or None,
        category=None if job.failure is None else job.failure.category,
        error=error_document(job.failure),
        group=None if job.group is None else f"G{job.group}",
        tags=list(job.tags),
        run=None if job.run is None else f"R{abs(job.run)}",  # below 0 while it waits for the run
        created=iso(job.created),
        due=iso(job.due),
        updated=iso(job.updated),
        finished=iso(job.finished),
        died_at=iso(job.died_at),
        first_failed=iso(job.first_failed),
    )


def whole_document(job: Job, actions: Iterable[Action]) -> shapes.WholeJob:
    """Return everything about a job, attempts and the actions on it newest first."""
    return {
        **job_document(job),
        "payload": payload_of(job.payload),
        "original_payload": None if job.original is None else payload_of(job.original),
        "spent": dict(job.spent),
        "folded": job.folded,
        "origin": None if job.origin is None else dict(job.origin),
        "resolution": _resolution(job),
        "actions": [action_document(action) for action in actions],
        "history": [attempt_document(attempt) for attempt in reversed(job.history)],
    }


def error_document(failure: Failure | None) -> shapes.Error | None:
    """Return what is known of a failure, without its traceback."""
    return None if failure is None else _filled(shapes.Error, failure)


def attempt_document(attempt: Attempt) -> shapes.Attempt:
    """Return the record of one attempt, traceback included."""
    return _filled(
        shapes.Attempt,
        attempt,
        started=iso(attempt.started),
        error=error_document(attempt.failure),
        traceback=(attempt.failure.traceback or None) if attempt.failure else None,
    )


def group_document(group: Group) -> shapes.PlainGroup:
    """Return a group and how many jobs it has."""
    return _filled(
        shapes.PlainGroup,
        group,
        group=group.name,
        handlers=list(group.handlers),
        first_seen=iso(group.first_seen),
        last_seen=iso(group.record.last_seen or group.last_seen),  # an edit is no death
    )


def _past(at: float | None, now: float) -> str | None:
    """Return a time that has passed; one after `now`, of a clock that was set back, counts as now."""
    return None if at is None else iso(min(at, now))


def shared_document(facts: SharedFacts, now: float, *, newest: int) -> shapes.Shared:
    """Return what the dead jobs of a group share, their messages, and the newest of them."""
    return {
        "messages": [
            {"text": one.text, "jobs": one.jobs, "last_seen": iso(min(one.last_seen, now))}
            for one in facts.messages
        ],
        "shared": [cast("shapes.SharedFact", fact._asdict()) for fact in facts.facts],
        "shared_of": len(facts.dead),
        "completed_of": facts.completed,
        "newest": [job_document(job) for job in facts.dead[:newest]],
    }


def scope_document(scope: Scope | None) -> shapes.Scope | None:
    """Return how many jobs were searched, where no index could answer."""
    return None if scope is None else _filled(shapes.Scope, scope)


def action_document(action: Action) -> shapes.Action:
    """Return an action: who did what to which jobs, when, why, and with what result."""
    return _filled(shapes.Action, action, action=action.name, at=iso(action.at or None))


def payload_of(text: str) -> object:
    """Read a payload for display; one that cannot be read (a file edited by hand) is shown as text."""
    try:
        return cast("object", loads(text))
    except (ValueError, RecursionError):
        return text


@dataclass(frozen=True, slots=True)
class Seen:
    """A group, and how many died of it in the last day."""

    group: Group
    trend: list[int]
    last_hour: int
    recent: int
    """How many died of it in the last ten minutes."""
    now: float

    def is_new(self, since: float) -> bool:
        """Return True if it was first seen in the last `since` seconds, or has regressed."""
        first = self.group.first_seen
        return self.group.record.status == "regressed" or (
            first is not None and self.now - first <= since
        )


def with_trends(desk: Desk, groups: Sequence[Group]) -> list[Seen]:
    """Return groups with their trends."""
    numbers = [group.number for group in groups]
    day, hour = desk.groups.deaths(3600, 24, numbers), desk.groups.deaths(60, 60, numbers)
    now = desk.store.now()
    return [
        Seen(
            group,
            trend=sums(day[group.number], 2),
            last_hour=sum(hour[group.number]),
            recent=sum(hour[group.number][-10:]),
            now=now,
        )
        for group in groups
    ]


def sums(numbers: Sequence[int], width: int) -> list[int]:
    """Add up every `width` numbers."""
    return [sum(numbers[at : at + width]) for at in range(0, len(numbers), width)]


def seen_document(row: Seen) -> shapes.Group:
    """Return a group with its record and its trend."""
    record, now = row.group.record, row.now
    return {
        **group_document(row.group),
        "first_seen": _past(record.first_seen, now),
        "last_seen": _past(record.last_seen, now),
        "deaths": record.deaths,
        "since": _past(record.since, now),
        "first_release": record.first_release,
        "last_release": record.last_release,
        "regressed": _past(record.regressed, now),
        "status": record.status,
        "resolved": iso(record.resolved),
        "resolved_by": record.resolved_by or None,
        "reason": record.reason or None,
        "note": record.note or None,
        "noted": iso(record.noted),
        "noted_by": record.noted_by or None,
        "deaths_last_hour": row.last_hour,
        "deaths_last_10_minutes": row.recent,
        "deaths_last_day": {"span_seconds": WIDTH, "numbers": row.trend},
    }


def run_document(run: Run) -> shapes.Run:
    """Return a run for machines."""
    from redrive.runs.run_records import Counts  # noqa: PLC0415

    counts = run.counts or Counts()
    return _filled(
        shapes.Run,
        counts,
        run=run.id,
        phase=run.phase,
        why=run.why or None,
        name=run.name or None,
        reason=run.reason or None,
        by=run.by,
        asked=run.asked,
        created=iso(run.created),
        ended=iso(run.ended),
        **spec_document(run.spec),
        total=run.total,
        same_cause=counts.same,
        new_cause={f"G{group}": jobs for group, jobs in counts.new.items()},
        left=left_of(run, counts),
        samples=[{"id": job_id, "why": why} for job_id, why in run.samples],
    )


def spec_document(spec: Spec) -> dict[str, object]:
    """Return how a run is driven; None for what it has not."""
    return {
        "canary": spec.canary or None,
        "rate": spec.rate,
        "ramp": spec.ramp,
        "stop_on": spec.stop_on or None,
    }


def left_of(run: Run, counts: Counts) -> dict[str, int]:
    """Count the jobs that were left out, by reason: before the run began and since."""
    since = {_ALONE: counts.alone, _CHANGED: counts.left - counts.alone}
    if run.phase in {"stopped", "cancelled"}:
        since = {f"not released before the run was {run.phase}": counts.left}
    return {**run.skipped, **{why: jobs for why, jobs in since.items() if jobs}}


def worker_document(worker: LiveWorker) -> shapes.Worker:
    """Return who works where, since when, on what, and what keeps it from working."""
    blocked, slots = worker.blocked, worker.slots
    running = slots.running if slots else ()
    return _filled(
        shapes.Worker,
        worker,
        slots=slots and slots.total,
        busy=slots and slots.busy,
        running=[{**one._asdict(), "since": iso(one.since)} for one in running],
        since=iso(worker.since),
        lanes=list(worker.lanes),
        silent_seconds=worker.silent,
        blocked=blocked
        and {
            **{name: blocked.get(name) for name in ("job", "handler")},
            "since": iso(blocked.get("since")),
        },
    )


def pause_document(pause: LanePause) -> shapes.Pause:
    """Return which lane is paused, by whom and why, and for how long."""
    return _filled(shapes.Pause, pause)


def _resolution(job: Job) -> shapes.Resolution | None:
    done = job.resolution
    return None if done is None else _filled(shapes.Resolution, done, at=iso(done.at))
