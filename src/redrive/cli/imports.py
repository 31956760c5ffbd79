"""Import: jobs from an export, from another program's file, or from any table or file by a mapping."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, get_args

import click

from redrive.app import Redrive
from redrive.cli._cli import Cli
from redrive.cli._command import app_option, command, reason_option
from redrive.cli._errors import PARTLY
from redrive.cli._known_handlers import NAMED, Handlers, Unserved, handlers_of, named, refuse
from redrive.cli._mapping import Plan, guessed, plan_of
from redrive.cli._zones import zone_named, zone_option
from redrive.cli.output import Facts, Field, Line, Part, Table, View, fields
from redrive.desk.desk import Desk
from redrive.desk.transfer.formats.detect import FORMATS, OWN
from redrive.desk.transfer.formats.quarantine import Quarantine, check_place
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.importing import AUTO, Fate, LineResult
from redrive.desk.transfer.mapping import FieldMapping
from redrive.desk.transfer.sources import utf8
from redrive.errors import StoreForeign, StoreMissing
from redrive.jobs.job import State
from redrive.payloads.masking import mask_text

_RARE = fields(
    """folded=more_lines_about_them left=left_out ignored=log_lines_ignored
    filtered=left_out_by_the_mapping differs=exist_already_and_differ
    ended=were_pending,_ended_now unserved=pending_without_a_handler"""
)

_LEFT_OUT = ("bad", "differs", "left", "ignored")


@command(
    "import",
    "redrive import jobs.jsonl",
    "redrive import jobs.jsonl --dry-run",
    "redrive import - --store new.db < jobs.jsonl",
    "redrive import hooks.jsonl --endpoint https://api.example.org/hooks",
    "redrive import retry_queue.json --assume-tz Asia/Tokyo",
    "redrive import --table email_queue --from postgresql://host/shop --guess",
    "redrive import --table email_queue --from sqlite:shop.db --handler mail.send"
    " --map key=id --map payload=body --map attempts=retry_count"
    " --map state=st:failed=dead,waiting=pending",
    "redrive import orders.csv --mapping orders",
)
@click.argument("file", metavar="[FILE|-]", required=False)
@click.option(
    "--format",
    "format_",
    type=click.Choice([AUTO, OWN, *FORMATS]),
    default=AUTO,
    show_default=True,
    help="The format; `auto` recognises each record.",
)
@click.option("--table", metavar="NAME", help="A table in PostgreSQL or SQLite, instead of a file.")
@click.option("--query", metavar="SQL", help="What a query returns, run read-only.")
@click.option("--from", metavar="URL", help="The database to read.  [default: the store]")
@click.option(
    "--map", "map_", multiple=True, metavar="FIELD=COLUMN", help="Map a column; repeatable."
)
@click.option(
    "--set", "set_", multiple=True, metavar="FIELD=VALUE", help="Set a field for all; repeatable."
)
@click.option(
    "--where", "where_", multiple=True, metavar="COLUMN=VALUE", help="Keep only such; repeatable."
)
@click.option("--mapping", metavar="NAME", help="Use [import.NAME] of redrive.toml.")
@click.option("--guess", is_flag=True, help="Only show a proposed mapping, with five rows.")
@click.option("--name", metavar="NAME", help="The first part of keys.  [default: table or file]")
@click.option("--records", metavar="PATH", help="Where the records are inside a JSON document.")
@click.option("--encoding", metavar="NAME", help="Of a file, such as cp932.  [default: utf-8]")
@click.option("--dry-run", is_flag=True, help="Only show what would be imported.")
@click.option("--strict", is_flag=True, help="Import nothing if one line is bad.")
@zone_option
@click.option(
    "--handler", metavar="NAME", help="The handler that runs them, instead of the format's own."
)
@click.option(
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="URL",
    help="A URL that hooks may be sent to; repeatable.",
)
@app_option("The program whose handlers run them.")
@click.option("--force", is_flag=True, help="Also import pending jobs that no known handler runs.")
@click.option("--quarantine", metavar="FILE", help="The file for bad lines.  [default: FILE.bad]")
@reason_option
@click.pass_obj
def import_(
    cli: Cli,
    /,
    *,
    format_: str,
    endpoints: tuple[str, ...],
    quarantine: str | None,
    app_name: str | None,
    guess: bool,
    dry_run: bool,
    force: bool,
    **options: Any,
) -> None:
    """Import jobs from an export, from a file of another program, or from any table or file.

    Redrive knows its own exports and five formats by their shape. For any other table, CSV or JSON,
    declare what its columns mean: `--map FIELD=COLUMN`, `--set FIELD=VALUE`, `--where COLUMN=VALUE`,
    or `[import.NAME]` in `redrive.toml`; `--guess` proposes it. The fields and their options are in
    docs/exchange.md.

    A missing store is created. Jobs that exist already stay as they are. If no known handler can run
    a pending record, nothing is imported unless you add `--force`. Known are the handlers of `--app`,
    of the app and endpoints in `redrive.toml`, and of running workers; hooks may be sent to the URLs
    of `--endpoint`. Records that cannot be read are written to the quarantine file, with the reason;
    the others are imported, except with `--strict`. The summary counts what was left out or changed
    (exit 6).
    """
    plan = plan_of(cli, options)
    aside = Path(quarantine or plan.quarantine)
    if not guess and not dry_run:
        check_place(aside, plan.file, cli.config.store)
    settings = plan.settings
    asked = TransferOptions(
        handler=settings.get("handler"), zone=zone_named(settings.get("assume_tz"))
    )
    mapping = plan.mapping
    with _opened(plan.file or os.devnull, settings.get("encoding", "utf-8")) as opened:
        if guess:
            cli.show(guessed(plan, opened, replace(asked, now=time.time())))
            return
        if unseen := plan.check(opened, asked.handler):
            cli.say(f"note: none of the first records has a value for: {', '.join(unseen)}")
        taking: dict[str, Any] = {**options, "asked": asked, "source": plan.source}
        taking |= {"format": format_, "mapping": mapping}
        handlers = handlers_of(cli, app_name, endpoints)

        def tally(desk: Desk, rest: Quarantine | None) -> _Tally:
            taking["dry_run"] = rest is None
            lines = desk.transfer.import_lines(plan.records(opened), **taking)
            handlers.learn(desk)
            return _tally(cli, lines, plan, rest, handlers)

        if not dry_run and not force and _may_be_unserved(mapping, asked, handlers):
            with _looking(cli) as app:
                handlers.learn(app.desk)
                if mapping is None or not all(
                    handlers.can_run(handler, "")
                    for handler in mapping.pending_handlers(plan.pieces(opened), asked)
                ):
                    refuse(tally(app.desk, None).unserved, handlers)
        rest = None if dry_run else Quarantine(aside)
        with _looking(cli) if dry_run else cli.opened(create=True) as app:
            done = tally(app.desk, rest)
    where = str(rest.place) if rest and rest.file else None
    cli.show(_imported(done, where, dry_run=dry_run), then="redrive status")
    if done.unserved:
        cli.say(f"note: no known handler can run {named(done.unserved)}")
    if done.is_partial:
        raise click.exceptions.Exit(PARTLY)


def _may_be_unserved(
    mapping: FieldMapping | None, asked: TransferOptions, handlers: Handlers
) -> bool:
    """Return True if the records have to be read before the import: one may need a handler."""
    if mapping is None:
        return True
    handler = asked.handler or (
        "" if "handler" in mapping.rules else mapping.constants.get("handler")
    )
    return mapping.may_be_pending and not (handler and handlers.can_run(handler, ""))


@contextmanager
def _looking(cli: Cli) -> Generator[Redrive]:
    """Open the store to read it; a missing one is replaced by an empty one in memory."""
    with ExitStack() as stack:
        try:
            app = stack.enter_context(cli.opened(read_only=True))
        except (StoreMissing, StoreForeign):
            app = stack.enter_context(Redrive("memory:", clock=cli.clock))
        yield app


@dataclass(slots=True)
class _Tally:
    """How many records were imported, left out or bad."""

    fates: Counter[str] = field(default_factory=Counter[str])
    states: Counter[State] = field(default_factory=Counter[State])
    bad: list[LineResult] = field(default_factory=list[LineResult])
    unserved: Unserved = field(default_factory=Unserved)
    ended: int = 0

    def count(self, key: str) -> int:
        """Return a number of the summary."""
        numbers = {"ended": self.ended, "unserved": self.unserved.total()}
        return numbers.get(key, self.fates[key])

    @property
    def is_partial(self) -> bool:
        """True if something was left out, changed or put into quarantine."""
        return bool(self.ended or any(self.fates[fate] for fate in _LEFT_OUT))


def _tally(
    cli: Cli,
    lines: Generator[LineResult],
    plan: Plan,
    rest: Quarantine | None,
    handlers: Handlers,
) -> _Tally:
    """Import everything and put bad lines into the quarantine; without one only count."""
    tally = _Tally()
    what, total = plan.total()
    seen, is_file = 0, what == "bytes read"
    with rest or nullcontext(), closing(lines), cli.progress(what, total) as count:
        for line in lines:
            tally.fates[line.fate] += 1
            tally.ended += line.ended
            step = max(0, min(line.offset, total or 0) - seen) if is_file else 1
            seen += step
            count(step)
            if line.fate == "added" and line.state is not None:
                tally.states[line.state] += 1
                if line.state is State.PENDING and line.handler:
                    is_served = handlers.can_run(line.handler, line.url)
                    tally.unserved.update(
                        [] if is_served else [(line.handler, mask_text(line.url))]
                    )
            if line.fate in {"bad", "differs"}:
                tally.bad += [line] if len(tally.bad) < NAMED else []
                if rest is not None:
                    rest.put(line.number, line.offset, line.reason, line.raw)
        if is_file and total:
            count(total - seen)
    return tally


@contextmanager
def _opened(file: str, encoding: str) -> Generator[IO[bytes]]:
    """Open a file that is read twice; a pipe is copied to a temporary file first."""
    with ExitStack() as stack:
        source: IO[bytes] = sys.stdin.buffer
        if file != "-":
            source = stack.enter_context(Path(file).open("rb"))
        if file == "-" or not source.seekable():
            pipe, source = source, stack.enter_context(TemporaryFile())
            shutil.copyfileobj(pipe, source)
            source.seek(0)
        yield stack.enter_context(utf8(source, encoding))


def _imported(tally: _Tally, where: str | None, *, dry_run: bool) -> View:
    fates, states = tally.fates, tally.states
    data = {
        "dry_run": dry_run,
        **{fate: fates[fate] for fate in get_args(Fate)},
        "ended": tally.ended,
        "unserved": [
            {"handler": handler, "url": url or None, "jobs": number}
            for (handler, url), number in tally.unserved.most_common()
        ],
        "states": {state.value: states[state] for state in State if states[state]},
        "quarantine": where,
    }
    shown = [
        Field("added", "would be added" if dry_run else "added"),
        *(Field(f"states.{state.value}", f"  {state.value}") for state in State if states[state]),
        Field("known", "exist already"),
        *(field for field in _RARE if tally.count(field.key)),
        *fields("bad=bad_lines"),
        *(fields("quarantine") if where else []),
    ]
    bad = [{"line": row.number, "offset": row.offset, "reason": row.reason} for row in tally.bad]
    more = fates["bad"] + fates["differs"] - len(bad)
    parts: list[Part] = [
        Facts(shown, {**data, "unserved": tally.unserved.total()}),
        Table(fields("line:number offset:number reason:prose"), bad, "Bad lines", "bad"),
        *([Line(f"and {more:,} more", "warn")] if more else []),
    ]
    return View(data, parts)
