"""What people say about a cause: that it is settled, and notes for those who come after.

A group that is marked as resolved and kills again is a regression: its newest death is younger than
the mark. The marks are notes named `group:` and the number.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from redrive.desk.maintenance import Upkeep
from redrive.desk.reading import GROUP, Mark, mark_of
from redrive.desk.selection import group_number, no_group
from redrive.jobs.job import Group, State
from redrive.payloads.masking import mask_text
from redrive.stores.contract import Query, note_named


class Causes(Upkeep):
    """Keeps what people say about groups; a `Desk` is one."""

    def mark_group(
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
        number, store = group_number(which), self.keeper.store
        reason, note = mask_text(reason), note and mask_text(note)
        if not store.groups(Query(group=number, states=frozenset(State), limit=1)):
            raise no_group(number)
        act = self._act("mark" if note is None else "note", f"G{number}", reason, actor)
        while True:
            found = note_named(store, f"{GROUP}{number}")
            mark, now = mark_of(found) if found else Mark(), store.now()
            if resolved is not None:
                since = now if at is None else at
                mark = replace(
                    mark, resolved=since if resolved else None, by=act.actor, reason=reason
                )
            if note is not None:
                mark = replace(mark, note=note, noted=now, noted_by=act.actor)
            version = found.version if found else 0
            text = json.dumps(asdict(mark))
            if store.note(f"{GROUP}{number}", text, expected=version, durable=True):
                break
        said = note if note is not None else "resolved" if resolved else "open"
        store.record(replace(act, detail={"said": said}, reason=reason or said))
        return mark
