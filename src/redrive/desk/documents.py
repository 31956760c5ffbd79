"""Jobs, groups, runs and acts as the documents that `--json` prints and the server gives.

These names are a public face: they may grow, but none goes or changes its meaning without a new
schema version.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from redrive.jobs.clock import iso
from redrive.jobs.group_marks import Mark
from redrive.jobs.job import Act, Attempt, Category, Failure, Group, Job
from redrive.payloads.masked_jobs import secrets_of
from redrive.payloads.masking import loads, mask_payload, mask_text

if TYPE_CHECKING:  # who lists jobs does not wait for runs
    from redrive.desk.desk import Desk
    from redrive.desk.jobs import Scope
    from redrive.desk.lanes import LanePause, LiveWorker
    from redrive.runs.run_records import Counts, Run

HOUR = 3600.0
SPANS, WIDTH = 12, 2 * HOUR
"""A trend: a day, in spans of two hours."""
_ALONE = "ran by themselves before their turn"
_CHANGED = "retried, closed, edited or purged apart from the run"


def job_document(job: Job) -> dict[str, object]:
    """Give what a list shows of a job."""
    return {
        "id": job.id,
        "state": job.state,
        "reason": job.reason,
        "detail": job.detail or None,
        "handler": job.handler,
        "lane": job.lane,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "redrives": job.redrives,
        "crashes": job.crashes,
        "category": category_of(job),
        "error": error_document(job.failure),
        "group": group_name(job.group),
        "key": job.key,
        "tags": list(job.tags),
        "release": job.release,
        "run": run_name(job.run),
        "edits": job.edits,
        "created": iso(job.created),
        "due": iso(job.due),
        "updated": iso(job.updated),
        "finished": iso(job.finished),
        "first_failed": iso(job.first_failed),
    }


def whole_document(job: Job, show: Callable[[str], object] | None = None) -> dict[str, object]:
    """Give everything about a job, attempts newest first; `show` shows a payload's text."""
    show = show or (lambda text: payload_of(text, secrets_of(job)))
    return {
        **job_document(job),
        "payload": show(job.payload),
        "original_payload": None if job.original is None else show(job.original),
        "spent": dict(job.spent),
        "folded": job.folded,
        "origin": payload_of_origin(job),
        "resolution": _resolution(job),
        "history": [attempt_document(attempt) for attempt in reversed(job.history)],
    }


def error_document(failure: Failure | None) -> dict[str, object] | None:
    """Give what is known of a failure, without its traceback."""
    if failure is None:
        return None
    return {
        "type": failure.type,
        "message": failure.message,
        "category": failure.category,
        "why": failure.why,
        "code": failure.code,
        "status": failure.status,
        "hint": failure.hint,
        "request_id": failure.request_id,
        "title": failure.title,
    }


def attempt_document(attempt: Attempt) -> dict[str, object]:
    """Give the record of one attempt, traceback included."""
    return {
        "number": attempt.number,
        "life": attempt.life,
        "started": iso(attempt.started),
        "duration": attempt.duration,
        "worker": attempt.worker,
        "outcome": attempt.outcome,
        "provider": attempt.provider,
        "error": error_document(attempt.failure),
        "traceback": (attempt.failure.traceback or None) if attempt.failure else None,
    }


def group_document(group: Group) -> dict[str, object]:
    """Give a cause and how many jobs it took."""
    return {
        "group": group.name,
        "title": group.title,
        "jobs": group.jobs,
        "handlers": list(group.handlers),
        "category": group.category,
        "first_seen": iso(group.first_seen),
        "last_seen": iso(group.last_seen),
        "fingerprint": group.fingerprint,
    }


def scope_document(scope: Scope | None) -> dict[str, object] | None:
    """Say how far was looked, where no index could answer."""
    return None if scope is None else {"looked": scope.looked, "of": scope.of}


def act_document(act: Act) -> dict[str, object]:
    """Give a deed: who did what to which jobs, when, why, and what came of it."""
    return {
        "number": act.number,
        "at": iso(act.at),
        "actor": act.actor,
        "verb": act.verb,
        "target": act.target,
        "reason": act.reason,
        "done": act.done,
        "skipped": act.skipped,
    }


def group_name(number: int | None) -> str | None:
    """Say a group as people type it."""
    return None if number is None else f"G{number}"


def run_name(number: int | None) -> str | None:
    """Say a run as people type it; a job that waits for its run has the number with a minus."""
    return None if number is None else f"R{abs(number)}"


def category_of(job: Job) -> Category | None:
    """Give the category of a job's last failure."""
    return None if job.failure is None else job.failure.category


def error_line(failure: Failure | None) -> str | None:
    """Say a failure in one line: its type and message."""
    if failure is None:
        return None
    return ": ".join(part for part in (failure.type, failure.message) if part) or failure.why


