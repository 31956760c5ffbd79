"""Looking after a store: taking jobs out of it as lines, bringing them back, removing them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import IO, TYPE_CHECKING, Any, TypedDict, Unpack

from redrive.errors import BadPayload
from redrive.jobs import checks
from redrive.jobs.job import TERMINAL, Act, Job
from redrive.payloads.masking import mask_text, secrets_of
from redrive.registry import check_name
from redrive.stores.contract import PurgeRule

if TYPE_CHECKING:
    from redrive.desk.transfer.formats.record import Asked
    from redrive.desk.transfer.importing import Told
    from redrive.submission import Keeper

_CHUNK = 10_000


class Taking(TypedDict, total=False):
    """What `import_lines` may be told."""

    format: str
    asked: Asked | None
    strict: bool
    dry_run: bool
    source: str
    reason: str
    actor: str | None


class Upkeep:
    """What keeps a store in order; a `Desk` is one."""

    keeper: Keeper

    def export_lines(
        self,
        jobs: Iterable[Job],
        *,
        format: str = "redrive",  # noqa: A002 - the word for it
        asked: Asked | None = None,
    ) -> Iterator[str]:
        """Write jobs as lines of JSON, each with its whole history and payload, as it is now.

        `app.export_lines(app.each(state="dead"))`. Nothing of the payloads is hidden. In the format
        of another program, `format="hooks"`, as far as that can hold it.
        """
        from redrive.desk.transfer import job_lines  # noqa: PLC0415 - few calls need it
        from redrive.desk.transfer.formats.detect import OWN, named  # noqa: PLC0415

        whole = self._whole(jobs)
        if format == OWN:
            yield from map(job_lines.line_of, whole)
        else:
            yield from named(format).write(whole, self._asked(asked))

    def _whole(self, jobs: Iterable[Job]) -> Iterator[Job]:
        for found in jobs:
            job = self.keeper.store.get(found.id)
            if job is not None:  # else it was purged meanwhile
                yield job

    def _asked(self, asked: Asked | None) -> Asked:
        from redrive.desk.transfer.formats.record import Asked  # noqa: PLC0415

        settings = self.keeper.settings
        said = asked or Asked()
        if said.handler is not None:
            check_name(said.handler)
        return replace(said, limit=settings.payload_limit, now=settings.clock.now())

    def import_lines(
        self,
        lines: IO[bytes] | Iterable[bytes],
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        asked: Asked | None = None,
        strict: bool = False,
        dry_run: bool = False,
        source: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Generator[Told]:
        """Keep the jobs of a file, and tell of each line what became of it, as it is asked for.

        `lines` is an open file or its lines: an export, or the file of another program. A job that
        is there already stays as it is, so a repeat changes nothing. What is taken in is recorded as
        one act, also when it is broken off.
        """
        from redrive.desk.transfer import importing  # noqa: PLC0415

        store = self.keeper.store
        batches = importing.stored(
            store, lines, self._asked(asked), format=format, dry_run=dry_run, strict=strict
        )
        added = left = 0
        try:
            for batch in batches:
                new = sum(told.fate == "added" for told in batch)
                added, left = added + new, left + len(batch) - new
                yield from batch
        finally:
            if added and not dry_run:
                act = self._act("import", source, reason, actor)
                store.record(replace(act, done=added, skipped=left))

    def import_table(self, url: str, table: str, **said: Unpack[Taking]) -> Generator[Told]:
        """Keep the jobs of a table in a PostgreSQL database; the same otherwise."""
        from redrive.desk.transfer.formats.summaries import rows  # noqa: PLC0415

        source: Any = rows(url, table)
        return self.import_lines(source, **said)

    def purge(
        self, ids: Sequence[str], *, target: str = "", reason: str = "", actor: str | None = None
    ) -> int:
        """Remove exactly these jobs for good, those of them that are finished; gives how many."""
        store, removed, ids = self.keeper.store, 0, checks.texts(ids, "ids")
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
            try:
                entry.arguments.load(payload, stored=False)
            except BadPayload as error:  # may say what was found
                said = mask_text(str(error), secrets_of(payload))
                raise BadPayload(said, field=error.field) from None

    def _act(
        self,
        verb: str,
        target: str,
        reason: str,
        actor: str | None,
        secrets: Sequence[str] = (),
    ) -> Act:
        """Make the record of an action; people write secrets into reasons and selectors, too."""
        who = actor or self.keeper.settings.actor
        text = mask_text(checks.text(reason, "reason"), secrets)
        actor = checks.text(who, "actor")
        return Act(actor=actor, verb=verb, target=mask_text(target), reason=text)
