"""Read the notes of workers and passes; `presence` writes them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from redrive.jobs.job import State
from redrive.stores.contract import Count, Store, oldest_by_lane
from redrive.stores.note_verbs import Note

PASS_LASTS = 90_000.0
"""Seconds for which a pass counts: a day and an hour, for those that run once a day."""
WORKER = "worker:"  # what the names of these notes begin with; the holder follows
SERVES = "serves:"
"""Notes about what is served apart from workers: the name of a handler and lane follows."""


What = Literal["handlers", "lanes"]


class Running(NamedTuple):
    """Jobs of one handler that a worker runs now."""

    handler: str
    jobs: int
    since: float
    """When the first of them began."""


class Slots(NamedTuple):
    """How many jobs a worker can run at one time, and what it runs."""

    total: int
    busy: int
    since: float | None
    """When the last job that runs began; None if none runs."""
    running: tuple[Running, ...]
    """The handlers with the most jobs."""


class _Served(NamedTuple):
    source: str
    lane: str


def silence(note: Note) -> float:
    """Return the seconds since the last heartbeat of a worker."""
    lasts = note.fields.get("lasts")
    if not isinstance(lasts, int | float) or note.expires_in is None:
        return 0.0
    return max(0.0, lasts - note.expires_in)


def blocked(note: Note) -> Mapping[str, Any] | None:
    """Return which `job` and `handler` block a worker's event loop, and `since` when; None if none does."""
    value = note.fields.get("blocked")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def slots(note: Note) -> Slots | None:
    """Return what a worker runs; None if its note has nothing about it."""
    try:
        value = note.fields["slots"]
        running = [Running(str(name), int(jobs), float(at)) for name, jobs, at in value["running"]]
        since = None if value["since"] is None else float(value["since"])
        return Slots(int(value["total"]), int(value["busy"]), since, tuple(running))
    except (KeyError, TypeError, ValueError):
        return None


def is_pass(note: Note) -> bool:
    """Return True if it was left by a pass over what was due, which has ended; a worker's ends soon."""
    return note.fields.get("lasts") == PASS_LASTS


def served(store: Store, what: What) -> frozenset[str]:
    """Return the handlers or lanes that some worker serves now, or a pass served in the last day.

    A later pass, or a worker of now, contradicts a pass: a handler that its module no longer has, or
    that a pass could not run, is not served.
    """
    names = {note.name.removeprefix(SERVES) for note in store.notes(SERVES)}
    passes, workers = _in_order(store)
    before: dict[str, _Served] = {}
    for note in passes:
        lost = _gone(before, note) | {name: lane for name, (lane, _) in _missing(note).items()}
        names -= _named(lost, what)
        names.update(_own(note, what))
        before |= _handlers(note)
    for note in workers:
        names -= _named(_gone(before, note), what)
    return frozenset(names.union(*(_own(note, what) for note in workers)))


def _gone(before: Mapping[str, _Served], note: Note) -> dict[str, str]:
    """Return the handlers, with their lanes, that a module served before and has no longer."""
    now = _handlers(note)
    sources = {served.source for served in now.values()} - {""}
    gone = {name: served for name, served in before.items() if name not in now}
    return {name: served.lane for name, served in gone.items() if served.source in sources}


def _named(handlers: Mapping[str, str], what: What) -> set[str]:
    return set(handlers if what == "handlers" else handlers.values())


def _own(note: Note, what: What) -> list[str]:
    return [*_handlers(note)] if what == "handlers" else _list(note.fields.get("lanes"))


def unserved(store: Store, counts: Sequence[Count] | None = None) -> dict[str, float]:
    """Return the lanes with due jobs that nobody serves, and since when the oldest is due.

    A caller that has just counted the jobs passes the `counts`.
    """
    now, lanes = store.now(), served(store, "lanes")
    due = oldest_by_lane(store.counts() if counts is None else counts, State.PENDING)
    return {lane: at for lane, at in sorted(due.items()) if at <= now and lane not in lanes}


def missing(store: Store) -> dict[str, tuple[str, str]]:
    """Return the handlers that a worker or the last pass could not run: their lanes, and why.

    Another worker may serve them.
    """
    lost: dict[str, tuple[str, str]] = {}
    for note in itertools.chain(*_in_order(store)):
        for name in _handlers(note):
            lost.pop(name, None)
        lost |= _missing(note)
    return lost


def _in_order(store: Store) -> tuple[list[Note], list[Note]]:
    """Return the notes of passes from the first to the last, and those of the workers of now."""
    notes = sorted(store.notes(WORKER), key=lambda note: _number(note.fields.get("since")))
    return [n for n in notes if is_pass(n)], [n for n in notes if not is_pass(n)]


def _handlers(note: Note) -> dict[str, _Served]:
    """Return the handlers in a note: the module that defines each, and its lane."""
    try:
        sources = note.fields["handlers"].items()
        return {
            name: _Served(source, str(lane or name))
            for source, handlers in sources
            for name, lane in handlers.items()
        }
    except (KeyError, AttributeError):  # nobody's
        return {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _list(value: object) -> list[str]:
    return [str(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def _missing(note: Note) -> dict[str, tuple[str, str]]:
    try:
        missing = note.fields["missing"].items()
        return {name: (str(lane), str(why)) for name, (lane, why) in missing}
    except (KeyError, AttributeError, TypeError, ValueError):  # an older version, or nobody's
        return {}
