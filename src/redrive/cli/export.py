"""Export: jobs as lines of a file, for another store or another program."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._command import app_option, command
from redrive.cli._errors import CONFLICT, NOTHING, PARTLY, USAGE, Stop
from redrive.cli._filters import explained, selection_of, with_filters
from redrive.cli._known_handlers import NAMED, handlers_of
from redrive.cli._zones import zone_named, zone_option
from redrive.cli.output import Facts, View, fields
from redrive.desk.transfer.formats.detect import FORMATS, OWN
from redrive.desk.transfer.formats.quarantine import private
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.errors import StoreError, StoreForeign, StoreMissing


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
    help=f"Those of other programs hold only a part.  [default: {OWN}]",
)
@zone_option
@app_option("The program that defines the endpoints.")
@click.option(
    "--output", "-o", metavar="FILE", help="A new file, readable by you alone (mode 600)."
)
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@click.pass_obj
def export(
    cli: Cli,
    /,
    output: str | None,
    format_: str | None,
    assume_tz: str | None,
    app_name: str | None,
    *,
    force: bool,
    **options: Any,
) -> None:
    """Write jobs as lines of JSON, each with its whole history and payload.

    Secrets in the payloads are not masked: `redrive import` needs them. The formats of other programs
    cannot hold every job; the others are left out and counted (exit 6). Times without a zone are
    written in local time, or in the zone of `--assume-tz`. For the format `hooks`, the URL of an
    endpoint comes from `redrive.toml` or from the program of `--app`.
    """
    selection = selection_of(options)
    format_ = format_ or OWN
    left: Counter[str] = Counter()
    zone = None if assume_tz is None else zone_named(assume_tz)
    urls = handlers_of(cli, app_name).urls if format_ == "hooks" else {}
    asked = TransferOptions(zone=zone, urls=urls, skip=lambda _, why: left.update([why]))
    if output in {None, "-"}:
        if sys.stdout.isatty():
            msg = "this would show payloads with their secrets on the terminal"
            raise Stop("needs_file", msg, hint="add -o FILE, or use a pipe", exits=USAGE)
        with _exporting(cli) as app, explained(selection):
            for line in app.desk.transfer.export_lines(
                app.desk.jobs.ids(selection), format=format_, asked=asked
            ):
                sys.stdout.write(line + "\n")
        _say_left(cli, left, format_)
        return
    place = Path(output or "")
    if place.exists() and not force:
        raise Stop("exists", f"{place} exists already", hint="add --force", exits=CONFLICT)
    with _exporting(cli) as app, explained(selection), private(place) as file:
        total = sum(count.jobs for count in app.desk.jobs.counts()) if selection.is_empty else None
        number = 0
        with cli.progress("jobs written", total) as count:
            for line in app.desk.transfer.export_lines(
                _counted(app.desk.jobs.ids(selection), count), format=format_, asked=asked
            ):
                file.write(line.encode() + b"\n")
                number += 1
    _exported(cli, place, number)
    _say_left(cli, left, format_)
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


def _counted(jobs: Iterable[str], count: Callable[[int], None]) -> Iterator[str]:
    for job in jobs:
        yield job
        count(1)


def _say_left(cli: Cli, left: Counter[str], format_: str) -> None:
    for why, number in left.most_common(NAMED):
        cli.say(f"left out, because {format_} cannot hold them: {number:,} ({why})")
    if left:
        raise click.exceptions.Exit(PARTLY)


def _exported(cli: Cli, place: Path, number: int) -> None:
    data = {"exported": number, "file": str(place)}
    then = f"redrive import {place} --store OTHER" if number else ""
    cli.show(View(data, [Facts(fields("exported file"), data)]), then=then)
