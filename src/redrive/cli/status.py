"""How things stand, on one screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from redrive.desk import worker_notes
from redrive.desk.documents import HOPELESS, Seen, look, seen_document
from redrive.desk.reading import Count, Looking, Note
from redrive.jobs.clock import iso
from redrive.jobs.durations import words
from redrive.jobs.job import Category, State

if TYPE_CHECKING:
    from redrive.runs.run_records import Run

TOP = 5
"""How many causes are shown, and how many lanes are named."""
_COUNTED = ("waiting", "working", "succeeded", "failed")
LATE = 600.0
"""Seconds. What has been due for longer is not only waiting for the next pass of a worker."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A lane whose jobs nobody takes."""

    lane: str
    pending: int
    due: float
    """Since when the oldest has been due."""
    paused: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything `status` knows."""

    url: str
    durability: str
    now: float
    counts: list[Count]
    groups: list[Seen]
    pauses: list[Note]
    unserved: list[str]
    because: dict[str, str]
    """Why workers cannot serve a lane, where one said so."""
    workers: list[Note]
    last_pass: float | None
    runs: list[Run]
    minutes: list[int]
    """How many died in each ten minutes of the last hour."""
    day: list[int]
    """How many died in each hour of the last day."""

    def total(self, state: State) -> int:
        """Count the jobs of a state."""
        return sum(count.jobs for count in self.counts if count.state is state)

    @property
    def failed(self) -> int:
        """Pending jobs that have failed in this life."""
        return sum(c.jobs for c in self.counts if c.state is State.PENDING and c.category)

    @property
    def candidates(self) -> int:
        """Dead letters that another try may help."""
        return sum(
            c.jobs for c in self.counts if c.state is State.DEAD and c.category not in HOPELESS
        )

    def oldest(self, state: State) -> float | None:
        """Give the earliest due time of pending jobs, or time of death of dead ones."""
        return min(
            (c.oldest for c in self.counts if c.state is state and c.oldest is not None),
            default=None,
        )

    def age(self, state: State) -> float | None:
        """Say for how many seconds the oldest has waited; None when none is late."""
        oldest = self.oldest(state)
        return None if oldest is None or oldest > self.now else self.now - oldest

    @property
    def healthy(self) -> bool:
        """Whether nothing failed, nothing is dead and nothing waits for a worker that is not there."""
        bad = self.failed or self.total(State.DEAD) or self.overdue() or self.unserved
        return not (bad or self.silent or self.blocked())

    @property
    def silent(self) -> list[Note]:
        """Workers whose sign of life is overdue."""
        return [note for note in self.workers if worker_notes.is_silent(note)]

    def blocked(self) -> list[str]:
        """Describe which workers' event loops are blocked, and by which job."""
        return [
            _blocked_words(note, self.now) for note in self.workers if worker_notes.blocked(note)
        ]

    def overdue(self) -> list[Overdue]:
        """Give the lanes with jobs that should have run long ago, the oldest first."""
        held = {lane_of(note) for note in self.pauses}
        oldest: dict[str, float] = {}
        pending: Counter[str] = Counter()
        for count in self.counts:
            if count.state is State.PENDING and count.oldest is not None:
                pending[count.lane] += count.jobs
                oldest[count.lane] = min(count.oldest, oldest.get(count.lane, count.oldest))
        late = sorted((due, lane) for lane, due in oldest.items() if self.now - due > LATE)
        return [Overdue(lane, pending[lane], due, lane in held) for due, lane in late]

    def categories(self) -> list[tuple[Category | None, int, int]]:
        """Count failed and dead jobs by category, most first."""
        failed: Counter[Category | None] = Counter()
        dead: Counter[Category | None] = Counter()
        for count in self.counts:
            if count.state is State.DEAD:
                dead[count.category] += count.jobs
            elif count.state is State.PENDING and count.category:
                failed[count.category] += count.jobs
        both = failed + dead
        names = sorted(both, key=lambda name: (-both[name], name or ""))
        return [(name, failed[name], dead[name]) for name in names]


@command("status", "redrive status", "redrive status --json", "redrive --store jobs.db status")
@click.pass_obj
def status(face: Face) -> None:
    """Show how things stand: what failed, what is dead and of what, what is paused."""
    with face.looking() as app:
        standing = _look(app)
    if standing.groups:
        then = f"redrive group {standing.groups[0].group.name}"
    elif standing.failed:
        then = "redrive failed"
    else:
        then = "redrive list --state pending" if standing.overdue() else "redrive list"
    face.show(View(_document(standing), _parts(standing)), then=then)


