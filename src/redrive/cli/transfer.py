"""Export and import: jobs to a file and back, and the rows of other programs as jobs."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, count
from pathlib import Path
from typing import IO, Any, get_args

import click

from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._command import command, option
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._filters import chosen, explained, with_selectors
from redrive.cli._load import find_function
from redrive.cli.output import Facts, Field, Line, Table, View, fields
from redrive.desk.importing import Fate, Result, rows_of_file, rows_of_query
from redrive.desk.transfer import importer_of
from redrive.errors import StoreError, StoreForeign, StoreMissing
from redrive.jobs.job import Job, State
from redrive.payloads.masked_jobs import seen
from redrive.payloads.masking import mask_json

NAMED = 5  # how many bad rows and samples are shown


@command(
    "export",
    "redrive export -o jobs.jsonl",
    "redrive export G7 state:dead -o dead.jsonl",
    "redrive export 'handler:mail.*' | jq .job.id",
)
@with_selectors
@option("--output -o FILE", "A new file, readable by you alone (mode 600).")
@option("--force", "Overwrite an existing file.")
@click.pass_obj
def export(cli: Cli, /, selectors: tuple[str, ...], output: str | None, *, force: bool) -> None:
    """Write jobs as lines of JSON, each with its whole history and payload.

    Secrets in the payloads are not masked: `redrive import` needs them.
    """
    selection = chosen(selectors)
    place = None if output in {None, "-"} else Path(output or "")
    if place is None and sys.stdout.isatty():
        msg = "this would show payloads with their secrets on the terminal"
        raise Stop("needs_file", msg, hint="add -o FILE, or use a pipe", exits=USAGE)
    if place and place.exists() and not force:
        raise Stop("exists", f"{place} exists already", hint="add --force", exits=CONFLICT)
    number = 0
    with _exporting(cli) as app, explained(selection.ids), _written(place) as write:
        total = sum(count.jobs for count in app.desk.jobs.counts()) if selection.is_empty else None
        with cli.progress("jobs written", total) as done:
            for line in app.desk.transfer.export_lines(app.desk.jobs.ids(selection)):
                write(line + "\n")
                number += 1
                done(1)
    if place is None:
        return
    data = {"exported": number, "file": str(place)}
    then = f"redrive import {place} --store OTHER" if number else ""
    cli.show(View(data, [Facts(fields("exported file"), data)]), then=then)
    if not number:
        raise click.exceptions.Exit(NOTHING)


@contextmanager
def _exporting(cli: Cli) -> Generator[Redrive]:
    """Open the store so that the export is recorded in it; read-only if it cannot be written."""
    with ExitStack() as stack:
        try:
            app = stack.enter_context(cli.opened())
        except (StoreMissing, StoreForeign):
            raise
        except (StoreError, OSError) as error:
            cli.say(f"this export is not in the audit log: {error}")
            app = stack.enter_context(cli.opened(read_only=True))
        yield app


@contextmanager
def _written(place: Path | None) -> Generator[Callable[[str], object]]:
    """Write a private file, which appears whole and synced or not at all; or standard output."""
    if place is None:
        yield sys.stdout.write
        return
    part = place.with_name(f"{place.name}.part")
    part.unlink(missing_ok=True)
    with _private(part) as file:
        try:
            yield lambda text: file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
            part.replace(place)
        except BaseException:
            part.unlink()
            raise


def _private(place: Path) -> IO[bytes]:
    """Create a file that only its owner may read; FileExistsError if there is one."""
    return os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


@command(
    "import",
    "redrive import jobs.jsonl",
    "redrive import orders.csv --with shop.old:to_job --dry-run",
    "redrive import hooks.jsonl --with redrive.contrib.formats:hooks",
    "redrive import --query 'SELECT * FROM mails' --from postgresql://host/shop --with old:to_job",
)
@click.argument("file", metavar="[FILE|-]", required=False)
@option("--with MODULE:FUNCTION", "The function that makes a job of a row.", name="function")
@option("--query SQL", "Import what a query returns; it is run read-only.")
@option("--from URL", "The database of the query.  [default: the store]", name="database")
@option("--name NAME", "Put NAME: before each key.", default="")
@option("--dry-run", "Only show what would be imported.")
@option("--quarantine FILE", "A new file for bad rows.  [default: FILE.bad]")
@click.pass_obj
def import_(cli: Cli, /, *, file: str | None, name: str, dry_run: bool, **options: Any) -> None:
    """Import jobs from an export, or make jobs of the rows of any file or query.

    A file is CSV or TSV with a line of names, JSON, or JSON Lines, by its suffix; `-` is JSON Lines.
    The function of --with takes a row and returns a dict with key, handler, payload and more, or None to
    leave the row out: see docs/import.md. A missing store is created. Jobs whose key is stored already
    stay as they are, so a repeat adds nothing. Bad rows are written to a file with the reason; the
    others are imported (exit 6).
    """
    query, quarantine = options["query"], options["quarantine"]
    if (file is None) is (query is None):
        raise click.UsageError("name a file, or a query with --query")
    if options["function"] is None and (query or name):
        raise click.UsageError("name the function that makes a job of a row with --with")
    if quarantine and os.path.lexists(quarantine):
        raise Stop("exists", f"{quarantine} exists already", hint="name another", exits=CONFLICT)
    function = find_function(options["function"]) if options["function"] else None
    place = Path(re.sub(r"\.bad(-\d+)?$", "", file or "import") if file != "-" else "import")
    tally = _Tally(quarantine, place, dry_run=dry_run)
    about: dict[str, Any] = {"dry_run": dry_run, "source": file or "query"}
    with ExitStack() as stack:
        stream = sys.stdin.buffer
        if file not in {None, "-"}:
            stream = stack.enter_context(Path(str(file)).open("rb"))
        lines = iter(()) if function else _own_lines(stream, str(file))
        app = stack.enter_context(_looking(cli) if dry_run else cli.opened(create=True))
        if function is None:
            results = app.desk.transfer.import_lines(lines, **about)
        else:
            database = options["database"] or cli.config.store
            rows = (
                rows_of_query(database, query)
                if query
                else rows_of_file(stream, Path(str(file)).suffix)
            )
            results = app.desk.transfer.import_rows(rows, function, name=name, **about)
        stack.callback(tally.close)
        with cli.progress("rows read", None) as done:
            for result in results:
                tally.take(result)
                done(1)
    cli.show(tally.view(), then="redrive status")
    if tally.fates["bad"]:
        raise click.exceptions.Exit(PARTLY)


def _own_lines(stream: IO[bytes], file: str) -> Iterator[bytes]:
    """Return the lines of an export; another file is refused before anything is stored."""
    first = stream.readline()
    if first.strip() and not re.search(rb'"redrive": ?\d|^{"row": .*, "record": "', first):
        known = importer_of(first + stream.read(4096))
        msg = f"{file} is not an export of Redrive"
        raise Stop("no_function", msg, hint=f"add --with {known}", exits=USAGE)
    return chain([first], stream)


@contextmanager
def _looking(cli: Cli) -> Generator[Redrive]:
    """Open the store to read it; a missing one is replaced by an empty one in memory."""
    with ExitStack() as stack:
        try:
            app = stack.enter_context(cli.opened(read_only=True))
        except (StoreMissing, StoreForeign):
            app = stack.enter_context(Redrive("memory:", clock=cli.clock))
        yield app


class _Tally:
    """Counts what became of the rows, and writes bad ones to a file."""

    def __init__(self, quarantine: str | None, source: Path, *, dry_run: bool) -> None:
        self.fates = Counter[Fate]()
        self._states = Counter[State]()
        self._bad: list[Result] = []
        self._samples: list[tuple[int, Job]] = []
        self._dry_run = dry_run
        names = (f"{source}.bad{f'-{number}' if number else ''}" for number in count())
        self._names = iter([quarantine] if quarantine else names)
        self._place: str | None = None
        self._file: IO[bytes] | None = None

    def take(self, result: Result) -> None:
        """Count a row."""
        self.fates[result.fate] += 1
        if result.fate == "added" and result.job is not None:
            self._states[result.job.state] += 1
            if self._dry_run and len(self._samples) < NAMED:
                self._samples.append((result.number, seen(result.job)))
        elif result.fate == "bad":
            self._bad += [result] if len(self._bad) < NAMED else []
            if not self._dry_run:
                self._write(result)

    def _write(self, result: Result) -> None:
        while self._file is None:
            self._place = next(self._names)
            try:
                self._file = _private(Path(self._place))
            except FileExistsError:
                continue
        value = {"row": result.number, "reason": result.reason, "record": result.row}
        text = json.dumps(value, ensure_ascii=False, default=str, skipkeys=True)
        self._file.write(_UNSAFE.sub(_escaped, text).encode() + b"\n")

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def view(self) -> View:
        """Return the numbers, some bad rows, and in a dry run some jobs as they would be."""
        bad = [{"row": one.number, "reason": one.reason} for one in self._bad]
        samples = [
            {
                "row": number,
                "key": job.key,
                "state": job.state,
                "handler": job.handler,
                "attempts": job.attempts,
                "error": job.failure.message if job.failure else None,
                "payload": mask_json(job.payload),
            }
            for number, job in self._samples
        ]
        data = {
            "dry_run": self._dry_run,
            **{fate: self.fates[fate] for fate in get_args(Fate)},
            "states": {state.value: number for state, number in sorted(self._states.items())},
            "quarantine": self._place,
            "bad_rows": bad,
            "samples": samples,
        }
        shown = [
            Field("added", "would be added" if self._dry_run else "added"),
            *(Field(f"states.{state}", f"  {state}") for state in sorted(self._states)),
            *fields("known skipped bad"),
            *(fields("quarantine") if self._place else []),
        ]
        more = self.fates["bad"] - len(bad)
        return View(
            data,
            [
                Facts(shown, data),
                Table(fields("row:number reason:prose"), bad, "Bad rows", "bad"),
                *([Line(f"and {more:,} more", "warn")] if more else []),
                Table(
                    fields("row:number key:main state:word handler attempts:number error payload"),
                    samples,
                    "Samples",
                    "sample",
                ),
            ],
        )


_UNSAFE = re.compile(r"[^\x20-\x7e]")


def _escaped(match: re.Match[str]) -> str:
    """Leave letters of all languages as they are, and escape what could drive a terminal."""
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]
