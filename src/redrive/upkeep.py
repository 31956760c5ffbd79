"""Looking after a store: taking jobs out of it as lines, bringing them back, removing them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from redrive.job import TERMINAL, Act, Job
from redrive.keeping import Keeper
from redrive.stores.base import PurgeRule

if TYPE_CHECKING:
    from redrive._portable import Told

_CHUNK = 10_000


class Upkeep:
    """What keeps a store in order; a `Desk` is one."""

    keeper: Keeper

    def export_lines(self, jobs: Iterable[Job]) -> Iterator[str]:
        """Write jobs as lines of JSON, each with its whole history and payload, as it is now.

        `app.export_lines(app.each(state="dead"))`. Nothing of the payloads is hidden.
        """
        from redrive import _portable  # noqa: PLC0415 - few calls need it

        for found in jobs:
            job = self.keeper.store.get(found.id)
            if job is not None:  # else it was purged meanwhile
                yield _portable.line_of(job)

    def import_lines(
        self,
        lines: Iterable[bytes],
        *,
        dry_run: bool = False,
        source: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Generator[Told]:
        """Keep the jobs of such lines, and tell of each line what became of it, as it is asked for.

        A job that is there already stays as it is, so a repeat changes nothing. What is taken in is
        recorded as one act, also when it is broken off.
        """
        from redrive import _portable  # noqa: PLC0415

        added = left = 0
        try:
            for batch in _portable.stored(self.keeper.store, lines, dry_run=dry_run):
                new = sum(told.fate == "added" for told in batch)
                added, left = added + new, left + len(batch) - new
                yield from batch
        finally:
            if added and not dry_run:
                act = self._act("import", source, reason, actor)
                self.keeper.store.record(replace(act, done=added, skipped=left))

    def purge(
        self, ids: Sequence[str], *, target: str = "", reason: str = "", actor: str | None = None
    ) -> int:
        """Remove exactly these jobs for good, those of them that are finished; gives how many."""
        store, removed = self.keeper.store, 0
        try:
            for start in range(0, len(ids), _CHUNK):
                some = frozenset(ids[start : start + _CHUNK])
                rules = [PurgeRule(state=state, older_than=-inf, ids=some) for state in TERMINAL]
                removed += len(store.purge(rules, limit=len(some)))
        finally:
            if removed:
                act = self._act("purge", target, reason, actor)
                store.record(replace(act, done=removed, skipped=len(ids) - removed))
        return removed

    def migrate(self) -> list[str]:
        """Bring an older store up to this version; gives the steps taken."""
        return self.keeper.store.migrate()

    def check_payload(self, handler: str, payload: str) -> None:
        """Raise BadPayload unless the handler takes it; one that is not registered here takes all."""
        entry = self.keeper.registry.get(handler)
        if entry is not None:
            entry.arguments.load(payload)

    def _act(self, verb: str, target: str, reason: str, actor: str | None) -> Act:
        who = actor or self.keeper.settings.actor
        return Act(actor=who, verb=verb, target=target, reason=reason)
