"""Groups: dead jobs with one cause, what people note about them, and when they died."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Unpack

from redrive.desk import search
from redrive.desk.search import Target, read
from redrive.desk.selectors import Filters, group_number
from redrive.jobs import checks
from redrive.jobs.groups import GroupRecord, Span
from redrive.jobs.job import Group, State
from redrive.payloads.masked_jobs import seen_group, seen_record
from redrive.payloads.masking import mask_text
from redrive.stores.contract import Query, Scope
from redrive.stores.refusals import no_group

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

    def find(self, *words: Target, limit: int = 100, **filters: Unpack[Filters]) -> list[Group]:
        """Return the groups of dead jobs (or of those that are selected), the largest first."""
        return self.page(*words, limit=limit, **filters).groups

    def page(self, *words: Target, limit: int = 100, **filters: Unpack[Filters]) -> GroupPage:
        """Return the same, with how far was searched."""
        checks.whole(limit, "limit", least=1)
        groups, scope = search.groups(self._backend.store, read(words, filters), limit)
        return GroupPage(list(map(seen_group, groups)), scope)

    def get(self, which: int | str | Group) -> Group:
        """Return a group with its dead jobs counted, or with its others where none is dead."""
        number, store = group_number(which), self._backend.store
        for states in (frozenset({State.DEAD}), frozenset(State)):
            if groups := store.groups(Query(group=number, states=states, limit=1)):
                group = seen_group(groups[0])
                return group if State.PENDING not in states else replace(group, jobs=0)
        raise no_group(number)

    def deaths(self, span: Span, number: int, groups: Collection[int]) -> dict[int, list[int]]:
        """Return the deaths of each of these groups in the last `number` minutes (60) or hours (3600).

        The oldest comes first. Jobs that were retried or purged since count too.
        """
        return self._backend.store.group_curve(*checks.curve(span, number), groups)

    def records(self, numbers: Collection[int] | None = None) -> dict[int, GroupRecord]:
        """Return what is stored of these groups beside their jobs, or of all, by number."""
        records = self._backend.store.group_records(numbers)
        return {number: seen_record(record) for number, record in records.items()}

    def mark(
        self,
        which: int | str | Group,
        *,
        resolved: bool | None = None,
        note: str | None = None,
        reason: str = "",
        actor: str | None = None,
        at: float | None = None,
    ) -> GroupRecord:
        """Mark a group as resolved or open again, or write a note about it; an empty one removes it.

        What dies of it after `at` is a regression; None is now. JobNotFound if there is no such group.
        """
        number, store = group_number(which), self._backend.store
        secrets = search.secrets_in(store, Query(group=number)) if reason or note else ()
        reason = mask_text(checks.text(reason, "reason"), secrets)
        note = None if note is None else mask_text(checks.text(note, "note"), secrets)
        action = self._log.action("mark" if note is None else "note", f"G{number}", reason, actor)
        change = note if note is not None else "resolved" if resolved else "open"
        changes: dict[str, object] = {}
        if resolved is not None:
            since = (store.now() if at is None else at) if resolved else None
            changes |= {"resolved": since, "resolved_by": action.actor, "reason": reason}
        if note is not None:
            changes |= {"note": note, "noted": store.now(), "noted_by": action.actor}
        action = replace(action, detail={"said": change}, reason=reason or change)
        while True:
            known = store.group_records([number]).get(number)
            if known is None:
                raise no_group(number)
            record = store.change_group(number, changes, action, expected=known.version)
            if record is not None:
                return seen_record(record)
