"""What is true now, asked of the store: causes, pauses, lanes nobody serves, runs, workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from redrive.alerts.rules import SPAN, Cause, Condition, Memory, Rules, World, grows
from redrive.desk import worker_notes
from redrive.desk.desk import Desk
from redrive.desk.reading import Mark
from redrive.jobs.durations import words
from redrive.jobs.job import Group, Job, State
from redrive.payloads.masked_jobs import masked
from redrive.payloads.masking import inert
from redrive.runs import run_records
from redrive.stores.contract import PAUSE, Note, Query, Store
from redrive.worker import presence

NAME = "redrive.alert"
"""The handler and lane of messages; about these nothing is told."""
WATCHED = 2000
"""How many causes are looked after, those with the most jobs first."""
_RUN_NEWS = 86400.0
"""Seconds for which a run that was stopped is news."""
_DEAD = frozenset({State.DEAD})
_UNDONE = frozenset({State.PENDING, State.RUNNING, State.DEAD})
_RAN = frozenset({State.RUNNING, State.COMPLETED, State.DEAD})
_FEW = 20


def look(app: Desk, memory: Memory, rules: Rules, *, born: float) -> World:
    """Find out what is true now; `born` is since when anybody looks."""
    store = app.keeper.store
    now, marks = store.now(), app.group_marks()
    live = {number for run in run_records.every(store) if not run.is_over for number in run.groups}
    groups = [one for one in store.groups(Query(limit=WATCHED)) if set(one.handlers) != {NAME}]
    causes = [_cause(one, marks.get(one.number), one.number in live, now) for one in groups]
    known = {one.subject for one in causes}
    gone = [
        one for one, told in memory.items() if one not in known and _is_open_cause(one, told.state)
    ]
    numbers = {one: int(one[1:]) for one in gone}
    return World(
        now=now,
        causes=_measured(store, causes, memory, rules),
        busy=frozenset(one for one in gone if _is_undone(store, numbers[one])),
        closers={one: marks[numbers[one]].by for one in gone if numbers[one] in marks},
        conditions=list(_conditions(app, store, now, rules, born)),
    )


def newest(store: Store, cause: Cause) -> Job | None:
    """Give the dead job of a cause that died last, its payload's secrets hidden in its error."""
    query = Query(group=cause.number, states=_DEAD, by_change=True, limit=1)
    return next(map(masked, store.find(query).jobs), None)


def _is_open_cause(subject: str, state: str) -> bool:
    return state in {"new", "growing", "old", "regressed"} and subject[1:].isdecimal()


def _is_undone(store: Store, number: int) -> bool:
    """Whether a cause only looks gone: its jobs are tried again, or others have more dead ones."""
    return bool(store.groups(Query(group=number, states=_UNDONE, limit=1)))


def _cause(group: Group, mark: Mark | None, driven: bool, now: float) -> Cause:
    said = mark or Mark()
    return Cause(
        number=group.number,
        title=inert(group.title)[:200],
        jobs=group.jobs,
        first=group.first_seen or now,
        last=group.last_seen or now,
        category=group.category.value if group.category else "unknown",
        handlers=group.handlers[:_FEW],
        resolved=said.resolved,
        by=said.by,
        touched=now if driven else max(said.noted or 0.0, said.resolved or 0.0),
    )


def _measured(store: Store, causes: list[Cause], memory: Memory, rules: Rules) -> list[Cause]:
    """Count the deaths of the last minutes, where they could matter."""
    wanted = [
        one.number
        for one in causes
        if (told := memory.get(one.subject)) is None
        or told.is_over
        or grows(replace(one, recent=one.jobs), told, rules)
    ]
    recent = store.deaths(SPAN, 1, groups=wanted) if wanted else {}
    return [
        replace(one, recent=recent[one.number][0]) if one.number in recent else one
        for one in causes
    ]


def _conditions(
    app: Desk, store: Store, now: float, rules: Rules, born: float
) -> Iterator[Condition]:
    yield from _paused(app.pauses(), now)
    if rules.unserved is not None:
        yield from _unserved(app, store, now)
    yield from _stopped(store, now, born)
    yield from _silent(app.workers(), now)
    if rules.idle is not None:
        ran = max(_last_ran(store) or 0.0, born)
        title = f"no job ran for {words(max(0.0, now - ran))}"
        yield Condition(
            subject="idle", state="idle", title=title, since=ran, command="redrive status"
        )


def _paused(notes: list[Note], now: float) -> Iterator[Condition]:
    for note in notes:
        lane = note.name.removeprefix(PAUSE)
        if lane == NAME or (lane.startswith("provider:") and note.expires_in is not None):
            continue  # a provider in cooldown is the usual course of things
        said = note.fields
        since = said.get("since")
        by, why = said.get("by") or "somebody", said.get("reason") or "no reason given"
        yield Condition(
            subject=f"lane {lane}",
            state="paused",
            title=inert(f"the lane {lane} is paused by {by}: {why}")[:300],
            since=since if isinstance(since, int | float) else now,
            command=f"redrive resume {lane}",
        )


def _unserved(app: Desk, store: Store, now: float) -> Iterator[Condition]:
    served, due = worker_notes.served(store, "lanes"), dict[str, float]()
    because = app.unserved_because()
    for count in store.counts():
        if count.state is State.PENDING and count.oldest is not None and count.oldest <= now:
            due[count.lane] = min(count.oldest, due.get(count.lane, now))
    for lane, since in sorted(due.items()):
        if lane not in served and lane != NAME:
            why = f": {inert(because[lane])[:200]}" if lane in because else ""
            title = f"jobs are due in the lane {inert(lane)} and no worker serves it{why}"
            subject = f"unserved {lane}"
            command = f"redrive list 'lane:{lane} state:pending'"
            yield Condition(
                subject=subject, state="unserved", title=title, since=since, command=command
            )


def _stopped(store: Store, now: float, born: float) -> Iterator[Condition]:
    for run in run_records.every(store):
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


def _silent(notes: list[Note], now: float) -> Iterator[Condition]:
    """Yield the hosts with a worker whose signs of life stopped; one that left took its note along."""
    late: dict[str, list[Note]] = {}
    for note in notes:
        if (
            worker_notes.silence(note) > 2 * presence.SIGN_EVERY
        ):  # later than in `status`: it may wake somebody
            late.setdefault(str(note.fields.get("host")), []).append(note)
    for host, silent in sorted(late.items()):
        pids = [str(note.fields.get("pid")) for note in silent]
        title = (
            f"a worker on {inert(host)} gives no sign of life (process {', '.join(pids[:_FEW])})"
        )
        yield Condition(
            subject=f"host {inert(host)}",
            state="silent",
            title=title[:300],
            since=now - max(map(worker_notes.silence, silent)),
            command="redrive status",
        )


def _last_ran(store: Store) -> float | None:
    """Say when a job last ran, as far as jobs that are still kept tell."""
    queries = (
        Query(states=_RAN, by_change=True, limit=_FEW),
        Query(states=frozenset({State.PENDING}), failed=True, by_change=True, limit=_FEW),
    )
    return max((at for query in queries if (at := _last(store, query)) is not None), default=None)


def _last(store: Store, query: Query) -> float | None:
    """Say when the newest of some jobs changed; messages do not count, however many there are."""
    while True:
        page = store.find(query)
        found = next((job.updated for job in page.jobs if job.handler != NAME), None)
        if found is not None or page.cursor is None:
            return found
        query = replace(query, cursor=page.cursor)
