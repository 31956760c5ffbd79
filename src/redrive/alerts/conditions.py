"""Read the present state from the store: groups, pauses, unserved lanes, silent workers."""

from __future__ import annotations

from collections.abc import Iterator

from redrive.alerts.rules import OPEN, SPAN, Condition, Memory, Rules, World, grows
from redrive.desk.desk import Desk
from redrive.jobs.job import Group, Job, State
from redrive.payloads.masking import inert

NAME = "redrive.alert"  # the handler and lane of messages; these are never reported
WATCHED = 2000  # how many groups are watched, those with the most jobs first
NAMED = 10  # how many new jobs a message names by their keys
_SILENT = 20.0
"""Seconds without a heartbeat; more than `status` waits for, because an alert may wake somebody."""
_UNDONE = (State.PENDING, State.RUNNING, State.DEAD)
_FEW = 20


def look(desk: Desk, memory: Memory, rules: Rules) -> World:
    """Return the present state."""
    groups = [row for row in desk.groups.find(limit=WATCHED) if set(row.handlers) != {NAME}]
    known = {group.name for group in groups}
    gone = {s: int(s[1:]) for s, last in memory.items() if s not in known and last.state in OPEN}
    records = desk.groups.records(gone.values())
    counted = [
        group.number
        for group in groups
        if (last := memory.get(group.name)) is None
        or last.is_over
        or grows(group, group.jobs, last, rules)
    ]
    deaths = desk.groups.deaths(60, int(SPAN / 60), counted) if counted else {}
    return World(
        now=desk.store.now(),
        groups=groups,
        recent={number: sum(numbers) for number, numbers in deaths.items()},
        busy=frozenset(
            subject
            for subject, number in gone.items()
            # Its jobs are retried, or it is too small to be listed.
            if desk.groups.find(group=number, state=_UNDONE, limit=1)
        ),
        closers={s: records[n].resolved_by for s, n in gone.items() if n in records},
        conditions=list(_conditions(desk, desk.store.now(), rules)),
    )


def newest(desk: Desk, group: Group) -> list[Job]:
    """Return the dead jobs of a group that died last, the last one first."""
    return desk.jobs.find(group=group.number, state=State.DEAD, by_change=True, limit=NAMED).jobs


def _conditions(desk: Desk, now: float, rules: Rules) -> Iterator[Condition]:
    for pause in desk.lanes.pauses():
        lane = pause.lane
        if lane == NAME or (lane.startswith("provider:") and pause.seconds_left is not None):
            continue  # a provider in cooldown is the usual course of things
        yield Condition(
            subject=f"lane {lane}",
            state="paused",
            title=f"the lane {lane} is paused by {pause.by}: {pause.reason or 'no reason given'}",
            since=now if pause.since is None else pause.since,
            command=f"redrive resume {lane}",
        )
    because = desk.lanes.unserved_because()
    for lane, since in desk.lanes.unserved().items() if rules.unserved is not None else ():
        if lane != NAME:
            why = f": {because[lane][:200]}" if lane in because else ""
            yield Condition(
                subject=f"unserved {lane}",
                state="unserved",
                title=f"jobs are due in the lane {lane} and no worker serves it{why}",
                since=since,
                command=f"redrive list 'lane:{lane} state:pending'",
            )
    silent: dict[str, list[tuple[float, int | None]]] = {}
    for worker in desk.lanes.workers():  # one that left removed its note
        if worker.silent > _SILENT:
            silent.setdefault(worker.host, []).append((worker.silent, worker.pid))
    for host, workers in sorted(silent.items()):
        pids = ", ".join(str(pid) for _, pid in workers[:_FEW])
        yield Condition(
            subject=f"host {inert(host)}",
            state="silent",
            title=f"a worker on {host} sends no heartbeat (process {pids})",
            since=now - max(workers)[0],
            command="redrive status",
        )