def _look(app: Looking) -> Standing:
    counts = app.counts()
    unserved, because = app.unserved(counts), app.unserved_because()
    return Standing(
        url=app.store.url,
        durability=app.store.durability,
        now=app.store.now(),
        counts=counts,
        groups=look(app, app.groups(limit=TOP, reveal=False)),
        pauses=app.pauses(),
        unserved=unserved,
        because={lane: because[lane] for lane in unserved if lane in because},
        workers=app.workers(),
        last_pass=app.last_pass(),
        runs=app.live_runs(),
        minutes=app.deaths(600, 6)[0],
        day=app.deaths(3600, 24)[0],
    )


def _parts(at: Standing) -> list[Part]:
    dead = at.total(State.DEAD)
    parts: list[Part] = []
    if at.healthy:
        parts.append(Line("No errors detected - system is healthy!", "good"))
    lines = (*at.blocked(), *_overdue_lines(at), *map(_silent_line, at.silent))
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
            [lane_of(note), pause_words(note)[0], Span(note.expires_in), pause_words(note)[1]]
            for note in at.pauses
        ]
        parts.append(Table(heads, held, "Paused lanes", "pause"))
    if at.unserved:
        heads = columns("lane:id", "why") if at.because else columns("lane:id")
        rows = [[lane, *([at.because.get(lane)] if at.because else [])] for lane in at.unserved]
        parts.append(Table(heads, rows, "Lanes that no worker serves", "unserved"))
    if at.durability == "relaxed":
        parts.append(Line("durability is relaxed: a power cut may lose acknowledged work", "warn"))
    return parts


def _run_table(at: Standing) -> Table:
    heads = columns(
        "run:id", "state:word", "jobs:number", *(f"{name}:number" for name in _COUNTED), "name"
    )
    rows: list[list[Cell]] = [
        [run.id, run.phase, run.total, *(getattr(run.counts, name) for name in _COUNTED), run.name]
        for run in at.runs
    ]
    return Table(heads, rows, "Runs", "run")


def _worker(note: Note) -> dict[str, object]:
    found = note.fields
    who = {name: found.get(name) for name in ("host", "pid", "lanes", "blocked")}
    who["missing"] = found.get("missing") or {}
    return {**who, "silent_seconds": worker_notes.silence(note)}


def _silent_line(note: Note) -> str:
    found = note.fields
    who = f"worker {found.get('pid')} on {found.get('host')}"
    said = words(worker_notes.silence(note))
    return f"{who} gave no sign of life for {said}: a handler holds the GIL, or it was stopped"


def _blocked_words(note: Note, now: float) -> str:
    found, said = note.fields, worker_notes.blocked(note) or {}
    since = said.get("since")
    lasting = f" for {words(max(0.0, now - since))}" if isinstance(since, int | float) else ""
    job = f"job {said['job']} ({said.get('handler')})" if "job" in said else "an unknown job"
    worker = f"{found.get('host')}:{found.get('pid')}"
    return f"worker {worker}: {job} has blocked the event loop{lasting}; async jobs beside it wait"


def _overdue_lines(at: Standing) -> list[str]:
    """Say in words which lanes nobody works on; a paused one has its own reason."""
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
        lanes = _few(at.unserved)
        lines.append(f"jobs are due that no worker serves, in {lanes}: is a worker running?")
    return lines


def _few(lanes: list[str]) -> str:
    more = f" and {len(lanes) - TOP} more" if len(lanes) > TOP else ""
    return f"{'the lane' if len(lanes) == 1 else 'the lanes'} {', '.join(lanes[:TOP])}{more}"


def _waiting_words(at: Standing, late: list[Overdue]) -> str:
    since = words(at.now - late[0].due)
    number = sum(one.pending for one in late)
    jobs = "1 job" if number == 1 else f"{number:,} jobs"
    return f"{jobs} pending in {_few([one.lane for one in late])}, the oldest due for {since}"


def lane_of(note: Note) -> str:
    """Give the lane that a pause holds."""
    return note.name.partition(":")[2]


def pause_words(note: Note) -> tuple[str, str]:
    """Return who paused a lane and why; the whole text of a note that somebody else wrote."""
    said = note.fields
    return str(said.get("by") or "unknown"), str(said.get("reason") or "") if said else note.value


def _document(at: Standing) -> dict[str, object]:
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
        "workers": [_worker(note) for note in at.workers],
        "last_pass": iso(at.last_pass),
        "runs": [
            {"run": run.id, "state": run.phase, "name": run.name or None, "total": run.total}
            | {name: getattr(run.counts, name) for name in _COUNTED}
            for run in at.runs
        ],
        "pauses": [
            {
                "lane": lane_of(note),
                "by": pause_words(note)[0],
                "reason": pause_words(note)[1],
                "seconds_left": note.expires_in,
            }
            for note in at.pauses
        ],
        "unserved": at.unserved,
        "unserved_because": at.because,
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
        "oldest_due_seconds": at.age(State.PENDING),
        "oldest_dead": iso(at.oldest(State.DEAD)),
        "oldest_dead_seconds": at.age(State.DEAD),
        "store": at.url,
        "durability": at.durability,
        "now": iso(at.now),
    }
