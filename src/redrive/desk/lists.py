"""Lists that the command line, the API and the console show alike: groups in order, lanes, progress of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal

from redrive.desk import shapes, waits
from redrive.desk.documents import Seen, pause_document, run_document, with_trends
from redrive.jobs.clock import iso
from redrive.jobs.job import Action, State
from redrive.stores.tallies import Tally

if TYPE_CHECKING:
    from redrive.desk.desk import Desk
    from redrive.desk.status import Health
    from redrive.runs.run_records import Run

Status = Literal["open", "new", "regressed", "resolved", "all"]
Order = Literal["jobs", "growth", "age"]
DAY = 86_400.0
MOST = 200  # groups without jobs that are listed as resolved
STEPS = 5000  # steps of a run that are read: it takes one a second
_BARS, _LATELY = 60, 10.0
_WIDTHS = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 86_400.0)
_KEYS: dict[Order, Callable[[Seen], tuple[float, ...]]] = {
    "jobs": lambda row: (-row.group.jobs, row.group.number),
    "growth": lambda row: (-row.last_hour, -row.group.jobs, row.group.number),
    "age": lambda row: (row.group.first_seen or 0.0, row.group.number),
}


def in_order(rows: Iterable[Seen], order: Order) -> list[Seen]:
    """Sort groups by their jobs, by their deaths in the last hour, or by when they were first seen."""
    return sorted(rows, key=_KEYS[order])


def of_status(desk: Desk, rows: list[Seen], status: Status, *, since: float = DAY) -> list[Seen]:
    """Return the groups of a status; the resolved ones also if they have no jobs, the last first.

    New are those first seen in the last `since` seconds, and those that regressed.
    """
    match status:
        case "all":
            return rows
        case "new":
            return [row for row in rows if row.is_new(since)]
        case "open":
            return [row for row in rows if row.group.record.status != "resolved"]
        case "regressed":
            return [row for row in rows if row.group.record.status == "regressed"]
        case "resolved":
            return _resolved(desk, rows)


def _resolved(desk: Desk, rows: list[Seen]) -> list[Seen]:
    known = {row.group.number: row for row in rows}
    records = [r for r in desk.groups.records().values() if r.status == "resolved"]
    records.sort(key=lambda record: -(record.resolved or 0.0))
    rest = [Tally().group(r.number, r) for r in records[:MOST] if r.number not in known]
    there = [known[r.number] for r in records if r.number in known]
    return [*there, *(with_trends(desk, rest) if rest else [])]


def lanes_of(desk: Desk, health: Health) -> list[shapes.WholeLane]:
    """Return every lane that has jobs or a pause: those that nobody serves first, then the paused."""
    counted: dict[str, dict[State, int]] = {pause.lane: {} for pause in health.pauses}
    for count in health.counts:
        states = counted.setdefault(count.lane, {})
        states[count.state] = states.get(count.state, 0) + count.jobs
    due = health.due()
    pauses, served = {pause.lane: pause for pause in health.pauses}, desk.lanes.served()
    lanes: list[shapes.WholeLane] = [
        {
            "lane": name,
            "pending": states.get(State.PENDING, 0),
            "running": states.get(State.RUNNING, 0),
            "completed": states.get(State.COMPLETED, 0),
            "dead": states.get(State.DEAD, 0),
            "resolved": states.get(State.RESOLVED, 0),
            "oldest_due": iso(due.get(name)),
            "oldest_due_seconds": max(0.0, health.now - due[name]) if name in due else None,
            "served": name in served,
            "unserved": name in health.unserved,
            "because": health.because.get(name),
            "pause": pause_document(pauses[name]) if name in pauses else None,
        }
        for name, states in counted.items()
    ]
    return sorted(lanes, key=lambda lane: (not lane["unserved"], not lane["pause"], lane["lane"]))


def steps_of(desk: Desk, run: Run) -> list[Action]:
    """Return the latest steps of a run, newest first."""
    return [a for a in desk.log.actions(run=run.number, limit=STEPS) if a.verb != "enlist"]


def progress_of(desk: Desk, run: Run, steps: list[Action] | None = None) -> shapes.WholeRun:
    """Return a run with how fast it is, what died beside it since, and what it waits for."""
    steps = steps_of(desk, run) if steps is None else steps
    released = [(step.at, step.done) for step in steps if step.verb == "release"]
    now = desk.store.now()
    lately = sum(done for at, done in released if now - at <= _LATELY)
    return {
        **run_document(run),
        "rate_now": lately / _LATELY,
        "pace": _pace(released, run.created),
        "arrived": desk.runs.arrived(run) if run.groups else 0,
        "waits": waits.of_run(desk, run),
    }


def _pace(released: list[tuple[float, int]], began: float) -> shapes.Trend:
    """Add up released jobs in at most 60 spans since a run began."""
    length = max((at - began for at, _ in released), default=0.0)
    width = next((w for w in _WIDTHS if length / w < _BARS), _WIDTHS[-1])
    numbers = [0] * (int(length // width) + 1 if released else 0)
    for at, done in released:
        numbers[max(0, int((at - began) // width))] += done
    return {"span_seconds": width, "numbers": numbers}
