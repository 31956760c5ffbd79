"""The part of the store contract about notes: small values that processes share.

Notes expire by the wall clock: they are seconds to minutes long, or removed by a person. A live note
named `pause:<lane>` keeps the jobs of that lane from being claimed.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, cast

PAUSE = "pause:"  # notes whose name starts so keep a lane from being claimed


class Note(NamedTuple):
    """A small shared value: a pause, a heartbeat, whose turn it is."""

    name: str
    value: str
    version: int
    """Grows with every write; 0 stands for "there is none"."""
    expires_in: float | None = None
    """Seconds left, by the store's clock; None is for ever."""

    @property
    def fields(self) -> dict[str, Any]:
        """The members of the JSON object in it; none if it holds anything else."""
        try:
            value: object = json.loads(self.value)
        except (ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class NoteVerbs(ABC):
    """What a store can do with notes."""

    @abstractmethod
    def notes(self, prefix: str = "") -> list[Note]:
        """Return the live notes whose name starts so, by name."""

    @abstractmethod
    def note(
        self,
        name: str,
        value: str | None,
        *,
        expected: int | None = None,
        expires_in: float | None = None,
        durable: bool = False,
    ) -> Note | None:
        """Write a note (None removes it), only if its version is still `expected` when given.

        Gives the note as written (version 0 when removed), or None if the version had moved on.
        """


def note_named(store: NoteVerbs, name: str) -> Note | None:
    """Return the note of exactly this name; `notes` returns all that begin with it."""
    return next((note for note in store.notes(name) if note.name == name), None)
