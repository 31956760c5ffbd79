"""Import jobs: from Redrive's own lines, and from records of other programs.

Each record of a file is recognised, checked like a submit, and stored in batches; one that cannot be
read is reported with its place and never dropped. Lines about the same job are collected on disk. Jobs
that exist already stay as they are, so a repeat changes nothing; only a pending job ends if a later line
reports its end. `max_age` of imported pending jobs starts now.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from redrive.desk.transfer import endings, sources
from redrive.desk.transfer.formats.detect import FORMATS, OWN, format_of, named
from redrive.desk.transfer.formats.pieces import LONGEST, Piece
from redrive.desk.transfer.formats.quarantine import QUARANTINED
from redrive.desk.transfer.formats.record import Format, Line, TransferOptions
from redrive.desk.transfer.formats.spool import Spool
from redrive.desk.transfer.formats.times import NaiveTime
from redrive.desk.transfer.job_lines import checked, job_of
from redrive.errors import KeyConflict, RedriveError
from redrive.jobs.job import TERMINAL, Job, State
from redrive.jobs.records import evolve
from redrive.payloads import masking, strict_json
from redrive.stores.contract import Query, Store, every

AUTO: Final = "auto"
_BATCH, _BATCH_BYTES = 500, 4 * 1024 * 1024
_LONGEST_REASON: Final = 300
_START: Final = b'{"redrive":1,'
_ODD: Final = re.compile(rb"NaN|Infinity|\\u(?:[dD][89a-fA-F]|0000)")
"""What a row of a table may hold that no payload may."""

Fate = Literal["added", "known", "folded", "left", "ignored", "filtered", "differs", "bad"]
"""Stored; exists already; about the job of another line; left out; not a job; left out by the mapping;
exists already and was made of another record; not readable."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line, or of one record of a document."""

    number: int
    """The line it begins on, counted from 1; of a table, the row."""
    offset: int
    """Bytes before it."""
    raw: bytes = field(repr=False)
    fate: Fate
    state: State | None = None
    reason: str = ""
    handler: str = ""
    """Who runs the job that came of it; empty for a line of Redrive's own, which names it itself."""
    url: str = ""
    """Where that job is sent, if the record says it."""
    ended: int = 0
    """How many stored jobs waited and are over now, because this record says how they ended."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The pieces about one job, and that job or what is wrong with them."""

    pieces: list[Piece]
    found: Job | str
    format: Format | None = None
    is_known: bool = False
    over: frozenset[str] = frozenset()
    """The ids of stored jobs that wait although these pieces say how they ended."""

    @property
    def left_out(self) -> Fate:
        """What becomes of a record that is no job."""
        return "filtered" if self.format and self.format.is_mapped else "ignored"

    def results(self, fate: Fate, reason: str = "", *, ended: int = 0) -> Iterator[LineResult]:
        job = self.found if isinstance(self.found, Job) else None
        shown = reason and _masked(reason, self.pieces[0])
        about: dict[str, Any] = {"state": job.state if job else None, "reason": shown}
        if job and self.format:
            about |= {"handler": job.handler, "url": _url(job, self.format)}
        for number, piece in enumerate(self.pieces):
            mine = "folded" if number and fate == "added" else fate
            place = (piece.number, piece.offset, piece.raw, mine)
            yield LineResult(*place, **about, ended=0 if number else ended)


def _masked(reason: str, piece: Piece) -> str:
    """Return what is wrong with a record; it may quote a value that is secret or long."""
    secrets = masking.secrets_of(piece.raw.decode(errors="replace"))
    return masking.error_text(reason, secrets, limit=_LONGEST_REASON)


def _url(job: Job, format_: Format) -> str:
    return str(strict_json.loads(job.payload).get(format_.url, "")) if format_.url else ""


def stored(
    store: Store,
    source: sources.Source,
    asked: TransferOptions | None = None,
    *,
    format: str | Format = AUTO,  # noqa: A002 - the word for it
    dry_run: bool = False,
    strict: bool = False,
) -> Iterator[list[LineResult]]:
    """Store the jobs of a file or a table, some at a time, and yield the result of each record.

    With `strict` all of them in one step, or none if one cannot be read.
    """
    keep = partial(_kept, store, dry_run=dry_run)
    if not isinstance(format, Format) and format not in (AUTO, OWN):
        format = named(format)  # noqa: A001
    with Spool() as spool:
        reader = _Reader(store, asked or TransferOptions(), format, spool)
        reads = reader.read(sources.pieces_of(source))
        if strict:
            yield _all_or_none(list(reads), keep)
            return
        batch: list[_Read] = []
        size = 0
        for item in reads:
            batch.append(item)
            size += sum(len(piece.raw) for piece in item.pieces)
            if len(batch) >= _BATCH or size >= _BATCH_BYTES:
                yield keep(batch)
                batch, size = [], 0
        yield keep(batch)


