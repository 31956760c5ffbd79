"""What `redrive import` reads, and what its columns mean: from the options and from `redrive.toml`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Final, cast

from redrive.cli._cli import Cli
from redrive.cli._errors import USAGE, Stop
from redrive.cli.output import Facts, Field, Line, Table, View, fields
from redrive.desk.transfer.formats.detect import format_of
from redrive.desk.transfer.formats.fields import Fields
from redrive.desk.transfer.formats.pieces import Piece
from redrive.desk.transfer.formats.quarantine import QUARANTINED
from redrive.desk.transfer.formats.record import Line as Record
from redrive.desk.transfer.formats.record import TransferOptions
from redrive.desk.transfer.formats.times import local
from redrive.desk.transfer.guess import proposed
from redrive.desk.transfer.mapping import FieldMapping
from redrive.desk.transfer.rules import at, parsed, written
from redrive.desk.transfer.sources import Source, count_of, records, rows
from redrive.errors import RedriveError, UsageError
from redrive.jobs.job import Job
from redrive.payloads.masking import error_text, mask_json, mask_text, secrets_of

_PLACES: Final = ("file", "table", "query")
_SETTINGS: Final = (*_PLACES, "from", "records", "encoding", "handler", "assume_tz")
_MAPPED: Final = ("map", "set", "where")
_SUFFIXES: Final = {".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson"}
_SAMPLE, _SHOWN = 100, 5
_ROWS = fields("key:id state:word handler attempts:number created:time error payload:main")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One import: where the records are, and their mapping if there is one."""

    name: str
    settings: Mapping[str, str]
    texts: Mapping[str, Sequence[str]]
    """What was mapped, as it was written."""
    url: str

    @property
    def file(self) -> str | None:
        """The file to read; None for a table or a query."""
        return self.settings.get("file")

    @property
    def source(self) -> str:
        """The source, for the audit log and the quarantine file."""
        return self.file or self.settings.get("table") or self.name

    @property
    def quarantine(self) -> str:
        """The usual file for bad records; nothing can be written beside a pipe."""
        is_pipe = self.file == "-" or (self.file and not Path(self.file).is_file())
        return "import.bad" if is_pipe else f"{self.source}.bad"

    @property
    def mapping(self) -> FieldMapping | None:
        """The mapping; None if nothing is mapped."""
        if not any(self.texts.values()):
            return None
        texts = self.texts
        return FieldMapping.of(self.name, texts["map"], set=texts["set"], where=texts["where"])

    def records(self, opened: IO[bytes]) -> Source:
        """Return what is to be read; without a mapping only what is known by its shape."""
        if self.mapping is None and self.file and Path(self.file).suffix not in {".csv", ".tsv"}:
            opened.seek(0)
            return opened
        pieces = self.pieces(opened)
        return pieces if self.mapping else self._known(pieces)

    def pieces(self, opened: IO[bytes]) -> Iterator[Piece]:
        """Cut a file into records, or read the rows of a table or a query."""
        if self.file is None:
            return rows(self.url, self.settings.get("table", ""), self.settings.get("query", ""))
        opened.seek(0)
        return records(opened, self.settings.get("records", ""))

    def _known(self, pieces: Iterator[Piece]) -> Iterator[Piece]:
        first = next(pieces, None)
        if first is None:
            return iter(())
        if format_of(json.loads(first.raw)) is None:
            msg = f"{self.source} has none of the known formats, so its columns need a mapping"
            hint = "add --map FIELD=COLUMN for each field, or --guess to see a proposal"
            raise Stop("unmapped", msg, hint=hint, exits=USAGE)
        return chain([first], pieces)

    def check(self, opened: IO[bytes], handler: str | None) -> list[str]:
        """Refuse a mapping that lacks something; return the places where no record has a value.

        Rows of a table have a value or an empty one; only in JSON a name may be mistaken unseen.
        """
        if (mapping := self.mapping) is None:
            self.records(opened)
            return []
        mapping.check(handler)
        sample = self.sample(opened)
        if sample:
            mapping.check_columns(sample[0][0])
        values = [value for piece, value in sample if not piece.is_row]
        there = {path for path in mapping.paths() for value in values if _has(value, path)}
        return sorted(map(written, mapping.paths() - there)) if values else []

    def sample(self, opened: IO[bytes]) -> list[tuple[Piece, Fields]]:
        """Return the first records that are objects, and what they hold."""
        values = (
            (piece, parsed(piece.raw.decode(errors="replace"))) for piece in self.pieces(opened)
        )
        fit = (
            (piece, cast("Fields", value))
            for piece, value in values
            if isinstance(value, dict) and not piece.trouble
        )
        return list(islice(fit, _SAMPLE))

    def total(self) -> tuple[str, int | None]:
        """Return what is counted while it is read, and how much there is of it."""
        if self.file is None:
            table = self.settings.get("table")
            return "records read", count_of(self.url, table) if table else None
        size = None if self.file == "-" else Path(self.file).stat().st_size
        return ("records read", None) if size is None else ("bytes read", size)


