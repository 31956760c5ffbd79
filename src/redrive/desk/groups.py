"""Groups: dead jobs with one cause, what people note about them, and when they died.

A group that is marked as resolved and kills again has regressed: its newest death is younger than the
mark. The marks are notes named `group:` and the number.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, cast

from redrive.desk import search
from redrive.desk.selection import Filters, Target, group_number, no_group, read
from redrive.jobs import checks
from redrive.jobs.job import Group, State
from redrive.payloads.masking import mask_text
from redrive.stores.contract import Note, Query, Scope, note_named

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log

GROUP = "group:"
"""What the names of these notes begin with; the number follows."""

Status = Literal["open", "resolved", "regressed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What people noted about a group, who and when."""

    resolved: float | None = None
    """When it was marked as resolved; None while it is open."""
    by: str = ""
    """A person, or a run such as R12."""
    reason: str = ""
    note: str = ""
    noted: float | None = None
    noted_by: str = ""

    def status(self, last_seen: float | None) -> Status:
        """Return the status of a group whose newest dead job died at `last_seen`."""
        if self.resolved is None:
            return "open"
        return "regressed" if last_seen is not None and last_seen > self.resolved else "resolved"


class GroupPage(NamedTuple):
    """Groups, the largest first, and how far was searched where no index answers."""

    groups: list[Group]
    scope: Scope | None


class Groups:
    """Reads groups, and keeps what people note about them."""

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def find(
        self,
        *words: Target,
        limit: int = 100,
        reveal: bool = True,
        **filters: Unpack[Filters],
    ) -> list[Group]:
        """Return the groups of dead jobs (or of those that are selected), the largest first."""
        return self.page(*words, limit=limit, reveal=reveal, **filters).groups

    def page(
        self,
        *words: Target,
        limit: int = 100,
        reveal: bool = True,
        **filters: Unpack[Filters],
    ) -> GroupPage:
        """Return the same, with how far was searched; `reveal` is as in `jobs.find`."""
        checks.whole(limit, "limit", least=1)
        wanted = read(words, filters, reveal=reveal)
        return GroupPage(*search.groups(self._backend.store, wanted, limit))

    def get(self, which: int | str | Group) -> Group:
        """Return a group with its dead jobs counted, or with its others where none is dead."""
        number, store = group_number(which), self._backend.store
        for states in (frozenset({State.DEAD}), frozenset(State)):
            if groups := store.groups(Query(group=number, states=states, limit=1)):
                return groups[0] if State.PENDING not in states else replace(groups[0], jobs=0)
        raise no_group(number)

    def deaths(
        self, width: float, number: int, *, groups: Collection[int] | None = None
    ) -> dict[int, list[int]]:
        """Count deaths in the last `number` spans of `width` seconds, the oldest span first.

        For each of these groups; without groups, all dead jobs under 0.
        """
        return self._backend.store.deaths(width, number, groups=groups)

    def marks(self) -> dict[int, Mark]:
        """Return what people noted about groups, by number."""
        notes = self._backend.store.notes(GROUP)
        return {int(note.name[len(GROUP) :]): _mark_of(note) for note in notes}

    def mark(
        self,
        which: int | str | Group,
        *,
        resolved: bool | None = None,
        note: str | None = None,
        reason: str = "",
        actor: str | None = None,
        at: float | None = None,
    ) -> Mark:
        """Mark a group as resolved or open again, or write a note about it; an empty one removes it.

        What dies of it after `at` is a regression; None is now. JobNotFound if no job is of it.
        """
        number, store = group_number(which), self._backend.store
        reason, note = mask_text(reason), note and mask_text(note)
        if not store.groups(Query(group=number, states=frozenset(State), limit=1)):
            raise no_group(number)
        action = self._log.action("mark" if note is None else "note", f"G{number}", reason, actor)
        while True:
            known = note_named(store, f"{GROUP}{number}")
            mark, now = _mark_of(known) if known else Mark(), store.now()
            if resolved is not None:
                since = (now if at is None else at) if resolved else None
                mark = replace(mark, resolved=since, by=action.actor, reason=reason)
            if note is not None:
                mark = replace(mark, note=note, noted=now, noted_by=action.actor)
            text, version = json.dumps(asdict(mark)), known.version if known else 0
            if store.note(f"{GROUP}{number}", text, expected=version, durable=True):
                break
        said = note if note is not None else "resolved" if resolved else "open"
        store.record(replace(action, detail={"said": said}, reason=reason or said))
        return mark


def _mark_of(note: Note) -> Mark:
    try:
        value = cast("dict[str, Any]", json.loads(note.value))
        return Mark(**{name: value[name] for name in Mark.__annotations__ if name in value})
    except (ValueError, TypeError):
        return Mark(note=note.value)  # another program wrote it