class _Reader:
    """Recognises pieces and makes jobs of them."""

    def __init__(
        self, store: Store, asked: TransferOptions, format_: str | Format, spool: Spool
    ) -> None:
        self._store = store
        self._asked = asked
        self._format = format_
        self._spool = spool
        self._now = store.now()

    def read(self, pieces: Iterator[Piece]) -> Iterator[_Read]:
        """Yield what is in the pieces; what belongs together comes last, together."""
        for piece in pieces:
            try:
                read = self._read(piece)
            except NaiveTime:
                raise
            except _BAD as error:
                yield _Read([piece], _words(error))
            else:
                if read is not None:
                    yield read
        if not self._spool.is_empty:
            yield from self._together()

    def _read(self, piece: Piece) -> _Read | None:
        """Make a job of a piece; None for one that has to wait for others."""
        if piece.trouble:
            raise ValueError(piece.trouble)
        if len(piece.raw) > LONGEST:
            raise ValueError(f"is longer than {LONGEST:,} bytes")
        if self._format == OWN or (self._format == AUTO and piece.raw.startswith(_START)):
            return _Read([piece], job_of(piece.raw))
        line = _line(piece, is_checked=piece.is_row and not _ODD.search(piece.raw))
        if line.value.keys() == QUARANTINED:
            text = str(line.value["text"]).encode("utf-8", "surrogateescape")
            read = self._read(piece._replace(raw=text))
            return read and replace(read, pieces=[piece])
        if self._format == AUTO and type(line.value.get(OWN)) is int:
            return _Read([piece], job_of(piece.raw))
        format_ = format_of(line.value) if isinstance(self._format, str) else self._format
        if format_ is None or not format_.fits(line.value):
            names = format_.name if format_ else f"none of {OWN}, {', '.join(FORMATS)}"
            raise ValueError(
                f"is not a job: {'it is not a record of' if format_ else 'it is a record of'} {names}"
            )
        if format_.ignores is not None and (why := format_.ignores(line.value)):
            return _Read([piece], why, format_)
        if format_.group is None:
            return _Read([piece], self._made(format_, [line]), format_)
        self._wait(format_, format_.group(line.value), line, piece)
        return None

    def _wait(self, format_: Format, common: str, line: Line, piece: Piece) -> None:
        """Let a piece wait for others, with the names of those that belong to it."""
        self._spool.put(format_.name, common, piece)
        for name in format_.ends(line.value) if format_.ends else ():
            self._spool.link(format_.name, name, common)
        place = format_.chain(line.value) if format_.chain else None
        if place is not None:
            self._spool.follow(format_.name, common, place)

    def _made(self, format_: Format, lines: list[Line]) -> Job:
        """Make a job; `max_age` of one that waits begins now: its own program did not count it."""
        job = checked(format_.job(lines, self._asked))
        waits = job.state is State.PENDING
        return evolve(job, since=max(job.since, self._now)) if waits else job

    def _together(self) -> Iterator[_Read]:
        """Make jobs of the pieces that belong together; a bad one among them costs itself alone."""
        asked: set[tuple[str, str]] = set()
        chained = {name for name in FORMATS if self._spool.follows(name)}
        for name in chained:  # whom a retry follows depends on what is stored, whatever its handler
            self._learn(FORMATS[name])
        for name, common, lines in self._spool.groups():
            format_ = FORMATS[name]
            whole = lines
            job, why = self._folded(format_, lines)
            if job is None and len(lines) > 1:
                wrong = [(piece, self._folded(format_, [piece])[1]) for piece in lines]
                yield from (_Read([piece], why) for piece, why in wrong if why)
                whole = [piece for piece, why in wrong if not why]
                job, why = self._folded(format_, whole) if whole else (None, "")
            if job is None:
                yield from (_Read([piece], why) for piece in whole)
                continue
            if name not in chained and (name, job.handler) not in asked:
                asked.add((name, job.handler))
                self._learn(format_, job.handler)
            names = format_.names(job) if format_.names else ()
            stored = self._spool.known([common, *names])
            is_over = format_.ends is not None and job.state in TERMINAL
            over = frozenset(filter(None, stored)) if is_over else frozenset[str]()
            yield _Read(whole, job, format_, is_known=bool(stored), over=over)

    def _folded(self, format_: Format, some: list[Piece]) -> tuple[Job | None, str]:
        """Make one job of pieces; else return what is wrong."""
        try:
            lines = [_line(piece, is_checked=True) for piece in some]
            return self._made(format_, lines), ""
        except NaiveTime:
            raise
        except _BAD as error:
            return None, _words(error)

    def _learn(self, format_: Format, handler: str = "") -> None:
        """Remember by which names the jobs (of a handler) are known that are stored already."""
        for job in every(self._store, Query(handler=handler)):
            try:
                names = format_.names(job) if format_.names else ()
                self._spool.know(names, job.id, waits=endings.waits(job))
            except (RedriveError, AttributeError):  # its payload is damaged, or of another shape
                continue


