"""Jobs as lines in a file: taken out of one store, brought into another."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import click

from redrive._portable import LONGEST, Told
from redrive.app import Redrive
from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._filters import Selection, explained, selection_of, with_filters
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.job import Job, State

NAMED = 5
"""How many bad lines are shown; the quarantine file has all."""


@command(
    "export",
    "redrive export -o jobs.jsonl",
    "redrive export G7 --state dead -o dead.jsonl",
    "redrive export --handler 'mail.*' | jq .job.id",
)
@with_filters
@click.option("--output", "-o", metavar="FILE", help="A new file, for yourself only (mode 600).")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def export(face: Face, /, output: str | None, *, force: bool, **said: Any) -> None:
    """Write jobs as lines of JSON, each with its whole history and payload.

    Secrets in the payloads are not hidden: `redrive import` needs them.
    """
    selection = selection_of(said)
    if output in {None, "-"}:
        if sys.stdout.isatty():
            msg = "this would show payloads with their secrets on the terminal"
            raise Stop("needs_file", msg, hint="add -o FILE, or use a pipe", exits=USAGE)
        with face.reading() as app, explained(selection):
            for line in app.export_lines(chosen(app, selection)):
                sys.stdout.write(line + "\n")
        return
    place = Path(output or "")
    if place.exists() and not force:
        raise Stop("exists", f"{place} is there already", hint="add --force", exits=CONFLICT)
    with face.reading() as app, explained(selection), _private(place) as file:
        total = sum(count.jobs for count in app.counts()) if selection.is_empty else None
        number = 0
        with face.progress("jobs written", total) as count:
            for line in app.export_lines(chosen(app, selection)):
                file.write(line.encode() + b"\n")
                number += 1
                count(1)
    _exported(face, place, number)


def chosen(app: Redrive, selection: Selection) -> Iterator[Job]:
    """Give the jobs that are meant, each once, whatever their state; without a selection all."""
    if selection.ids:
        yield from {job.id: job for job in map(app.get, selection.ids)}.values()
        return
    filters = selection.filters or {}
    if not selection.groups:
        yield from app.each(**filters)
    for number in dict.fromkeys(selection.groups):
        filters["group"] = number
        yield from app.each(**filters)


def _exported(face: Face, place: Path, number: int) -> None:
    pairs: list[tuple[str, Cell]] = [("exported", number), ("file", str(place))]
    then = f"redrive import {place} --store OTHER" if number else ""
    face.show(View({"exported": number, "file": str(place)}, [Facts(pairs)]), then=then)
    if not number:
        raise click.exceptions.Exit(NOTHING)


@contextmanager
def _private(place: Path) -> Generator[IO[bytes]]:
    """Write a file that only its owner may read; it appears whole and synced, or not at all."""
    part = place.with_name(f"{place.name}.part-{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with os.fdopen(os.open(part, flags, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(place)
    finally:
        part.unlink(missing_ok=True)


@command(
    "import",
    "redrive import jobs.jsonl",
    "redrive import jobs.jsonl --dry-run",
    "redrive import - --store new.db < jobs.jsonl",
)
@click.argument("file", metavar="FILE|-")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken in.")
@click.option("--quarantine", metavar="FILE", help="Where bad lines go.  [default: FILE.bad]")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.pass_obj
def import_(face: Face, file: str, quarantine: str | None, reason: str, *, dry_run: bool) -> None:
    """Bring the jobs of an export in; those that are there already stay as they are.

    A line that cannot be read goes to the quarantine file, with its number, place and what is wrong
    (exit 6). The rest is taken in.
    """
    aside = Path(quarantine or ("import.bad" if file == "-" else f"{file}.bad"))
    fates: Counter[str] = Counter()
    states: Counter[State] = Counter()
    bad: list[Told] = []
    with _opened(file) as source, face.opened(read_only=dry_run) as app, _Aside(aside) as rest:
        told = app.import_lines(_lines(source), dry_run=dry_run, source=file, reason=reason)
        size = None if file == "-" else Path(file).stat().st_size
        with closing(told), face.progress("bytes read", size) as count:
            for one in told:
                fates[one.fate] += 1
                count(len(one.raw))
                if one.fate == "added" and one.state is not None:
                    states[one.state] += 1
                if one.fate == "bad":
                    bad += [one] if len(bad) < NAMED else []
                    if not dry_run:
                        rest.write(one)
    face.show(_imported(fates, states, bad, aside, dry_run=dry_run), then="redrive status")
    if fates["bad"]:
        raise click.exceptions.Exit(PARTLY)


@contextmanager
def _opened(file: str) -> Generator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as source:
        yield source


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Give lines; one that is too long for a job comes in pieces, each of them bad."""
    return iter(partial(source.readline, LONGEST + 1), b"")


class _Aside(ExitStack):
    """The quarantine file, made when the first line goes there."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self._place = place
        self._file: IO[bytes] | None = None

    def write(self, told: Told) -> None:
        """Put a line aside."""
        self._file = self._file or self.enter_context(_private(self._place))
        value = {
            "line": told.number,
            "offset": told.offset,
            "reason": told.reason,
            "text": told.raw.decode("utf-8", "surrogateescape").rstrip("\r\n"),
        }
        self._file.write(json.dumps(value).encode() + b"\n")


def _imported(
    fates: Counter[str], states: Counter[State], bad: list[Told], aside: Path, *, dry_run: bool
) -> View:
    where = None if dry_run or not bad else str(aside)
    data = {
        "dry_run": dry_run,
        "added": fates["added"],
        "known": fates["known"],
        "bad": fates["bad"],
        "states": {state.value: states[state] for state in State if states[state]},
        "quarantine": where,
    }
    word = "would be added" if dry_run else "added"
    pairs: list[tuple[str, Cell]] = [
        (word, fates["added"]),
        *((f"  {state}", states[state]) for state in State if states[state]),
        ("there already", fates["known"]),
        ("bad lines", fates["bad"]),
    ]
    parts: list[Part] = [Facts([*pairs, ("quarantine", where)] if where else pairs)]
    if bad:
        more = fates["bad"] - len(bad)
        rows: list[list[Cell]] = [[one.number, one.offset, one.reason] for one in bad]
        heads = columns("line:number", "offset:number", "reason")
        parts.append(Table(heads, rows, "Bad lines", "bad"))
        parts += [Line(f"and {more:,} more", "warn")] if more else []
    return View(data, parts)
