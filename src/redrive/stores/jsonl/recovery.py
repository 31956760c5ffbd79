"""Reading a journal back, and telling a torn tail from damage.

After every sync, and before it is acknowledged, a mark is written behind what was synced. So a mark
that can be read says: all before it was on the disk. From this follows the whole rule.

- Bytes that cannot be read **before the last mark** were whole once: they are **damage**. It is
  reported with its offset, the journal is read-only, every line that is whole can still be read, and
  `repair` puts the damaged bytes aside.
- Bytes that cannot be read **after the last mark** were never promised to survive a power cut, and a
  crash may leave anything there: half a line, zeros, a hole with good lines behind it. They are a
  **torn tail**. The journal ends with the last whole operation before them; the rest goes to a file
  beside it, is cut off, and the log says so.

"Cannot be read" is a wrong checksum, a number that does not follow, or an operation without its last
line. A line whose checksum is right but whose values are of types that Redrive never writes there is
damage as well, wherever it stands. A mark that is itself torn is part of the tail. Only who holds the lock may judge a tail: for
everybody else it is a line being written. What a kill leaves behind is in the page cache with its
mark, so only a power cut and a flipped bit in the last operation together can be mistaken for a torn
tail, and even then the bytes are kept.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from redrive.errors import StoreForeign
from redrive.stores import _files
from redrive.stores.index.entries import Index
from redrive.stores.jsonl import lines
from redrive.stores.jsonl.lines import Line

LONGEST = 1 << 28
"""A line longer than this is none: reading zeros or noise must not fill the memory."""

HEADER = 4096  # the first line is shorter than this

_SMALL = 1 << 22
_LENGTH_BITS = 32


class Damage(NamedTuple):
    """Bytes that were whole once."""

    offset: int
    length: int


@dataclass(slots=True)
class Reading:
    """How far a journal was read and what was found; reading on goes on from here."""

    end: int
    """Behind the last whole operation."""
    seq: int
    """The number of the last line."""
    synced: int
    """The number up to which a mark was seen."""
    last: tuple[int, bytes] = (0, b"")
    """Where the last line begins, and its first bytes: to see whether it is still the same."""
    lines: int = 0
    damage: list[Damage] = field(default_factory=list[Damage])
    crlf: bool = False
    """True if an editor changed the line ends: such a file is read, but not written."""


class _Mark(NamedTuple):
    line: Line
    raw: bytes
    offset: int


Take = Callable[[Line, bytes, int], None]
"""What to do with a whole line that begins at an offset."""


def read_on(descriptor: int, reading: Reading, take: Take) -> None:
    """Read whole operations from where the last reading ended, damage or not."""
    with _no_collector():
        bad = _read_whole(descriptor, reading, take)
        mark = None if bad is None else _last_mark(descriptor, reading, bad)
        if mark is not None:
            _salvage(descriptor, reading, take, mark)
            _read_whole(descriptor, reading, take)


@contextlib.contextmanager
def _no_collector() -> Generator[None]:
    """Hold the garbage collector: it would look through millions of new entries, for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _read_whole(descriptor: int, reading: Reading, take: Take) -> int | None:
    """Take operations as long as everything is right; gives the offset where it stopped being so."""
    waiting: list[tuple[Line, bytes, int]] = []
    seq, offset, crlf, parse = reading.seq, reading.end, reading.crlf, lines.parse
    for raw in _lines_from(descriptor, offset):
        found = parse(plain(raw) if crlf else raw)
        seq += 1
        if found is None or found.seq != seq:
            return offset
        if waiting or not found.ends:
            waiting.append((found, raw, offset))
        else:
            _take(found, raw, offset, take, reading)
        if found.ends:
            for one in waiting:
                _take(*one, take, reading)
            waiting.clear()
        offset += len(raw)
    return waiting[0][2] if waiting else None


def _salvage(descriptor: int, reading: Reading, take: Take, mark: _Mark) -> None:
    """Take every whole line up to a mark, and note the bytes between them as damage."""
    offset = bad_from = reading.end
    for raw in _lines_from(descriptor, offset):
        if offset >= mark.offset:
            break
        found = _parse(raw, crlf=reading.crlf)
        if found is not None and found.seq > reading.seq:
            _note_damage(reading, bad_from, offset, found.seq)
            _take(found, raw, offset, take, reading)
            bad_from = reading.end
        offset += len(raw)
    _note_damage(reading, bad_from, mark.offset, mark.line.seq)
    _take(mark.line, mark.raw, mark.offset, take, reading)


def _note_damage(reading: Reading, start: int, end: int, seq: int) -> None:
    """Note what lies between two whole lines: bytes, or numbers that are not there."""
    if start < end or seq != reading.seq + 1:
        reading.damage.append(Damage(start, end - start))