_BAD: Final = (RedriveError, ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What a record may raise that is not what its format says."""


def _words(error: BaseException) -> str:
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return str(error) or type(error).__name__


def _line(piece: Piece, *, is_checked: bool = False) -> Line:
    """Read a piece, by the rules of payloads unless it was read before."""
    try:
        text = piece.raw.decode()
        value = json.loads(text) if is_checked else strict_json.read(text, max_bytes=LONGEST)
    except (RedriveError, ValueError) as error:
        raise ValueError(f"is not JSON in UTF-8: {error}") from error
    return Line(text, value, piece.name)


def _all_or_none(reads: list[_Read], keep: Callable[..., list[LineResult]]) -> list[LineResult]:
    if not any(_is_bad(item) for item in reads):
        return keep(reads, at_once=True)
    lines: list[LineResult] = []
    for item in reads:
        lines += item.results("bad", str(item.found)) if _is_bad(item) else item.results("left")
    return lines


def _is_bad(read: _Read) -> bool:
    return isinstance(read.found, str) and read.format is None


def _kept(
    store: Store, batch: list[_Read], *, dry_run: bool, at_once: bool = False
) -> list[LineResult]:
    jobs = {
        item.found.id: item.found
        for item in reversed(batch)
        if isinstance(item.found, Job) and not item.is_known
    }
    known = _there(store, list(jobs))
    fresh = [job for job in jobs.values() if job.id not in known]
    answers = {} if dry_run else dict(_added(store, fresh, at_once=at_once))
    wrong = {id_: answer for id_, answer in answers.items() if isinstance(answer, str)}
    same = {id_: answer for id_, answer in answers.items() if isinstance(answer, Job)}
    known |= same
    lines: list[LineResult] = []
    for item in batch:
        if isinstance(item.found, str):
            lines += item.results("bad" if _is_bad(item) else item.left_out, item.found)
        elif item.found.id in wrong:
            lines += item.results("bad", wrong[item.found.id])
        else:
            fate, why = _fate(item, item.found, known.get(item.found.id))
            ids = _over(item, same)
            ended = endings.end(store, ids, item.found) if ids and not dry_run else len(ids)
            lines += item.results(fate, why, ended=ended)
            known.setdefault(item.found.id, item.found)
    return lines


def _fate(read: _Read, job: Job, stored: Job | None) -> tuple[Fate, str]:
    """Return what becomes of a record whose job may be stored already, made of another record."""
    if read.format and read.format.is_mapped and stored:
        origins = [one.origin or {} for one in (job, stored)]
        if origins[0].get("row") != origins[1].get("row"):
            return "differs", (
                f"another record with the key {origins[0]['id']!r} was imported before, and its job"
                " stays as it is; if they are two jobs, map a key that tells them apart"
            )
    return ("known" if read.is_known or stored else "added"), ""


def _over(read: _Read, same: dict[str, Job]) -> list[str]:
    """Return the ids of the stored jobs that wait although this record says how they ended."""
    job = read.found
    if not isinstance(job, Job) or job.state not in TERMINAL:
        return []
    stored = same.get(job.id)
    return sorted(read.over | ({stored.id} if stored and endings.waits(stored) else set[str]()))


def _there(store: Store, ids: list[str]) -> dict[str, Job]:
    """Return those of these jobs that are stored, by id."""
    known: dict[str, Job] = {}
    for start in range(0, len(ids), _BATCH):
        some = tuple(ids[start : start + _BATCH])
        known |= {job.id: job for job in store.find(Query(ids=some, limit=len(some))).jobs}
    return known


def _added(store: Store, jobs: list[Job], *, at_once: bool) -> Iterator[tuple[str, Job | str]]:
    """Store jobs; yield what is wrong with some, and those that were there under their key.

    Jobs whose key another job has are found by trying the halves.
    """
    try:
        answers = store.add(jobs) if jobs else []
    except KeyConflict as error:
        if at_once:
            raise
        if len(jobs) == 1:
            yield jobs[0].id, _same_record(store, jobs[0]) or str(error)
            return
        for half in (jobs[: len(jobs) // 2], jobs[len(jobs) // 2 :]):
            yield from _added(store, half, at_once=False)
        return
    for job, stored in zip(jobs, answers, strict=True):
        if stored.id != job.id:
            taken = f"the key {job.key!r} belongs to job {stored.id}"
            yield job.id, taken if job.origin is None else stored


def _same_record(store: Store, job: Job) -> Job | None:
    """Return the stored job that came of the same record under another handler, if there is one."""
    origin = job.origin or {}
    for stored in store.find(Query(key=job.key or "", limit=1)).jobs if origin else []:
        other = stored.origin or {}
        if (other.get("format"), other.get("id")) == (origin["format"], origin["id"]):
            return stored
    return None
