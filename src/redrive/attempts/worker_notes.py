"""Reading the signs of life that workers leave; `presence` writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from redrive.stores.contract import Count, Store
from redrive.stores.note_verbs import Note

PASS_LASTS = 90_000.0
"""Seconds for which a pass counts: a day and an hour, for those that run once a day."""
WORKER = "worker:"
"""What the names of these notes begin with; the holder follows."""
SERVES = "serves:"
"""Notes about what is served apart from workers: the name of a handler and lane follows."""


def silence(note: Note) -> float:
    """Return for how many seconds a worker has given no sign of life."""
    lasts = note.fields.get("lasts")
    if not isinstance(lasts, int | float) or note.expires_in is None:
        return 0.0
    return max(0.0, lasts - note.expires_in)


def blocked(note: Note) -> Mapping[str, Any] | None:
    """Return which `job` and `handler` block a worker's event loop, and `since` when; None if none does."""
    value = note.fields.get("blocked")
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def is_pass(note: Note) -> bool:
    """Return True if it was left by a pass over what was due, which has ended; a worker's ends soon."""
    return note.fields.get("lasts") == PASS_LASTS


def served(store: Store, what: Literal["handlers", "lanes"]) -> frozenset[str]:
    """Return the handlers or lanes that some worker serves now, or a pass served in the last day.

    A pass that could not run a handler contradicts the passes before it.
    """
    names = {note.name.removeprefix(SERVES) for note in store.notes(SERVES)}
    for note in _in_order(store):
        if is_pass(note):
            lost = _missing(note)
            names -= lost.keys() if what == "handlers" else {lane for lane, _ in lost.values()}
        names.update(_list(note.fields.get(what)))
    return frozenset(names)


def unserved(store: Store, counts: Sequence[Count] | None = None) -> dict[str, float]:
    """Return the lanes with due jobs that nobody serves, and since when the oldest is due.

    A caller that has just counted the jobs passes the `counts`.
    """
    now, lanes, due = store.now(), served(store, "lanes"), dict[str, float]()
    for count in store.counts() if counts is None else counts:
        if count.is_due(now) and count.oldest is not None:
            due[count.lane] = min(count.oldest, due.get(count.lane, now))
    return {lane: due[lane] for lane in sorted(due) if lane not in lanes}


def missing(store: Store) -> dict[str, tuple[str, str]]:
    """Return the handlers that a worker or the last pass could not run: their lanes, and why.

    Another worker may serve them.
    """
    lost: dict[str, tuple[str, str]] = {}
    for note in _in_order(store):
        for name in _list(note.fields.get("handlers")):
            lost.pop(name, None)
        lost |= _missing(note)
    return lost


def _in_order(store: Store) -> list[Note]:
    """Return all notes: those of passes from the first to the last, then of the workers of now."""
    notes = store.notes(WORKER)
    return sorted(notes, key=lambda note: (not is_pass(note), _number(note.fields.get("since"))))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _list(value: object) -> list[str]:
    return [str(one) for one in cast("list[object]", value)] if isinstance(value, list) else []


def _missing(note: Note) -> dict[str, tuple[str, str]]:
    try:
        missing = note.fields["missing"].items()
        return {name: (str(lane), str(why)) for name, (lane, why) in missing}
    except (KeyError, AttributeError, TypeError, ValueError):  # an older version, or nobody's
        return {}