def _take(found: Line, raw: bytes, offset: int, take: Take, reading: Reading) -> None:
    try:
        take(found, raw, offset)
    except (RecursionError, TypeError, AttributeError) as error:
        # Nested deeper than Redrive ever writes, or a value of a type that it never writes there:
        # whatever its checksum says.
        _files.log.error("line %d at byte %d cannot be read: %s", found.seq, offset, error)
        reading.damage.append(Damage(offset, len(raw)))
    reading.seq = found.seq
    reading.end = offset + len(raw)
    reading.last = (offset, raw[:40])
    reading.lines += 1
    if found.kind == "mark":
        reading.synced = found.seq


def _last_mark(descriptor: int, reading: Reading, offset: int) -> _Mark | None:
    """Return the last readable mark behind an offset."""
    last = None
    for raw in _lines_from(descriptor, offset):
        # Behind the last beginning of a line, because the line feed before it may be what is bad.
        at = max(raw.rfind(lines.START), 0)
        found = _parse(raw[at:], crlf=reading.crlf)
        if found is not None and found.kind == "mark" and found.seq > reading.seq:
            last = _Mark(found, raw[at:], offset + at)
        offset += len(raw)
    return last


def _parse(raw: bytes, *, crlf: bool) -> Line | None:
    return lines.parse(plain(raw) if crlf else raw)


def plain(raw: bytes) -> bytes:
    """Undo what an editor did to the end of a line."""
    return raw[:-2] + b"\n" if raw.endswith(b"\r\n") else raw


def _lines_from(descriptor: int, offset: int) -> Iterator[bytes]:
    """Return the lines of a file, cut at line feeds only."""
    ahead = os.fstat(descriptor).st_size - offset
    if ahead <= 0:
        return iter(())
    file: BinaryIO
    if ahead <= _SMALL:
        file = io.BytesIO(os.pread(descriptor, ahead, offset))
    else:
        file = open(descriptor, "rb", 1 << 20, closefd=False)  # noqa: SIM115
        file.seek(offset)
    return iter(partial(file.readline, LONGEST), b"")


def packed(offset: int, length: int) -> int:
    """Return a line's place as one number."""
    return offset << _LENGTH_BITS | length


def unpacked(place: int) -> tuple[int, int]:
    """Return a line's offset and length."""
    return place >> _LENGTH_BITS, place & ((1 << _LENGTH_BITS) - 1)


def into(index: Index, place: Path) -> Take:
    """Return the function that puts lines into an index."""

    def take(found: Line, raw: bytes, offset: int) -> None:
        try:
            if found.kind == "job":
                index.apply_head(lines.head_of(raw, found), packed(offset, len(raw)))
                return
            change = lines.change_of(raw, found)
        except (KeyError, ValueError) as error:
            raise _unknown(place, offset, f"its {found.kind} has no {error}") from error
        if change is not None:
            index.apply(change, packed(offset, len(raw)))
        elif found.kind != "mark":
            raise _unknown(place, offset, f"it is a {found.kind!r}")

    return take


def _unknown(place: Path, offset: int, what: str) -> StoreForeign:
    return StoreForeign(
        f"{place} has a line at byte {offset} that this Redrive does not know ({what})"
    )


def is_stillborn(place: Path, descriptor: int, size: int) -> bool:
    """Return True if making the file was cut short before anything was stored; empties it then."""
    start = os.pread(descriptor, HEADER, 0)
    born = start.rstrip(b"\0")
    whole = b'{"redrive":"jsonl","version":'
    if size > HEADER or b"\n" in start or born[: len(whole)] != whole[: len(born)]:
        return False
    aside = quarantine(place, descriptor, [Damage(0, size)])
    _files.log.warning("%s was never finished; its %d bytes are in %s", place, size, aside)
    os.ftruncate(descriptor, 0)
    return True


def doubts(place: Path) -> Path:
    """Name the file that says: a sync failed here.

    The system may then have dropped bytes that it still shows to every reader. While this file is
    there, the journal has to be written anew before anything is added. It need not be synced: after
    a power cut everybody sees what is on the disk.
    """
    return place.with_name(place.name + ".unsynced")


def quarantine(place: Path, descriptor: int, stretches: list[Damage]) -> Path:
    """Copy bytes of a journal to a new file beside it, synced, so that nothing is thrown away."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = place.with_name(f"{place.name}.quarantine-{stamp}")
    copy = _files.open_private(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        for stretch in stretches:
            _copy(descriptor, stretch, copy)
        os.fsync(copy)
    except OSError:
        aside.unlink()
        raise
    finally:
        os.close(copy)
    return aside


def _copy(source: int, stretch: Damage, target: int) -> None:
    offset, end = stretch.offset, stretch.offset + stretch.length
    while offset < end:
        part = os.pread(source, min(end - offset, 1 << 20), offset)
        if not part:
            return
        _files.write_all(target, part)
        offset += len(part)