def _has(value: Fields, path: tuple[str, ...]) -> bool:
    try:
        return value.keys() == QUARANTINED or at(value, path) is not None
    except ValueError:
        return True


def plan_of(cli: Cli, options: dict[str, Any]) -> Plan:
    """Take the options that say what is read; those of `[import.NAME]` hold where there are none."""
    named = options.pop("mapping")
    section = _section(cli, named)
    given = {key: options.pop(key) for key in _SETTINGS}
    if any(given[key] for key in _PLACES):  # a place on the command line replaces the other's
        section = {key: value for key, value in section.items() if key not in _PLACES}
    settings = {key: str(given[key] or section.get(key) or "") for key in _SETTINGS}
    settings = {key: value for key, value in settings.items() if value}
    if sum(key in settings for key in _PLACES) != 1:
        raise UsageError("name one source: a FILE, - for standard input, --table or --query")
    texts = {
        key: _merged(section.get(key), options.pop(f"{key}_")) for key in _MAPPED
    }  # fmt: skip
    name = options.pop("name") or named or _default_name(settings)
    return Plan(
        name=name, settings=settings, texts=texts, url=settings.get("from") or cli.config.store
    )


def _section(cli: Cli, name: str | None) -> Mapping[str, Any]:
    if name is None:
        return {}
    imports = cli.config.imports
    if name not in imports:
        known = ", ".join(imports) or "none"
        raise UsageError(f"there is no [import.{name}] in redrive.toml; found: {known}")
    section = imports[name]
    if unknown := [key for key in section if key not in (*_SETTINGS, *_MAPPED)]:
        all_keys = ", ".join((*_SETTINGS, *_MAPPED))
        raise UsageError(f"[import.{name}] has unknown keys: {', '.join(unknown)}; use {all_keys}")
    return section


def _merged(section: object, given: Iterable[str]) -> list[str]:
    """Put rules together; one for a field replaces those of the section for it."""
    given = list(given)
    if isinstance(section, Mapping):
        names = {text.partition("=")[0] for text in given}
        table = cast("Mapping[str, Any]", section).items()
        pairs = [(name, one) for name, some in table for one in _listed(some)]
        return [f"{name}={one}" for name, one in pairs if name not in names] + given
    return [*map(str, _listed(section)), *given]


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _default_name(settings: Mapping[str, str]) -> str:
    return settings.get("table") or _stem(settings.get("file", ""))


def _stem(file: str) -> str:
    """Return the name of a file without the endings of its kind: `jobs.csv.bad-1` is jobs."""
    place = Path(re.sub(r"(\.bad(-\d+)?)+$", "", file))
    return (place.stem if place.suffix in _SUFFIXES else place.name).strip("-") or "import"


