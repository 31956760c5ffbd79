"""Jobs as lines in a file: taken out of one store, brought into another."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import tzinfo
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, TypeVar

import click

from redrive.app import Redrive
from redrive.cli._command import command
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._face import Face
from redrive.cli._filters import Selection, explained, selection_of, with_filters
from redrive.cli._known_handlers import NAMED, Handlers, Unserved, handlers_of, named, refuse
from redrive.cli.output import Cell, Facts, Line, Part, Table, View, columns
from redrive.desk.desk import Desk
from redrive.desk.transfer.formats.detect import FORMATS, OWN
from redrive.desk.transfer.formats.quarantine import Quarantine, private
from redrive.desk.transfer.formats.record import Asked
from redrive.desk.transfer.formats.times import Zone, no_zone, zone_of
from redrive.desk.transfer.importing import AUTO, Told
from redrive.errors import StoreError, StoreForeign, StoreMissing
from redrive.jobs.job import State

T = TypeVar("T")


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
@click.option("--app", "app_name", metavar="MODULE:APP", help="The program that knows endpoints.")
@click.option("--output", "-o", metavar="FILE", help="A new file, for yourself only (mode 600).")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@click.pass_obj
def export(
    face: Face,
    /,
    output: str | None,
    format_: str,
    assume_tz: str | None,
    app_name: str | None,
    *,
    force: bool,
    **said: Any,
) -> None:
    """Write jobs as lines of JSON, each with its whole history and payload.

    Secrets in the payloads are not hidden: `redrive import` needs them. In the format of another
    program goes out what it can hold; jobs that it cannot hold are left out and counted (exit 6).
    Times without a zone are written as local ones, or in the zone of `--assume-tz`. Jobs of an
    endpoint need its URL for the format `hooks`: from `redrive.toml`, or from the program of `--app`.
    """
    selection = selection_of(said)
    left: Counter[str] = Counter()
    zone = None if assume_tz is None else _zone(assume_tz)
    urls = handlers_of(face, app_name).urls if format_ == "hooks" else {}
    asked = Asked(zone=zone, urls=urls, skip=lambda _, why: left.update([why]))
    if output in {None, "-"}:
        if sys.stdout.isatty():
            msg = "this would show payloads with their secrets on the terminal"
            raise Stop("needs_file", msg, hint="add -o FILE, or use a pipe", exits=USAGE)
        with _exporting(face) as app, explained(selection):
            for line in app.desk.transfer.export_lines(
                chosen(app.desk.jobs.ids, selection), format=format_, asked=asked
            ):
                sys.stdout.write(line + "\n")
        _say_left(face, left, format_)
        return
    place = Path(output or "")
    if place.exists() and not force:
        raise Stop("exists", f"{place} is there already", hint="add --force", exits=CONFLICT)
    with _exporting(face) as app, explained(selection), private(place) as file:
        total = sum(count.jobs for count in app.desk.jobs.counts()) if selection.is_empty else None
        number = 0
        with face.progress("jobs written", total) as count:
            for line in app.desk.transfer.export_lines(
                _counted(chosen(app.desk.jobs.ids, selection), count), format=format_, asked=asked
            ):
                file.write(line.encode() + b"\n")
                number += 1
    _exported(face, place, number)
    _say_left(face, left, format_)
    if not number:
        raise click.exceptions.Exit(NOTHING)


@contextmanager
def _exporting(face: Face) -> Generator[Redrive]:
    """Open the store so that the export is recorded in it; only to read it, where that is all it allows."""
    with ExitStack() as stack:
        try:
            app = stack.enter_context(face.opened())
        except (StoreMissing, StoreForeign):
            raise
        except (StoreError, OSError):
            app = stack.enter_context(face.opened(read_only=True))
        yield app


def _counted(jobs: Iterable[str], count: Callable[[int], None]) -> Iterator[str]:
    for job in jobs:
        yield job
        count(1)


def _say_left(face: Face, left: Counter[str], format_: str) -> None:
    for why, number in left.most_common(NAMED):
        face.say(f"left out, for {format_} cannot hold them: {number:,} ({why})")
    if left:
        raise click.exceptions.Exit(PARTLY)


def chosen(read: Callable[..., Iterator[T]], selection: Selection) -> Iterator[T]:
    """Read the selected jobs (or their ids), each once, whatever their state; without a selection all."""
    if selection.ids:
        yield from read(*selection.ids)
        return
    filters = selection.filters or {}
    if not selection.groups:
        yield from read(**filters)
    for number in dict.fromkeys(selection.groups):
        filters["group"] = number
        yield from read(**filters)


def _exported(face: Face, place: Path, number: int) -> None:
    pairs: list[tuple[str, Cell]] = [("exported", number), ("file", str(place))]
    then = f"redrive import {place} --store OTHER" if number else ""
    face.show(View({"exported": number, "file": str(place)}, [Facts(pairs)]), then=then)


@command(
    "import",
    "redrive import jobs.jsonl",
    "redrive import jobs.jsonl --dry-run",
    "redrive import - --store new.db < jobs.jsonl",
    "redrive import hooks.jsonl --endpoint https://api.example.org/hooks",
    "redrive import event_stream.jsonl --app shop.jobs:app",
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
@click.option(
    "--app", "app_name", metavar="MODULE:APP", help="The program whose handlers run them."
)
@click.option("--force", is_flag=True, help="Also take in pending jobs that no known handler runs.")
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
    app_name: str | None,
    dry_run: bool,
    force: bool,
    **said: Any,
) -> None:
    """Bring jobs in: of an export, of a file of another program, or of a table of jobs.

    A store that is not there is made, for yourself only. Each record is known by its shape. Jobs that
    are there already stay as they are. Pending records stay pending: where no known handler can run
    them, nothing is taken in without `--force`. Known are the handlers of `--app`, of the app and the
    endpoints in `redrive.toml` and of live workers; hooks can be sent to the URLs of `--endpoint`.
    A record that cannot be read goes to the quarantine file, with its line, place and what is wrong.
    The rest is taken in, unless it is `--strict`. Whenever something is left out or changed, the
    summary says so (exit 6).
    """
    if (file is None) == (table is None):
        raise click.UsageError("give a FILE, or - for standard input, or a --table")
    source = file or str(table)
    aside = Path(quarantine or ("import.bad" if file == "-" else f"{source}.bad"))
    asked = Asked(handler=said.pop("handler"), zone=_zone(assume_tz))
    taking: dict[str, Any] = {"asked": asked, "source": source, **said}
    handlers = handlers_of(face, app_name, endpoints)
    with _opened(file or os.devnull) as opened:

        def tally(desk: Desk, rest: Quarantine | None) -> _Tally:
            more: dict[str, Any] = {**taking, "dry_run": rest is None}
            if table is not None:
                url = database or face.config.store
                told = desk.transfer.import_table(url, table, format="summaries", **more)
            else:
                told = desk.transfer.import_lines(opened, format=format_, **more)
            handlers.learn(desk)
            return _tally(face, told, _size(file), rest, handlers)

        if not dry_run and not force:
            with _looking(face) as app:
                refuse(tally(app.desk, None).unserved, handlers)
            opened.seek(0)
        with face.opened(create=not dry_run, read_only=dry_run) as app:
            done = tally(app.desk, None if dry_run else Quarantine(aside))
    face.show(_imported(done, aside, dry_run=dry_run), then="redrive status")
    if done.unserved:
        face.say(f"note: no known handler can run {named(done.unserved)}")
    if done.is_partial:
        raise click.exceptions.Exit(PARTLY)


@contextmanager
def _looking(face: Face) -> Generator[Redrive]:
    """Open the store for a first look; where there is none yet, an empty one in memory."""
    with ExitStack() as stack:
        try:
            app = stack.enter_context(face.opened(read_only=True))
        except (StoreMissing, StoreForeign):
            app = stack.enter_context(Redrive("memory:", clock=face.clock))
        yield app


@dataclass(slots=True)
class _Tally:
    """What became of the records."""

    fates: Counter[str] = field(default_factory=Counter[str])
    states: Counter[State] = field(default_factory=Counter[State])
    bad: list[Told] = field(default_factory=list[Told])
    unserved: Unserved = field(default_factory=Unserved)
    ended: int = 0

    @property
    def is_partial(self) -> bool:
        """True if something was left out, changed or put aside."""
        return bool(self.ended or any(self.fates[fate] for fate in ("bad", "left", "ignored")))


def _tally(
    face: Face,
    told: Generator[Told],
    size: int | None,
    rest: Quarantine | None,
    handlers: Handlers,
) -> _Tally:
    """Take everything in, and put aside what is bad; without a quarantine only look."""
    tally = _Tally()
    what = "records read" if size is None else "bytes read"
    with rest or nullcontext(), closing(told), face.progress(what, size) as count:
        for one in told:
            tally.fates[one.fate] += 1
            tally.ended += one.ended
            count(1 if size is None else len(one.raw))
            if one.fate == "added" and one.state is not None:
                tally.states[one.state] += 1
                if one.state is State.PENDING and one.handler:
                    is_served = handlers.can_run(one.handler, one.url)
                    tally.unserved.update([] if is_served else [(one.handler, one.url)])
            if one.fate == "bad":
                tally.bad += [one] if len(tally.bad) < NAMED else []
                if rest is not None:
                    rest.put(one.number, one.offset, one.reason, one.raw)
    return tally


def _size(file: str | None) -> int | None:
    return None if file in {None, "-"} else Path(str(file)).stat().st_size


def _zone(said: str | None) -> Zone:
    """Return the time zone that was named; else ask for it, once, where there is a terminal."""
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
    """Open what is to be read, twice: a pipe, which can be read once, is copied for that."""
    with nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as source:
        if file != "-" and source.seekable():
            yield source
            return
        with TemporaryFile() as kept:
            shutil.copyfileobj(source, kept)
            kept.seek(0)
            yield kept


def _imported(tally: _Tally, aside: Path, *, dry_run: bool) -> View:
    fates, states = tally.fates, tally.states
    where = None if dry_run or not tally.bad else str(aside)
    data = {
        "dry_run": dry_run,
        "added": fates["added"],
        "known": fates["known"],
        "folded": fates["folded"],
        "left": fates["left"],
        "ignored": fates["ignored"],
        "bad": fates["bad"],
        "ended": tally.ended,
        "unserved": [
            {"handler": handler, "url": url or None, "jobs": number}
            for (handler, url), number in tally.unserved.most_common()
        ],
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
    if fates["ignored"]:
        pairs.append(("log lines ignored", fates["ignored"]))
    if tally.ended:
        pairs.append(("were pending, ended now", tally.ended))
    if tally.unserved:
        pairs.append(("pending without a handler", tally.unserved.total()))
    pairs.append(("bad lines", fates["bad"]))
    parts: list[Part] = [Facts([*pairs, ("quarantine", where)] if where else pairs)]
    if tally.bad:
        more = fates["bad"] - len(tally.bad)
        rows: list[list[Cell]] = [[one.number, one.offset, one.reason] for one in tally.bad]
        heads = columns("line:number", "offset:number", "reason")
        parts.append(Table(heads, rows, "Bad lines", "bad"))
        parts += [Line(f"and {more:,} more", "warn")] if more else []
    return View(data, parts)
