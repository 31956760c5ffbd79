"""What people say about a cause: that it is settled, and notes for those who come after.

A group that is marked as resolved and kills again is a regression: its newest death is younger than
the mark. The marks are notes named `group:` and the number.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, cast

from redrive.errors import JobNotFound
from redrive.job import Group, State
from redrive.selection import group_number
from redrive.stores.base import Note, Query
from redrive.upkeep import Upkeep

GROUP = "group:"
"""What the names of these notes begin with; the number follows."""

Status = Literal["open", "resolved", "regressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What was said about a group, by whom and when."""

    resolved: float | None = None
    """When it was marked as resolved; None while it is open."""
    by: str = ""
    """A person, or a run such as R12."""
    reason: str = ""
    note: str = ""
    noted: float | None = None
    noted_by: str = ""

    def status(self, last_seen: float | None) -> Status:
        """Say how a group stands whose newest dead job died then."""
        if self.resolved is None:
            return "open"
        return "regressed" if last_seen is not None and last_seen > self.resolved else "resolved"


class Causes(Upkeep):
    """Looks at groups and keeps what people say about them; a `Desk` is one."""

    def group(self, which: int | str | Group) -> Group:
        """Give a group with its dead jobs counted, or with its others where none is dead."""
        number, store = group_number(which), self.keeper.store
        for states in (frozenset({State.DEAD}), frozenset(State)):
            if found := store.groups(Query(group=number, states=states, limit=1)):
                return found[0] if State.PENDING not in states else replace(found[0], jobs=0)
        msg = f"no group G{number}; `redrive groups` shows those there are"
        raise JobNotFound(msg)

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count when the dead died: in the last spans of so many seconds, the oldest span first.

        For each of these groups; without groups, all dead jobs under 0.
        """
        return self.keeper.store.deaths(width, number, groups=groups)

    def group_marks(self) -> dict[int, Mark]:
        """Give what was said about groups, by number."""
        notes = self.keeper.store.notes(GROUP)
        return {int(note.name[len(GROUP) :]): _mark(note) for note in notes}

    def mark_group(
        self,
        which: int | str | Group,
        *,
        resolved: bool | None = None,
        note: str | None = None,
        reason: str = "",
        actor: str | None = None,
    ) -> Mark:
        """Mark a group as resolved or open again, or write a note about it; an empty one removes it."""
        number, store = group_number(which), self.keeper.store
        act = self._act("mark" if note is None else "note", f"G{number}", reason, actor)
        while True:
            found = [
                one for one in store.notes(f"{GROUP}{number}") if one.name == f"{GROUP}{number}"
            ]
            mark, now = _mark(found[0]) if found else Mark(), store.now()
            if resolved is not None:
                at = now if resolved else None
                mark = replace(mark, resolved=at, by=act.actor, reason=reason)
            if note is not None:
                mark = replace(mark, note=note, noted=now, noted_by=act.actor)
            version = found[0].version if found else 0
            text = json.dumps(asdict(mark))
            if store.note(f"{GROUP}{number}", text, expected=version, durable=True):
                break
        said = note if note is not None else "resolved" if resolved else "open"
        store.record(replace(act, detail={"said": said}, reason=reason or said))
        return mark


def _mark(note: Note) -> Mark:
    try:
        value = cast("dict[str, Any]", json.loads(note.value))
        return Mark(**{name: value[name] for name in Mark.__annotations__ if name in value})
    except (ValueError, TypeError):
        return Mark(note=note.value)  # written by somebody else
