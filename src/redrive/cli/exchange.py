"""Jobs as lines in a file: taken out of one store, brought into another."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cache
from pathlib import Path
from typing import IO, Any

import click

from redrive._intake import AUTO, Told
from redrive.app import Redrive
from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._filters import Selection, explained, selection_of, with_filters
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.exchange.detect import FORMATS, OWN
from redrive.exchange.quarantine import Quarantine, private
from redrive.exchange.record import Asked
from redrive.exchange.times import Zone, no_zone, zone_of
from redrive.job import Job, State

NAMED = 5
"""How many bad lines are shown; the quarantine file has all."""


@command(
    "export",
    "redrive export -o jobs.jsonl",
    "redrive export G7 --state dead -o dead.jsonl",
    "redrive export --handler 'mail.*' | jq .job.id",
    "redrive export --handler hook.post --format hooks -o hooks.jsonl",
)
@with_filters
@click.option(
    "--format",
    "format_",
    type=click.Choice([OWN, *FORMATS]),
    default=OWN,
    show_default=True,
    help="Whose lines; another program's hold only a part.",
)
@click.option("--assume-tz", metavar="ZONE", help="For times that name none, as Asia/Tokyo.")
@click.option("--output", "-o", metavar="FILE", help="A new file, for yourself only (mode 600).")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def export(
    face: Face,
    /,
    output: str | None,
    format_: str,
    assume_tz: str | None,
    *,
    force: bool,
    **said: Any,
) -> None:
    """Write jobs as lines of JSON, each with its whole history and payload.

    Secrets in the payloads are not hidden: `redrive import` needs them. In the format of another
    program goes out what it can hold; jobs that it cannot hold are left out, and counted.
    """
    selection = selection_of(said)
    left: Counter[str] = Counter()
    asked = Asked(zone=_zone(assume_tz), skip=lambda _, why: left.update([why]))
    if output in {None, "-"}:
        if sys.stdout.isatty():
            msg = "this would show payloads with their secrets on the terminal"
            raise Stop("needs_file", msg, hint="add -o FILE, or use a pipe", exits=USAGE)
        with face.reading() as app, explained(selection):
            for line in app.export_lines(chosen(app, selection), format=format_, asked=asked):
                sys.stdout.write(line + "\n")
        _say_left(face, left, format_)
        return
    place = Path(output or "")
    if place.exists() and not force:
        raise Stop("exists", f"{place} is there already", hint="add --force", exits=CONFLICT)
    with face.reading() as app, explained(selection), private(place) as file:
        total = sum(count.jobs for count in app.counts()) if selection.is_empty else None
        number = 0
        with face.progress("jobs written", total) as count:
            for line in app.export_lines(
                _counted(chosen(app, selection), count), format=format_, asked=asked
            ):
                file.write(line.encode() + b"\n")
                number += 1
    _say_left(face, left, format_)
    _exported(face, place, number)


def _counted(jobs: Iterable[Job], count: Callable[[int], None]) -> Iterator[Job]:
    for job in jobs:
        yield job
        count(1)


def _say_left(face: Face, left: Counter[str], format_: str) -> None:
    for why, number in left.most_common(NAMED):
        face.say(f"left out, for {format_} cannot hold them: {number:,} ({why})")


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


@command(
    "import",
    "redrive import jobs.jsonl",
    "redrive import jobs.jsonl --dry-run",
    "redrive import - --store new.db < jobs.jsonl",
    "redrive import retry_queue.json --assume-tz Asia/Tokyo",
    "redrive import --table summarize_job_queue --from postgresql://host/shop",
)
@click.argument("file", metavar="[FILE|-]", required=False)
@click.option(
    "--format",
    "format_",
    type=click.Choice([AUTO, OWN, *FORMATS]),
    default=AUTO,
    show_default=True,
    help="Whose records; each is known by its shape.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be taken in.")
@click.option("--strict", is_flag=True, help="All or nothing: one bad line, and none is taken in.")
@click.option("--assume-tz", metavar="ZONE", help="For times that name none, as Asia/Tokyo.")
@click.option("--handler", metavar="NAME", help="Who runs them, instead of the format's usual one.")
@click.option(
    "--endpoint", "endpoints", multiple=True, metavar="URL", help="Where hooks may go; repeatable."
)
@click.option("--table", metavar="NAME", help="A table of jobs, instead of a file.")
@click.option("--from", "database", metavar="URL", help="Its database.  [default: the store]")
@click.option("--quarantine", metavar="FILE", help="Where bad lines go.  [default: FILE.bad]")
@click.option("--reason", default="", metavar="TEXT", help="Why; kept with the act.")
@click.pass_obj
def import_(
    face: Face,
    /,
    *,
    file: str | None,
    format_: str,
    endpoints: tuple[str, ...],
    table: str | None,
    database: str | None,
    assume_tz: str | None,
    quarantine: str | None,
    dry_run: bool,
    **said: Any,
) -> None:
    """Bring jobs in: of an export, of a file of another program, or of a table of jobs.

    A store that is not there is made, for yourself only. Each record is known by its shape. Jobs that
    are there already stay as they are. A record that cannot be read goes to the quarantine file, with
    its line, place and what is wrong (exit 6). The rest is taken in, unless it is `--strict`. Hooks are only sent to the URLs of endpoints in
    `redrive.toml` and to those named by `--endpoint`; with another URL they are dead letters.
    """
    if (file is None) == (table is None):
        raise click.UsageError("give a FILE, or - for standard input, or a --table")
    source = file or str(table)
    aside = Path(quarantine or ("import.bad" if file == "-" else f"{source}.bad"))
    asked = Asked(
        handler=said.pop("handler"),
        zone=_zone(assume_tz),
        endpoints={*endpoints, *_configured(face)},
    )
    taking: dict[str, Any] = {"asked": asked, "dry_run": dry_run, "source": source, **said}
    with (
        _opened(file or os.devnull) as opened,
        face.opened(create=not dry_run, read_only=dry_run) as app,
    ):
        if table is not None:
            told = app.import_table(
                database or face.config.store, table, format="summaries", **taking
            )
        else:
            told = app.import_lines(opened, format=format_, **taking)
        tally = _tally(face, told, _size(file), Quarantine(aside), dry_run=dry_run)
    face.show(_imported(tally, aside, dry_run=dry_run), then="redrive status")
    if tally.fates["bad"]:
        raise click.exceptions.Exit(PARTLY)


@dataclass(slots=True)
class _Tally:
    """What became of the records."""

    fates: Counter[str] = field(default_factory=Counter[str])
    states: Counter[State] = field(default_factory=Counter[State])
    bad: list[Told] = field(default_factory=list[Told])


def _tally(
    face: Face, told: Generator[Told], size: int | None, rest: Quarantine, *, dry_run: bool
) -> _Tally:
    """Take everything in, and put aside what is bad."""
    tally = _Tally()
    what = "records read" if size is None else "bytes read"
    with rest, closing(told), face.progress(what, size) as count:
        for one in told:
            tally.fates[one.fate] += 1
            count(1 if size is None else len(one.raw))
            if one.fate == "added" and one.state is not None:
                tally.states[one.state] += 1
            if one.fate == "bad":
                tally.bad += [one] if len(tally.bad) < NAMED else []
                if not dry_run:
                    rest.put(one.number, one.offset, one.reason, one.raw)
    return tally


def _size(file: str | None) -> int | None:
    return None if file in {None, "-"} else Path(str(file)).stat().st_size


def _configured(face: Face) -> list[str]:
    """Give the URLs of the endpoints that the configuration names."""
    return [str(one["url"]) for one in face.config.endpoints.values() if one.get("url")]


def _zone(said: str | None) -> Zone:
    """Give the zone that was named; or else ask for it, once, where there is somebody to ask."""
    if said is not None:
        zone = zone_of(said)
        return lambda: zone
    return cache(_ask_zone)


def _ask_zone() -> tzinfo:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return no_zone()
    question = "Times name no zone. Which one is meant (as Asia/Tokyo, UTC or local)?"
    return zone_of(click.prompt(question, err=True))


@contextmanager
def _opened(file: str) -> Generator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as source:
        yield source


def _imported(tally: _Tally, aside: Path, *, dry_run: bool) -> View:
    fates, states = tally.fates, tally.states
    where = None if dry_run or not tally.bad else str(aside)
    data = {
        "dry_run": dry_run,
        "added": fates["added"],
        "known": fates["known"],
        "folded": fates["folded"],
        "left": fates["left"],
        "bad": fates["bad"],
        "states": {state.value: states[state] for state in State if states[state]},
        "quarantine": where,
    }
    word = "would be added" if dry_run else "added"
    pairs: list[tuple[str, Cell]] = [
        (word, fates["added"]),
        *((f"  {state}", states[state]) for state in State if states[state]),
        ("there already", fates["known"]),
    ]
    if fates["folded"]:
        pairs.append(("more lines about them", fates["folded"]))
    if fates["left"]:
        pairs.append(("left out", fates["left"]))
    pairs.append(("bad lines", fates["bad"]))
    parts: list[Part] = [Facts([*pairs, ("quarantine", where)] if where else pairs)]
    if tally.bad:
        more = fates["bad"] - len(tally.bad)
        rows: list[list[Cell]] = [[one.number, one.offset, one.reason] for one in tally.bad]
        heads = columns("line:number", "offset:number", "reason")
        parts.append(Table(heads, rows, "Bad lines", "bad"))
        parts += [Line(f"and {more:,} more", "warn")] if more else []
    return View(data, parts)
