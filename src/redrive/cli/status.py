"""How things stand, on one screen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import click

from redrive.app import Count, Note, Redrive
from redrive.cli._command import command
from redrive.cli._face import Face
from redrive.cli.documents import HOPELESS, group_document
from redrive.cli.output import Cell, Facts, Line, Mark, Part, Span, Table, View, columns
from redrive.cli.output.plain import iso
from redrive.job import Category, Group, State

TOP = 5
"""How many causes are shown."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Everything `status` knows."""

    url: str
    durability: str
    now: float
    counts: list[Count]
    groups: list[Group]
    pauses: list[Note]

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
    with face.reading() as app:
        standing = _look(app)
    if standing.groups:
        then = f"redrive list {standing.groups[0].name}"
    else:
        then = "redrive failed" if standing.failed else "redrive list"
    face.show(View(_document(standing), _parts(standing)), then=then)


def _look(app: Redrive) -> Standing:
    return Standing(
        url=app.store.url,
        durability=app.store.durability,
        now=app.store.now(),
        counts=app.counts(),
        groups=app.groups(limit=TOP),
        pauses=app.pauses(),
    )


def _parts(at: Standing) -> list[Part]:
    dead = at.total(State.DEAD)
    parts: list[Part] = []
    if not at.failed and not dead:
        parts.append(Line("No errors detected - system is healthy!", "good"))
    parts.append(
        Facts(
            [
                ("Failed", Mark(at.failed, "warn" if at.failed else "good")),
                ("Dead letter queue", Mark(dead, "bad" if dead else "good")),
                ("Retry candidates", Mark(at.candidates, "warn" if at.candidates else "good")),
                ("Oldest due", Span(at.age(State.PENDING))),
                ("Oldest dead", Span(at.age(State.DEAD))),
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
        heads = columns("group:id", "jobs:number", "category:word", "cause")
        causes: list[list[Cell]] = [[g.name, g.jobs, g.category, g.title] for g in at.groups]
        parts.append(Table(heads, causes, "Top causes of death", "group"))
    if at.pauses:
        heads = columns("lane:id", "by", "left:number", "reason")
        held: list[list[Cell]] = [
            [lane_of(note), pause_words(note)[0], Span(note.expires_in), pause_words(note)[1]]
            for note in at.pauses
        ]
        parts.append(Table(heads, held, "Paused lanes", "pause"))
    if at.durability == "relaxed":
        parts.append(Line("durability is relaxed: a power cut may lose acknowledged work", "warn"))
    return parts


def lane_of(note: Note) -> str:
    """Give the lane that a pause holds."""
    return note.name.partition(":")[2]


def pause_words(note: Note) -> tuple[str, str]:
    """Give who paused a lane and why; a note that says neither gives its whole text."""
    import json  # noqa: PLC0415 - few stores have a pause

    try:
        value = json.loads(note.value)
        return str(value.get("by") or "unknown"), str(value.get("reason") or "")
    except (ValueError, AttributeError):
        return "unknown", note.value


def _document(at: Standing) -> dict[str, object]:
    dead = at.total(State.DEAD)
    return {
        "healthy": not at.failed and not dead,
        "failed": at.failed,
        "dead_letter_queue": dead,
        "retry_candidates": at.candidates,
        "states": {state.value: at.total(state) for state in State},
        "categories": [
            {"category": name, "failed": failed, "dead": died}
            for name, failed, died in at.categories()
        ],
        "groups": [group_document(group) for group in at.groups],
        "pauses": [
            {
                "lane": lane_of(note),
                "by": pause_words(note)[0],
                "reason": pause_words(note)[1],
                "seconds_left": note.expires_in,
            }
            for note in at.pauses
        ],
        "oldest_due": iso(at.oldest(State.PENDING)),
        "oldest_due_seconds": at.age(State.PENDING),
        "oldest_dead": iso(at.oldest(State.DEAD)),
        "oldest_dead_seconds": at.age(State.DEAD),
        "store": at.url,
        "durability": at.durability,
        "now": iso(at.now),
    }