def payload_of(text: str, more: Sequence[str] = ()) -> object:
    """Read a stored payload for showing, with what is secret in it hidden, and these secrets too.

    One that cannot be read (a file edited by hand) is shown as masked text.
    """
    try:
        return mask_payload(loads(text), more)
    except (ValueError, RecursionError):
        return mask_text(text, more)


def payload_text(text: str, more: Sequence[str] = ()) -> str:
    """Write a payload out over several lines, masked."""
    shown = payload_of(text, more)
    return shown if isinstance(shown, str) else json.dumps(shown, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Seen:
    """A group, how it goes on and what was said about it."""

    group: Group
    said: Mark
    trend: list[int]
    last_hour: int
    now: float

    @property
    def status(self) -> str:
        """Whether it is open, resolved, or back; where nothing is dead it is not back."""
        return self.said.status(self.group.last_seen if self.group.jobs else None)

    def is_new(self, since: float) -> bool:
        """Whether it was first seen so many seconds ago, or is back."""
        first = self.group.first_seen
        return self.status == "regressed" or (first is not None and self.now - first <= since)


def look(desk: Desk, groups: Sequence[Group]) -> list[Seen]:
    """Find out how groups go on."""
    numbers = [group.number for group in groups]
    trends, hours = (
        desk.groups.deaths(WIDTH, SPANS, groups=numbers),
        desk.groups.deaths(HOUR, 1, groups=numbers),
    )
    said, now = desk.groups.marks(), desk.store.now()
    shown = [replace(one, title=mask_text(one.title)) for one in groups]
    return [
        Seen(one, said.get(one.number, Mark()), trends[one.number], hours[one.number][0], now)
        for one in shown
    ]


def seen_document(row: Seen) -> dict[str, object]:
    """Give a cause, how it goes on and what was said about it."""
    return {
        **group_document(row.group),
        "status": row.status,
        "resolved": iso(row.said.resolved),
        "resolved_by": row.said.by or None,
        "reason": row.said.reason or None,
        "note": row.said.note or None,
        "noted": iso(row.said.noted),
        "noted_by": row.said.noted_by or None,
        "deaths_last_hour": row.last_hour,
        "deaths_last_day": {"span_seconds": WIDTH, "numbers": row.trend},
    }


def run_document(run: Run) -> dict[str, object]:
    """Give a run for machines."""
    from redrive.runs.run_records import Counts  # noqa: PLC0415

    counts = run.counts or Counts()
    return {
        "run": run.id,
        "phase": run.phase,
        "why": run.why or None,
        "name": run.name or None,
        "reason": run.reason or None,
        "by": run.by,
        "asked": run.asked,
        "created": iso(run.created),
        "ended": iso(run.ended),
        "canary": run.spec.canary or None,
        "rate": run.spec.rate,
        "ramp": run.spec.ramp,
        "stop_on": run.spec.stop_on or None,
        "total": run.total,
        "waiting": counts.waiting,
        "working": counts.working,
        "failing": counts.failing,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "same_cause": counts.same,
        "new_cause": {f"G{group}": jobs for group, jobs in counts.new.items()},
        "closed": counts.closed,
        "left": left_of(run, counts),
        "samples": [{"id": one, "why": why} for one, why in run.samples],
    }


def left_of(run: Run, counts: Counts) -> dict[str, int]:
    """Say why jobs were left, and how many: before the run began and since."""
    since = {_ALONE: counts.alone, _CHANGED: counts.left - counts.alone}
    if run.phase in {"stopped", "cancelled"}:
        since = {f"not let go before it was {run.phase}": counts.left}
    return {**run.skipped, **{why: jobs for why, jobs in since.items() if jobs}}


def worker_document(worker: LiveWorker) -> dict[str, object]:
    """Return who works where, since when, on what, and what keeps it from working."""
    blocked = worker.blocked
    return {
        "host": worker.host,
        "pid": worker.pid,
        "version": worker.version,
        "since": iso(worker.since),
        "lanes": list(worker.lanes),
        "missing": worker.missing,
        "silent_seconds": worker.silent,
        "blocked": blocked
        and {
            **{name: blocked.get(name) for name in ("job", "handler")},
            "since": iso(blocked.get("since")),
        },
    }


def pause_document(pause: LanePause) -> dict[str, object]:
    """Return which lane is paused, by whom and why, and for how long."""
    return {
        "lane": pause.lane,
        "by": pause.by,
        "reason": pause.reason,
        "seconds_left": pause.seconds_left,
    }


def payload_of_origin(job: Job) -> object:
    """Give where an imported job came from, masked like a payload."""
    return (
        None
        if job.origin is None
        else payload_of(json.dumps(dict(job.origin), default=str), secrets_of(job))
    )


def _resolution(job: Job) -> dict[str, object] | None:
    done = job.resolution
    if done is None:
        return None
    return {"actor": done.actor, "reason": done.reason, "at": iso(done.at), "was": done.was}
