"""What retried jobs wait for: a paused lane, a cooldown, a free slot, or a worker."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from redrive.desk.desk import Desk
from redrive.desk.lanes import LanePause, LiveWorker
from redrive.desk.sentences import Sentence
from redrive.jobs.job import Job, State
from redrive.runs.run_records import Run

_OPEN = ("pending", "dead")
_LATE = 5.0  # seconds. What has been due for longer, or busy for longer, stands still.
_LOOKED_AT = 100  # how many open jobs of a run are looked at
_PROVIDER = "provider:"


def of_lanes(desk: Desk, lanes: Collection[str]) -> list[str]:
    """Return what jobs in these lanes wait for, each with the command that helps."""
    return _lines(desk, [pause for pause in desk.lanes.pauses() if pause.lane in lanes])


def of_run(desk: Desk, run: Run) -> list[str]:
    """Return what a run waits for; nothing once it is over or a person paused it.

    A duration stands at the end of a line, after " for ".
    """
    if run.phase != "live":
        return []
    pauses = desk.lanes.pauses()
    lines = _lines(desk, [pause for pause in pauses if _has(desk, run, pause.lane)])
    jobs = desk.jobs.find(run=run.number, state=("pending", "running"), limit=_LOOKED_AT).jobs
    released = [job for job in jobs if job.run == run.number and not job.failed_in_run]
    workers, now = desk.lanes.workers(), desk.store.now()
    late = {job.lane for job in released if _is_late(job, workers, now)}
    late -= {pause.lane for pause in pauses}
    return [*lines, *_cooldowns(released, pauses), *_busy_workers(workers, late, now)]


def _has(desk: Desk, run: Run, lane: str) -> bool:
    return bool(desk.jobs.find(run=run.number, lane=lane, state=_OPEN, limit=1).jobs)


def _lines(desk: Desk, pauses: list[LanePause]) -> list[str]:
    lines: list[str] = [Sentence("wait_paused", lane=p.lane, by=p.by) for p in pauses]
    if not desk.lanes.workers():
        has_passes = desk.lanes.last_pass() is not None
        lines.append(Sentence("wait_pass" if has_passes else "wait_worker"))
    return lines


def _cooldowns(jobs: list[Job], pauses: list[LanePause]) -> Iterator[Sentence]:
    """Return which providers in cooldown jobs were returned for."""
    for pause in pauses:
        name = pause.lane.removeprefix(_PROVIDER)
        if name != pause.lane and any(name in job.detail for job in jobs):
            left = pause.seconds_left
            if left is None:
                yield Sentence("wait_cooldown", provider=name)
            else:
                yield Sentence("wait_cooldown_for", provider=name, left=float(left))


def _is_late(job: Job, workers: list[LiveWorker], now: float) -> bool:
    """Return True if no worker has begun a job for a while; one may have claimed it ahead."""
    if job.state is State.PENDING:
        return now - job.due >= _LATE
    slots = [worker.slots for worker in workers if worker.slots]
    named = [running for one in slots for running in one.running]
    some_unnamed = sum(one.busy for one in slots) > sum(running.jobs for running in named)
    may_run = some_unnamed or job.handler in {running.handler for running in named}
    return now - job.updated >= _LATE and not may_run


def _busy_workers(
    workers: list[LiveWorker], lanes: Collection[str], now: float
) -> Iterator[Sentence]:
    """Return why no worker takes the jobs of these lanes, which have been due for a while."""
    for lane in sorted(lanes) if workers else ():
        serving = [worker for worker in workers if lane in worker.lanes]
        live = [worker for worker in serving if not worker.is_silent]
        if not serving:
            yield Sentence("wait_unserved", lane=lane)
        elif not live:
            names = ", ".join(worker.name for worker in serving)
            silent = float(min(worker.silent for worker in serving))
            yield Sentence("wait_silent", workers=names, lane=lane, silent=silent)
        elif all(_is_full(worker, now) for worker in live):
            yield _occupied(lane, live, now)


def _is_full(worker: LiveWorker, now: float) -> bool:
    """Return True if no slot became free for a while before the worker's last heartbeat."""
    slots = worker.slots
    if slots is None or slots.since is None or slots.busy < slots.total:
        return False
    return now - worker.silent - slots.since >= _LATE


def _occupied(lane: str, workers: list[LiveWorker], now: float) -> Sentence:
    slots = [worker.slots for worker in workers if worker.slots]
    busy = sum(one.busy for one in slots)
    names = ", ".join(sorted({running.handler for one in slots for running in one.running}))
    span = now - max(one.since or now for one in slots)
    total = max(busy, sum(one.total for one in slots))
    return Sentence("wait_slot", lane=lane, busy=busy, total=total, handlers=names, span=span)
