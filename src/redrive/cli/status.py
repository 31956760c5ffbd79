"""The state of the store, on one screen."""

from __future__ import annotations

from typing import Any

import click

from redrive.cli import views
from redrive.cli._cli import Cli
from redrive.cli._command import command
from redrive.cli.output import Facts, Line, Part, Table, View, fields, plural, rows_of
from redrive.desk.documents import run_document, seen_document
from redrive.desk.lanes import LiveWorker
from redrive.desk.status import TOP, Overdue, Status, status_of
from redrive.jobs.clock import iso
from redrive.jobs.durations import words
from redrive.jobs.job import State

_FACTS = fields(
    """failed=Failed:warn dead_letter_queue=Dead_letter_queue:bad
    retry_candidates=Retry_candidates:warn died_last_10_minutes=Died_in_10_min
    died_last_hour=Died_in_1_h deaths_last_day=Deaths_in_24_h:trend
    oldest_due_seconds=Oldest_due:span oldest_dead_seconds=Oldest_dead:span workers=Workers:count
    last_pass=Last_pass:time store=Store durability=Durability"""
)
_STATES = fields("state:word jobs:number")
_CATEGORIES = fields(
    "category:word failed:number dead:number", category=lambda row: row["category"] or "none"
)
_PAUSES = fields("lane:id by seconds_left=left:span reason:prose")


@command("status", "redrive status", "redrive status --json", "redrive --store jobs.db status")
@click.pass_obj
def status(cli: Cli) -> None:
    """Show what failed, what is dead and why, what is paused, and which workers run."""
    with cli.reading() as desk:
        now = status_of(desk)
    if now.groups:
        then = f"redrive group {now.groups[0].group.name}"
    elif now.failed:
        then = "redrive failed"
    else:
        then = "redrive list --state pending" if now.overdue() else "redrive list"
    data = _document(now)
    cli.show(View(data, _parts(now, data), now=now.now), then=then)


def _parts(at: Status, data: dict[str, Any]) -> list[Part]:
    states, because = data["states"], data["unserved_because"]
    unserved = [{"lane": lane, "why": because.get(lane)} for lane in data["unserved"]]
    lanes = fields("lane:id why:prose" if because else "lane:id")
    parts: list[Part] = [Line("No errors detected - system is healthy!", "good")] * at.healthy
    parts += [Line(text, "warn") for text in _warnings(at)]
    parts += [
        Facts(_FACTS, data),
        Table(_STATES, rows_of(("state", states), ("jobs", states.values())), "Jobs", "state"),
        Table(_CATEGORIES, data["categories"], "By category", "category"),
        Table(views.GROUPS, data["groups"], "Top causes of death", "group"),
        Table(views.RUNS, data["runs"], "Runs", "run"),
        Table(_PAUSES, data["pauses"], "Paused lanes", "pause"),
        Table(lanes, unserved, "Lanes that no worker serves", "unserved"),
    ]
    if at.durability == "relaxed":
        parts.append(Line("durability is relaxed: a power cut may lose acknowledged work", "warn"))
    return parts


def _warnings(at: Status) -> list[str]:
    blocked = [_blocked_line(worker, at.now) for worker in at.workers if worker.blocked]
    silent = [_silent_line(worker) for worker in at.workers if worker.is_silent]
    return [*blocked, *_overdue_lines(at), *silent]


def _silent_line(worker: LiveWorker) -> str:
    who, silent = f"worker {worker.pid} on {worker.host}", words(worker.silent)
    return f"{who} sent no heartbeat for {silent}: a handler holds the GIL, or it is stopped"


def _blocked_line(worker: LiveWorker, now: float) -> str:
    by = worker.blocked or {}
    since = by.get("since")
    lasting = f" for {words(max(0.0, now - since))}" if isinstance(since, int | float) else ""
    job = f"job {by['job']} ({by.get('handler')})" if "job" in by else "an unknown job"
    text = f"{job} has blocked the event loop{lasting}; async jobs beside it wait"
    return f"worker {worker.name}: {text}"


def _overdue_lines(at: Status) -> list[str]:
    """Return a line for lanes whose jobs wait for a worker, and one for those that are paused."""
    late = at.overdue()
    free, paused = [o for o in late if not o.paused], [o for o in late if o.paused]
    lines: list[str] = []
    if free:
        lines.append(f"{_waiting(at, free)}: is a worker running, and does it know the handlers?")
    if paused:
        lines.append(f"{_waiting(at, paused)}: paused; resume with `redrive resume LANE`")
    if at.unserved and not late:
        lanes = _few(list(at.unserved))
        lines.append(f"jobs are due that no worker serves, in {lanes}: is a worker running?")
    return lines


def _few(lanes: list[str]) -> str:
    more = f" and {len(lanes) - TOP} more" if len(lanes) > TOP else ""
    return f"{'the lane' if len(lanes) == 1 else 'the lanes'} {', '.join(lanes[:TOP])}{more}"


def _waiting(at: Status, late: list[Overdue]) -> str:
    since = words(at.now - late[0].due)
    jobs = plural(sum(lane.pending for lane in late), "job")
    return f"{jobs} pending in {_few([lane.lane for lane in late])}, the oldest due for {since}"


def _document(at: Status) -> dict[str, Any]:
    dead = at.total(State.DEAD)
    return {
        "healthy": at.healthy,
        "failed": at.failed,
        "dead_letter_queue": dead,
        "retry_candidates": at.candidates,
        "states": {state.value: at.total(state) for state in State},
        "categories": [
            {"category": name, "failed": failed, "dead": died}
            for name, failed, died in at.categories()
        ],
        "groups": [seen_document(row) for row in at.groups],
        "died_last_10_minutes": at.minutes[-1],
        "died_last_hour": sum(at.minutes),
        "deaths_last_day": {"span_seconds": 3600, "numbers": at.day},
        "runs": [run_document(run) for run in at.runs],
        "overdue": [
            {
                "lane": late.lane,
                "pending": late.pending,
                "due": iso(late.due),
                "seconds": at.now - late.due,
                "paused": late.paused,
            }
            for late in at.overdue()
        ],
        "oldest_due": iso(at.oldest(State.PENDING)),
        "oldest_dead": iso(at.oldest(State.DEAD)),
        **at.document(),
    }
