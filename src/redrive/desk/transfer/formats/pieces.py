"""Cutting a file into records, whatever way it is laid out, with no more of it in memory than one.

A file is either lines, one record each, or JSON that runs over lines: one value after the other,
arrays of records, or a frame around them (`{"queue": {"items": […]}}`). A line that is damaged costs
that line. In a document, what is inside brackets that match costs itself alone; where brackets do not
match any more, all that follows is one damaged piece. Nothing is ever left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

MORE: Final = ""  # the name of what has no column, in a row that does not fit its table
LONGEST: Final = 64 * 1024 * 1024  # bytes of a record; what is longer is no job of ours
_HEAD: Final = 1 << 16
_FRAMES: Final = frozenset({"queue", "items", "bigquerySyncFailures"})
_RECORDS: Final = frozenset(
    {"redrive", "jobId", "article_data", "job_id", "originalData", "event_id"}
)
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)'
"""A string, and its last quote: without one the rest of it is still to be read."""
_TOKEN = re.compile(rb"(?s:" + _STRING + rb")|[\[\]{}:,]|[^\s\[\]{}:,\"]+")
_BRACKET = re.compile(rb"(?s:" + _STRING + rb")|[\[\]{}]")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_OPEN, _QUOTE = frozenset(b"{["), 0x22

Kind = Literal["list", "frame", "map"]
Path = tuple[str, ...]


class Piece(NamedTuple):
    """One record as it stands in the file."""

    number: int
    """The line it begins on, counted from 1."""
    offset: int
    """Bytes before it."""
    raw: bytes
    name: str = ""
    """What it stands under, where records are members of an object."""
    trouble: str = ""
    """Why it cannot be a record, if that is known already."""
    is_row: bool = False
    """True for a row of a table, which has the columns of all others."""


class _Broken(Exception):
    """From here on it is no JSON."""


def pieces(chunks: Iterable[bytes], path: Path | None = None) -> Iterator[Piece]:
    """Cut bytes, in whatever chunks they come; what is empty is nothing.

    The records of one document are inside the members of `path`; if that is empty, nothing is a frame
    around records. Without it the frames of the formats are known.
    """
    stream = _Stream(iter(chunks))
    stream.head()
    if stream.data.startswith(b"\xef\xbb\xbf"):
        stream.at = 3
    if path:
        return _values(stream, path)
    return _lines(stream) if _is_lines(stream.head(), path) else _values(stream, path)


class _Stream:
    """Bytes of which the beginning is forgotten once it was taken."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self.data = b""
        self.at = 0
        self._before = 0
        self._number = 1

    def more(self) -> bool:
        """Read on; what was taken is forgotten. False at the end."""
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self._before += self.at
        self.data = self.data[self.at :] + chunk
        self.at = 0
        return True

    def head(self) -> bytes:
        """Return what comes next, enough to tell what it is."""
        while len(self.data) - self.at < _HEAD and self.more():
            pass
        return self.data[self.at : self.at + _HEAD]

    def take(self, end: int, name: str = "", trouble: str = "") -> Piece:
        """Return the bytes up to there."""
        raw = self.data[self.at : end]
        piece = Piece(self._number, self._before + self.at, raw, name, trouble)
        self._number += raw.count(b"\n")
        self.at = end
        return piece

    def next(self) -> int:
        """Go to the next byte that is no white space, and give it; -1 at the end."""
        while True:
            self.take(_space_end(self.data, self.at))
            if self.at < len(self.data):
                return self.data[self.at]
            if not self.more():
                return -1

    def pass_over(self, byte: bytes) -> None:
        """Take one byte, which must be that one."""
        if self.next() != byte[0]:
            raise _Broken
        self.take(self.at + 1)

    def end_of_value(self) -> int:
        """Find where the value that begins here ends."""
        if self.next() not in _OPEN:
            return self._end_of_scalar()
        depth, done = 0, 0
        while True:
            for token in _BRACKET.finditer(self.data, self.at + done):
                first = token[0][0]
                if first == _QUOTE:
                    if not token[1]:
                        break
                else:
                    depth += 1 if first in _OPEN else -1
                    if depth == 0:
                        return token.end()
                done = token.end() - self.at
            if len(self.data) - self.at > LONGEST or not self.more():
                raise _Broken

    def _end_of_scalar(self) -> int:
        while True:
            token = _TOKEN.match(self.data, self.at)
            # A string ends with its quote, and anything else where something else begins.
            if token is not None and (
                token[1] if token[0][0] == _QUOTE else token.end() < len(self.data)
            ):
                return token.end()
            if len(self.data) - self.at > LONGEST or not self.more():
                raise _Broken


