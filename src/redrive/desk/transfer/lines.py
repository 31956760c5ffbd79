"""Export and import at the desk: jobs as lines of text, ours or another program's."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict, Unpack

from redrive.desk.transfer import importing, job_lines
from redrive.desk.transfer.formats.detect import OWN, named
from redrive.desk.transfer.formats.record import Format, TransferOptions
from redrive.desk.transfer.mapping import FieldMapping, mapped
from redrive.desk.transfer.sources import Source, piece_of, records
from redrive.desk.transfer.sources import rows as table_rows
from redrive.errors import StoreError, UsageError
from redrive.jobs.job import Job
from redrive.jobs.logger import log
from redrive.registry import check_name

if TYPE_CHECKING:
    from redrive.desk.backend import Backend
    from redrive.desk.log import Log
    from redrive.desk.transfer.importing import LineResult


class ImportOptions(TypedDict, total=False):
    """The options of `import_lines`."""

    format: str
    mapping: FieldMapping | None
    asked: TransferOptions | None
    strict: bool
    dry_run: bool
    source: str
    reason: str
    actor: str | None


class Transfer:
    """Writes jobs as lines, and stores the jobs of lines."""

    def __init__(self, backend: Backend, log: Log) -> None:
        self._backend = backend
        self._log = log

    def export_lines(
        self,
        jobs: Iterable[Job | str],
        *,
        format: str = "redrive",  # noqa: A002 - the word for it
        asked: TransferOptions | None = None,
    ) -> Iterator[str]:
        """Write jobs (or ids) as lines of JSON, each with its whole history and payload, as it is now.

        `export_lines(app.desk.jobs.ids(state="dead"))`. Nothing of the payloads is masked: that is
        recorded in the audit log, if the store can be written. In the format of another program,
        `format="hooks"`, as far as that can hold it.
        """
        whole, number = self._whole(jobs), 0
        lines = (
            map(job_lines.line_of, whole)
            if format == OWN
            else named(format).write(whole, self._asked(asked))
        )
        try:
            for line in lines:
                number += 1
                yield line
        finally:
            self._record_export(number, format)

    def _record_export(self, number: int, format_: str) -> None:
        if number:
            try:
                action = self._log.action("export", f"jobs as {format_}")
                self._log.record(replace(action, done=number))
            except StoreError as error:
                log.warning("the export is not in the audit log: %s", error)

    def _whole(self, jobs: Iterable[Job | str]) -> Iterator[Job]:
        for target in jobs if isinstance(jobs, Iterable) else (jobs,):
            if not isinstance(target, Job | str):
                raise UsageError(f"jobs must be a list of jobs; found {type(target).__name__}")
            job = self._backend.store.get(target if isinstance(target, str) else target.id)
            if job is not None:  # else it was purged meanwhile
                yield job

    def _asked(self, asked: TransferOptions | None) -> TransferOptions:
        settings = self._backend.settings
        options = asked or TransferOptions()
        if options.handler is not None:
            check_name(options.handler)
        return replace(options, limit=settings.payload_limit, now=settings.clock.now())

    def import_lines(
        self,
        lines: Source,
        *,
        format: str = "auto",  # noqa: A002 - the word for it
        mapping: FieldMapping | None = None,
        asked: TransferOptions | None = None,
        strict: bool = False,
        dry_run: bool = False,
        source: str = "",
        reason: str = "",
        actor: str | None = None,
    ) -> Generator[LineResult]:
        """Store the jobs of a file, and yield the result of each line, as it is asked for.

        `lines` is an open file or its lines: an export, or the file of another program; with a
        `mapping`, any JSON or CSV. A job that exists already stays as it is, so a repeat changes
        nothing. What is stored is recorded as one action, also when it is broken off.
        """
        store, options = self._backend.store, self._asked(asked)
        reader: str | Format = format
        if mapping is not None:
            if not isinstance(mapping, FieldMapping):
                raise UsageError(f"mapping must be a FieldMapping; found {mapping!r}")
            mapping.check(options.handler)
            lines, reader = mapped(records(lines), mapping), mapping.format()
        batches = importing.stored(
            store, lines, options, format=reader, dry_run=dry_run, strict=strict
        )
        added = left = 0
        try:
            for batch in batches:
                new = sum(line.fate == "added" for line in batch)
                added, left = added + new, left + len(batch) - new
                yield from batch
        finally:
            if added and not dry_run:
                action = self._log.action("import", source, reason, actor)
                store.record(replace(action, done=added, skipped=left))

    def import_rows(
        self, rows: Iterable[Mapping[str, object]], **options: Unpack[ImportOptions]
    ) -> Generator[LineResult]:
        """Store the jobs of rows: `import_rows(rows, mapping=FieldMapping.of(…))`; else the same."""
        pieces = (piece_of(row, number) for number, row in enumerate(rows, 1))
        return self.import_lines(pieces, **options)

    def import_table(
        self, url: str, table: str = "", *, query: str = "", **options: Unpack[ImportOptions]
    ) -> Generator[LineResult]:
        """Store the jobs of a table, or of what a query returns, in PostgreSQL or SQLite."""
        return self.import_lines(table_rows(url, table, query), **options)
