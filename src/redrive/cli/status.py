"""How things stand, on one screen."""

from __future__ import annotations

import click

from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli.groups import table
from redrive.cli.output import (
    Cell,
    Facts,
    Line,
    Mark,
    Part,
    Span,
    Table,
    Trend,
    View,
    When,
    columns,
)
from redrive.desk.documents import seen_document
from redrive.desk.lanes import LiveWorker
from redrive.desk.status import TOP, Overdue, Status, status_of
from redrive.jobs.clock import iso
from redrive.jobs.durations import words
from redrive.jobs.job import State

_COUNTED = ("waiting", "working", "succeeded", "failed")


@command("status", "redrive status", "redrive status --json", "redrive --store jobs.db status")
@click.pass_obj
def status(face: Face) -> None:
    """Show how things stand: what failed, what is dead and of what, what is paused."""
    with face.reading() as desk:
        shown = status_of(desk)
    if shown.groups:
        then = f"redrive group {shown.groups[0].group.name}"
    elif shown.failed:
        then = "redrive failed"
    else:
        then = "redrive list --state pending" if shown.overdue() else "redrive list"
    face.show(View(_document(shown), _parts(shown)), then=then)


def _parts(at: Status) -> list[Part]:
    dead = at.total(State.DEAD)
    parts: list[Part] = []
    if at.healthy:
        parts.append(Line("No errors detected - system is healthy!", "good"))
    blocked = (_blocked_line(one, at.now) for one in at.workers if one.blocked)
    silent = (_silent_line(one) for one in at.workers if one.is_silent)
    lines = (*blocked, *_overdue_lines(at), *silent)
    parts += [Line(text, "warn") for text in lines]
    parts.append(
        Facts(
            [
                ("Failed", Mark(at.failed, "warn" if at.failed else "good")),
                ("Dead letter queue", Mark(dead, "bad" if dead else "good")),
                ("Retry candidates", Mark(at.candidates, "warn" if at.candidates else "good")),
                ("Died in 10 min", at.minutes[-1]),
                ("Died in 1 h", sum(at.minutes)),
                ("Deaths in 24 h", Trend(at.day)),
                ("Oldest due", Span(at.age(State.PENDING))),
                ("Oldest dead", Span(at.age(State.DEAD))),
                ("Workers", len(at.workers)),
                ("Last pass", When(at.last_pass, at.now)),
                ("Store", at.url),
                ("Durability", at.durability),
            ],
        )
    )
    states: list[list[Cell]] = [[state, at.total(state)] for state in State]
    parts.append(Table(columns("state:word", "jobs:number"), states, "Jobs", "state"))
    if found := at.categories():
        heads = columns("category:word", "failed:number", "dead:number")
        rows: list[list[Cell]] = [[name or "none", failed, died] for name, failed, died in found]
        parts.append(Table(heads, rows, "By category", "category"))
    if at.groups:
        parts.append(table(at.groups, "Top causes of death", "group"))
    if at.runs:
        parts.append(_run_table(at))
    if at.pauses:
        heads = columns("lane:id", "by", "left:number", "reason")
        held: list[list[Cell]] = [
            [one.lane, one.by, Span(one.seconds_left), one.reason] for one in at.pauses
        ]
        parts.append(Table(heads, held, "Paused lanes", "pause"))
    if at.unserved:
        heads = columns("lane:id", "why") if at.because else columns("lane:id")
        rows = [[lane, *([at.because.get(lane)] if at.because else [])] for lane in at.unserved]
        parts.append(Table(heads, rows, "Lanes that no worker serves", "unserved"))
    if at.durability == "relaxed":
        parts.append(Line("durability is relaxed: a power cut may lose acknowledged work", "warn"))
    return parts


def _run_table(at: Status) -> Table:
    heads = columns(
        "run:id", "state:word", "jobs:number", *(f"{name}:number" for name in _COUNTED), "name"
    )
    rows: list[list[Cell]] = [
        [run.id, run.phase, run.total, *(getattr(run.counts, name) for name in _COUNTED), run.name]
        for run in at.runs
    ]
    return Table(heads, rows, "Runs", "run")


def _silent_line(worker: LiveWorker) -> str:
    who, silent = f"worker {worker.pid} on {worker.host}", words(worker.silent)
    return f"{who} sent no heartbeat for {silent}: a handler holds the GIL, or it was stopped"


def _blocked_line(worker: LiveWorker, now: float) -> str:
    by = worker.blocked or {}
    since = by.get("since")
    lasting = f" for {words(max(0.0, now - since))}" if isinstance(since, int | float) else ""
    job = f"job {by['job']} ({by.get('handler')})" if "job" in by else "an unknown job"
    text = f"{job} has blocked the event loop{lasting}; async jobs beside it wait"
    return f"worker {worker.name}: {text}"


def _overdue_lines(at: Status) -> list[str]:
    """Return a line for the lanes that nobody works on; a paused one has its own reason."""
    late = at.overdue()
    free, held = [o for o in late if not o.paused], [o for o in late if o.paused]
    lines: list[str] = []
    if free:
        said = _waiting_words(at, free)
        lines.append(f"{said}: is a worker running, and does it know the handlers?")
    if held:
        said = _waiting_words(at, held)
        lines.append(f"{said}: the lane is paused, `redrive resume LANE` lets it go on")
    if at.unserved and not late:
        lanes = _few(list(at.unserved))
        lines.append(f"jobs are due that no worker serves, in {lanes}: is a worker running?")
    return lines


def _few(lanes: list[str]) -> str:
    more = f" and {len(lanes) - TOP} more" if len(lanes) > TOP else ""
    return f"{'the lane' if len(lanes) == 1 else 'the lanes'} {', '.join(lanes[:TOP])}{more}"


def _waiting_words(at: Status, late: list[Overdue]) -> str:
    since = words(at.now - late[0].due)
    number = sum(one.pending for one in late)
    jobs = "1 job" if number == 1 else f"{number:,} jobs"
    return f"{jobs} pending in {_few([one.lane for one in late])}, the oldest due for {since}"


def _document(at: Status) -> dict[str, object]:
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
        "runs": [
            {"run": run.id, "state": run.phase, "name": run.name or None, "total": run.total}
            | {name: getattr(run.counts, name) for name in _COUNTED}
            for run in at.runs
        ],
        "overdue": [
            {
                "lane": one.lane,
                "pending": one.pending,
                "due": iso(one.due),
                "seconds": at.now - one.due,
                "paused": one.paused,
            }
            for one in at.overdue()
        ],
        "oldest_due": iso(at.oldest(State.PENDING)),
        "oldest_dead": iso(at.oldest(State.DEAD)),
        **at.document(),
    }