def _space_end(data: bytes, at: int) -> int:
    match = _SPACE.match(data, at)
    return match.end() if match else at


def _lines(stream: _Stream) -> Iterator[Piece]:
    """Yield the lines; one that is too long for a record comes in parts, each of them bad."""
    looked = 0
    while True:
        end, most = stream.data.find(b"\n", stream.at + looked) + 1, stream.at + LONGEST + 1
        if max(end, 0 if end else len(stream.data)) > most:
            end = most
        if end == 0:
            looked = len(stream.data) - stream.at
            if stream.more():
                continue
            end = len(stream.data)
        looked = 0
        piece = stream.take(end)
        if not piece.raw:
            return
        if piece.raw.strip():
            yield piece


def _values(stream: _Stream, path: Path | None) -> Iterator[Piece]:
    """Yield the records of JSON that runs over lines."""
    try:
        while stream.next() >= 0:
            kind = _kind_of(stream.head(), path)
            if kind is None:
                yield stream.take(stream.end_of_value())
            else:
                yield from _inside(stream, kind, path)
    except _Broken:
        yield from _remains(stream)


def _remains(stream: _Stream) -> Iterator[Piece]:
    """Yield what is left of a document that is cut or damaged, in parts if it is long."""
    is_cut = True
    while True:
        while len(stream.data) - stream.at <= LONGEST and stream.more():
            pass
        left = len(stream.data) - stream.at
        if not left and not is_cut:
            return
        why = "the document is cut short, or is not JSON from here on"
        yield stream.take(stream.at + min(left, LONGEST), "", why)
        is_cut = False


def _inside(stream: _Stream, kind: Kind, path: Path | None) -> Iterator[Piece]:
    """Yield the records inside an array, a frame around records, or a map of them by name."""
    stream.take(stream.at + 1)
    close = b"]" if kind == "list" else b"}"
    is_first = True
    while stream.next() != close[0]:
        if not is_first:
            stream.pass_over(b",")
        is_first = False
        name = "" if kind == "list" else _name(stream)
        inner: Kind | None = None
        if name in (_FRAMES if path is None else path[:1]) and stream.next() in _OPEN:
            inner = _inner(name, stream.next(), path)
        if inner is not None:
            yield from _inside(stream, inner, path and path[1:])
            continue
        piece = stream.take(stream.end_of_value(), name)
        if kind != "frame":
            yield piece
    stream.take(stream.at + 1)


def _inner(name: str, opening: int, path: Path | None) -> Kind:
    if opening == b"["[0]:
        return "list"
    return "frame" if (name == "queue" if path is None else path[1:]) else "map"


def _name(stream: _Stream) -> str:
    """Take the name of a member and the colon after it."""
    if stream.next() != _QUOTE:
        raise _Broken
    raw = stream.take(stream.end_of_value()).raw
    stream.pass_over(b":")
    try:
        return str(json.loads(raw))
    except ValueError:
        raise _Broken from None


def _is_lines(head: bytes, path: Path | None) -> bool:
    """Return True if a file, by its beginning, has a record on each line."""
    start, ended, rest = head.lstrip().partition(b"\n")
    if start.startswith(b"[") or _kind_of(head.lstrip(), path) is not None:
        return False
    if not start.startswith(b"{") or _is_whole(start):
        return True
    runs_on = bool(ended) and start.rstrip().endswith((b"{", b"[", b","))
    return not runs_on or _is_whole(rest.lstrip().partition(b"\n")[0])


def _is_whole(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _kind_of(head: bytes, path: Path | None) -> Kind | None:
    """Return what is around records, by the names at its beginning; None for a record itself."""
    if head.startswith(b"["):
        return "list"
    if path is not None:
        return "frame" if path else None
    outer, inner = _names(head)
    if outer & _RECORDS:
        return None
    if outer & {"queue", "items"}:
        return "frame"
    return "map" if "bigquerySyncFailures" in outer or "originalData" in inner else None


def _names(head: bytes) -> tuple[set[str], set[str]]:
    """Return the names of members, and of their members, as far as they can be seen."""
    names: tuple[set[str], set[str]] = (set(), set())
    depth, last = 0, b""
    for match in _TOKEN.finditer(head):
        token = match[0]
        if token == b":" and 1 <= depth <= len(names):
            names[depth - 1].add(last[1:-1].decode(errors="replace"))
        depth += (token in {b"{", b"["}) - (token in {b"}", b"]"})
        if depth <= 0:
            break
        last = token
    return names
