"""Groups: dead jobs with one cause, what people note about them, and when they died."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Unpack

from redrive.desk import search
from redrive.desk.selection import Filters, Target, group_number, no_group, read
from redrive.jobs import checks, durations, group_marks
from redrive.jobs.group_marks import PREFIX, Mark
from redrive.jobs.job import Group, State
from redrive.payloads.masking import mask_text
from redrive.stores.contract import Query, Scope
from redrive.stores.note_verbs import note_named

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log


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
        checks.whole(number, "number", least=1, most=100_000)
        width = durations.positive(width, name="width")
        return self._backend.store.deaths(width, number, groups=groups)

    def marks(self) -> dict[int, Mark]:
        """Return what people noted about groups, by number."""
        notes = self._backend.store.notes(PREFIX)
        return {int(note.name[len(PREFIX) :]): group_marks.load(note.value) for note in notes}

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
        reason = mask_text(checks.text(reason, "reason"))
        note = None if note is None else mask_text(checks.text(note, "note"))
        if not store.groups(Query(group=number, states=frozenset(State), limit=1)):
            raise no_group(number)
        action = self._log.action("mark" if note is None else "note", f"G{number}", reason, actor)
        while True:
            known, now = note_named(store, f"{PREFIX}{number}"), store.now()
            mark = group_marks.load(known.value) if known else Mark()
            if resolved is not None:
                since = (now if at is None else at) if resolved else None
                mark = replace(mark, resolved=since, by=action.actor, reason=reason)
            if note is not None:
                mark = replace(mark, note=note, noted=now, noted_by=action.actor)
            version = known.version if known else 0
            if store.note(f"{PREFIX}{number}", mark.dump(), expected=version, durable=True):
                break
        change = note if note is not None else "resolved" if resolved else "open"
        store.record(replace(action, detail={"said": change}, reason=reason or change))
        return mark
