"""Read the present state from the store: causes, pauses, unserved lanes, runs, workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redrive.alerts.rules import SPAN, Cause, Condition, Memory, Rules, World, grows
from redrive.desk.desk import Desk
from redrive.desk.lanes import LanePause, LiveWorker
from redrive.desk.selection import Filters
from redrive.jobs.durations import words
from redrive.jobs.job import Group, Job, State
from redrive.payloads.masking import inert

NAME = "redrive.alert"  # the handler and lane of messages; these are never reported
WATCHED = 2000  # how many causes are watched, those with the most jobs first
_RUN_NEWS = 86400.0  # seconds for which a stopped run is reported
_SILENT = 20.0
"""Seconds without a heartbeat; more than `status` waits for, because an alert may wake somebody."""
_UNDONE = (State.PENDING, State.RUNNING, State.DEAD)
_RAN = (State.RUNNING, State.COMPLETED, State.DEAD)
_FEW = 20
_LOOKED_AT = 100
NAMED = 10  # how many new jobs a message names by their keys


def look(desk: Desk, memory: Memory, rules: Rules, *, born: float) -> World:
    """Return the present state; `born` is the time of the first check."""
    now = desk.store.now()
    live = {number for run in desk.runs.live(counted=False) for number in run.groups}
    groups = [row for row in desk.groups.find(limit=WATCHED) if set(row.handlers) != {NAME}]
    causes = [_cause(row, row.number in live, now) for row in groups]
    known = {cause.subject for cause in causes}
    gone = [s for s, last in memory.items() if s not in known and _is_open_cause(s, last.state)]
    numbers = {subject: int(subject[1:]) for subject in gone}
    records = desk.groups.records(numbers.values())
    return World(
        now=now,
        causes=_measured(desk, causes, memory, rules),
        busy=frozenset(subject for subject in gone if _is_undone(desk, numbers[subject])),
        closers={s: records[n].resolved_by for s, n in numbers.items() if n in records},
        conditions=list(_conditions(desk, now, rules, born, memory)),
    )


def newest(desk: Desk, cause: Cause) -> list[Job]:
    """Return the dead jobs of a cause that died last, the last one first."""
    return desk.jobs.find(group=cause.number, state=State.DEAD, by_change=True, limit=NAMED).jobs


def _is_open_cause(subject: str, state: str) -> bool:
    return state in {"new", "growing", "old", "regressed"} and subject[1:].isdecimal()


def _is_undone(desk: Desk, number: int) -> bool:
    """Return True if a cause is not over: its jobs are retried, or it is too small to be listed."""
    return bool(desk.groups.find(group=number, state=_UNDONE, limit=1))


def _cause(group: Group, driven: bool, now: float) -> Cause:
    record = group.record
    first = record.first_seen or now
    return Cause(
        number=group.number,
        title=inert(group.title)[:200],
        jobs=group.jobs,
        deaths=record.deaths,
        since=record.since or first,
        first=first,
        last=record.last_seen or first,
        category=group.category.value if group.category else "unknown",
        handlers=group.handlers[:_FEW],
        resolved=record.resolved,
        by=record.resolved_by,
        touched=now if driven else max(record.noted or 0.0, record.resolved or 0.0),
    )


def _measured(desk: Desk, causes: list[Cause], memory: Memory, rules: Rules) -> list[Cause]:
    """Count the deaths of the last minutes, where they could matter."""
    wanted = [
        cause.number
        for cause in causes
        if (last := memory.get(cause.subject)) is None
        or last.is_over
        or grows(replace(cause, recent=cause.jobs), last, rules)
    ]
    recent = desk.groups.deaths(60, int(SPAN / 60), wanted) if wanted else {}
    return [replace(cause, recent=sum(recent.get(cause.number, ()))) for cause in causes]


def _conditions(
    desk: Desk, now: float, rules: Rules, born: float, memory: Memory
) -> Iterator[Condition]:
    yield from _paused(desk.lanes.pauses(), now)
    if rules.unserved is not None:
        yield from _unserved(desk)
    if (wait := rules.span("retrying")) is not None:
        yield from _retrying(desk, now, wait, memory)
    yield from _stopped(desk, now, born)
    yield from _silent(desk.lanes.workers(), now)
    if rules.idle is not None:
        ran = max(_last_ran(desk) or 0.0, born)
        title = f"no job ran for {words(max(0.0, now - ran))}"
        yield Condition(
            subject="idle", state="idle", title=title, since=ran, command="redrive status"
        )


def _paused(pauses: list[LanePause], now: float) -> Iterator[Condition]:
    for pause in pauses:
        lane = pause.lane
        if lane == NAME or (lane.startswith("provider:") and pause.seconds_left is not None):
            continue  # a provider in cooldown is the usual course of things
        by, why = pause.by, pause.reason or "no reason given"
        yield Condition(
            subject=f"lane {lane}",
            state="paused",
            title=inert(f"the lane {lane} is paused by {by}: {why}")[:300],
            since=now if pause.since is None else pause.since,
            command=f"redrive resume {lane}",
        )


def _unserved(desk: Desk) -> Iterator[Condition]:
    because = desk.lanes.unserved_because()
    for lane, since in desk.lanes.unserved().items():
        if lane != NAME:
            why = f": {inert(because[lane])[:200]}" if lane in because else ""
            yield Condition(
                subject=f"unserved {lane}",
                state="unserved",
                title=f"jobs are due in the lane {inert(lane)} and no worker serves it{why}",
                since=since,
                command=f"redrive list 'lane:{lane} state:pending'",
            )


def _retrying(desk: Desk, now: float, wait: float, memory: Memory) -> Iterator[Condition]:
    """Yield the causes whose jobs have failed and been retried for at least `wait` seconds."""
    for group in desk.groups.find(state=State.PENDING, failed=True, limit=WATCHED):
        if set(group.handlers) == {NAME} or now - (group.first_seen or now) < wait:
            continue
        told = memory.get(f"retrying {group.name}")
        since = _failing_since(desk, group) if told is None or told.is_over else told.since
        if now - since >= wait:
            jobs = "1 job is" if group.jobs == 1 else f"{group.jobs:,} jobs are"
            lasted = words(max(0.0, now - since))
            yield Condition(
                subject=f"retrying {group.name}",
                state="retrying",
                title=f"{jobs} retried, for up to {lasted}: {inert(group.title)}"[:300],
                since=since,
                command=f"redrive list '{group.name} state:pending'",
            )


def _failing_since(desk: Desk, group: Group) -> float:
    """Return since when the newest pending jobs of a cause fail; a retry by a person begins anew."""
    page = desk.jobs.find(group, state=State.PENDING, failed=True, limit=_LOOKED_AT)
    times = (max(job.first_failed or job.updated, job.since) for job in page.jobs)
    return min(times, default=desk.store.now())


def _stopped(desk: Desk, now: float, born: float) -> Iterator[Condition]:
    for run in desk.runs.recent(counted=False):
        if (
            run.phase == "stopped"
            and run.ended is not None
            and run.ended >= max(born, now - _RUN_NEWS)
        ):
            name = f" ({run.name})" if run.name else ""
            yield Condition(
                subject=run.id,
                state="stopped",
                title=inert(f"the run {run.id}{name} was stopped: {run.why}")[:300],
                since=run.ended,
                command=f"redrive run {run.id}",
            )


def _silent(workers: list[LiveWorker], now: float) -> Iterator[Condition]:
    """Yield the hosts with a worker whose heartbeat stopped; one that left removed its note."""
    late: dict[str, list[LiveWorker]] = {}
    for worker in workers:
        if worker.silent > _SILENT:
            late.setdefault(worker.host, []).append(worker)
    for host, silent in sorted(late.items()):
        pids = ", ".join(str(worker.pid) for worker in silent[:_FEW])
        yield Condition(
            subject=f"host {inert(host)}",
            state="silent",
            title=f"a worker on {inert(host)} sends no heartbeat (process {pids})"[:300],
            since=now - max(worker.silent for worker in silent),
            command="redrive status",
        )


def _last_ran(desk: Desk) -> float | None:
    """Return when a job last ran, as far as jobs that are still kept tell."""
    asked = (Filters(state=_RAN), Filters(state=State.PENDING, failed=True))
    times = (_last(desk, filters) for filters in asked)
    return max((at for at in times if at is not None), default=None)


def _last(desk: Desk, filters: Filters) -> float | None:
    """Return when the newest of some jobs changed; messages do not count, however many there are."""
    cursor: str | None = None
    while True:
        page = desk.jobs.find(limit=_FEW, by_change=True, cursor=cursor, **filters)
        at = next((job.updated for job in page.jobs if job.handler != NAME), None)
        cursor = page.cursor
        if at is not None or cursor is None:
            return at