def guessed(plan: Plan, opened: IO[bytes], asked: TransferOptions) -> View:
    """Return a proposal, the command for it, and the first rows as they would become."""
    sample = _guessable(plan, opened)
    given = plan.texts
    taken = {*(text.partition("=")[0] for text in given["set"])}
    taken |= {"handler"} if asked.handler else set[str]()
    proposal = proposed(sample, plan.name, given["map"], taken)
    notes = proposal.notes
    if proposal.naive and "assume_tz" not in plan.settings:
        plan = replace(plan, settings={**plan.settings, "assume_tz": "local"})
        asked = replace(asked, zone=local)
        columns = ", ".join(proposal.naive)
        note = (
            f"{columns}: no time zone, so the rows show local time; name it with --assume-tz ZONE"
        )
        notes = [*notes, note]
    constants = [*proposal.set, *given["set"]]
    mapping = FieldMapping.of(plan.name, proposal.map, set=constants, where=given["where"])
    options = {"--map": proposal.map, "--set": constants, "--where": given["where"]}
    shown = [_shown(mapping, value, asked) for value in sample[:_SHOWN]]
    data: dict[str, Any] = {
        "command": _command(plan, asked, options),
        "map": proposal.map,
        "set": constants,
        "notes": notes,
        "rows": shown,
    }
    facts = [Field("command", "proposed command", "prose")]
    if (known := format_of(sample[0])) is not None:
        note = f"this is the format {known.name}, which needs no mapping"
        data["notes"] = [note, *notes]
    lines = [Line(f"check: {note}", "warn") for note in data["notes"]]
    table = Table(_ROWS, shown, "The first rows would become", "row")
    return View(data, [table, *lines, Facts(facts, data)])


def _guessable(plan: Plan, opened: IO[bytes]) -> list[Fields]:
    """Return the first records; refuse a document that holds the records in a list."""
    sample = [value for _, value in plan.sample(opened)]
    if not sample:
        raise UsageError(f"{plan.source} has no records to guess from")
    if len(sample) == 1 and (path := _list_in(sample[0])):
        raise UsageError(f"{plan.source} is one document; add --records {'.'.join(path)}")
    return sample


def _list_in(value: Fields) -> tuple[str, ...]:
    """Find the list of objects in a document that is nearest to its top."""
    level: list[tuple[tuple[str, ...], Fields]] = [((), value)]
    while level:
        members = [((*path, name), one) for path, inner in level for name, one in inner.items()]
        for path, one in members:
            if isinstance(one, list) and isinstance(cast("list[object]", [*one, None])[0], dict):
                return path
        level = [(path, cast("Fields", one)) for path, one in members if isinstance(one, dict)]
    return ()


def _command(plan: Plan, asked: TransferOptions, options: Mapping[str, Sequence[str]]) -> str:
    words = [*_source_words(plan), *(["--handler", asked.handler] if asked.handler else [])]
    for option, texts in options.items():
        words += [word for text in texts for word in (option, text)]
    return shlex.join(["redrive", "import", *words])


def _source_words(plan: Plan) -> Iterator[str]:
    for key, value in plan.settings.items():
        if key == "file":
            yield value
        elif key != "handler":
            yield from (f"--{key.replace('_', '-')}", mask_text(value) if key == "from" else value)
    if plan.name != _default_name(plan.settings):
        yield from ("--name", plan.name)


def _shown(mapping: FieldMapping, value: Fields, asked: TransferOptions) -> Fields:
    """Return a row as it would become, masked; one that is bad with the reason."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        mapping.check(asked.handler)
        if why := mapping.leaves_out(value):
            return {"key": "", "state": "filtered", "error": why}
        job = mapping.job(Record(text, value), asked)
    except (RedriveError, ValueError, TypeError, LookupError) as error:
        return {"key": "", "state": "bad", "error": error_text(str(error), secrets_of(text))}
    return _document(job)


def _document(job: Job) -> Fields:
    from redrive.desk.transfer.formats.times import iso  # noqa: PLC0415

    return {
        "key": job.key,
        "state": job.state.value,
        "handler": job.handler,
        "attempts": job.attempts,
        "created": iso(job.created),
        "error": job.failure.message if job.failure else "",
        "payload": mask_json(job.payload),
    }
