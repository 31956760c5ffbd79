"""Reading the signs of life that workers leave; `presence` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from redrive.stores.base import Note, Store

PASS_LASTS = 90_000.0
"""Seconds for which a pass counts: a day and an hour, for those that run once a day."""
WORKER = "worker:"
"""What the names of these notes begin with; the holder follows."""
SERVES = "serves:"
"""Notes about what is served apart from workers: the name of a handler and lane follows."""


def read(note: Note) -> Mapping[str, Any]:
    """Give what a worker's note says; empty if nobody can read it."""
    try:
        value = json.loads(note.value)
    except ValueError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def is_pass(note: Note) -> bool:
    """Whether it was left by a pass over what was due, which has ended; a worker's ends soon."""
    return read(note).get("lasts") == PASS_LASTS


def served(store: Store, what: Literal["handlers", "lanes"]) -> frozenset[str]:
    """Give the handlers or lanes that some worker serves now, or a pass served in the last day."""
    names = {note.name.removeprefix(SERVES) for note in store.notes(SERVES)}
    for note in store.notes(WORKER):
        found = read(note).get(what)
        if isinstance(found, list):
            names.update(str(one) for one in cast("list[object]", found))
    return frozenset(names)
