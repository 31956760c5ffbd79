"""Records from tables and from CSV files, as the pieces that an import reads."""

from __future__ import annotations

import base64
import codecs
import csv
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, Self

from redrive.desk.transfer.formats.fields import Raw
from redrive.desk.transfer.formats.pieces import LONGEST, MORE, Piece, pieces
from redrive.errors import StoreError, UsageError
from redrive.jobs import checks
from redrive.stores import place_of

_BATCH: Final = 1000
_CHUNK: Final = 1 << 18
_READS: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
"""All that a query in SQLite may do."""
_TABLE = re.compile(r'(?:"(?:[^"\0]|"")+"|[^".\0]+)(?:\.(?:"(?:[^"\0]|"")+"|[^".\0]+))?')
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_DELIMITERS: Final = ",;\t|"
_VERBATIM: Final = (Decimal, Raw)
_QUARANTINE = re.compile(rb'(?:\xef\xbb\xbf)?\{"line": \d+, "offset": \d+, "reason": "')
"""How a quarantine file begins."""
_DAMAGED: Final = "redrive-damaged"  # surrogateescape cannot keep the bytes of UTF-16
codecs.register_error(_DAMAGED, lambda error: ("\udcff", error.args[3]))


Source = IO[bytes] | Iterable[bytes] | Iterable[Piece]
"""An open file, lines (with their ends or without), or what is cut already, as rows of a table are."""


def pieces_of(source: Source, path: tuple[str, ...] | None = None) -> Iterator[Piece]:
    """Cut JSON into records; what is cut already stays as it is."""
    read: Any = getattr(source, "read", None)
    items = source if isinstance(source, Iterable) else [source]
    items_read: Iterator[Any] = iter(partial(read, _CHUNK), b"") if read else iter(items)
    first = next(items_read, b"")
    if isinstance(first, Piece):
        yield first
        yield from items_read
    elif not isinstance(first, bytes):
        kind = type(first).__name__
        raise UsageError(f"lines must be bytes, such as open(path, 'rb') yields; found {kind}")
    else:
        chunks = chain([first], items_read)
        yield from pieces(
            (chunk if read or chunk.endswith(b"\n") else chunk + b"\n" for chunk in chunks), path
        )


@contextmanager
def utf8(file: IO[bytes], encoding: str = "utf-8") -> Generator[IO[bytes]]:
    """Yield a file in UTF-8: the file itself, or a copy of one in another encoding.

    A byte order mark of UTF-16 counts more than the name, and a quarantine file is in UTF-8.
    """
    head = file.read(_CHUNK)
    is_utf16 = head[:2] in {codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE} and b"\0" in head
    name = "utf-16" if is_utf16 else "utf-8" if _QUARANTINE.match(head) else encoding
    file.seek(0)
    try:
        codec = codecs.lookup(name).name
        b"a".decode(codec, _DAMAGED)
    except (LookupError, ValueError):
        raise UsageError(
            f"{name!r} is not a known encoding; use one such as utf-8, utf-16, cp932 or latin-1"
        ) from None
    if codec in {"utf-8", "utf-8-sig"}:
        yield file
        return
    errors = _DAMAGED if codec.startswith("utf") else "surrogateescape"
    decode = codecs.getincrementaldecoder(name)(errors).decode
    with TemporaryFile() as copy:
        for chunk in iter(partial(file.read, _CHUNK), b""):
            copy.write(decode(chunk).encode("utf-8", "surrogateescape"))
        copy.write(decode(b"", True).encode("utf-8", "surrogateescape"))
        copy.seek(0)
        yield copy


def records(source: Source, path: str = "") -> Iterator[Piece]:
    """Cut a file of any shape into records: JSON, JSON Lines, or CSV with a line of column names."""
    if not hasattr(source, "read"):
        return pieces_of(source, ())
    file: Any = source
    head = file.read(_CHUNK)
    file.seek(0)
    if head.removeprefix(codecs.BOM_UTF8).lstrip()[:1] in {b"{", b"[", b""}:
        return pieces_of(source, tuple(path.split(".")) if path else ())
    return _csv(file)


def _csv(file: IO[bytes]) -> Iterator[Piece]:
    """Yield the rows of a CSV file; one that does not fit the header is a bad record."""
    csv.field_size_limit(LONGEST)
    lines = _Lines(file)
    first = lines.peek()
    delimiter = max(_DELIMITERS, key=first.count)
    if separator := re.fullmatch(r"sep=(.)\s*", first):  # a line that Excel writes and reads
        delimiter, _ = separator[1], next(lines)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    columns = _columns(reader, lines)
    while True:
        number, offset = lines.number + 1, lines.offset
        try:
            cells = next(reader, None)
        except csv.Error as error:
            text = json.dumps({MORE: lines.since(number)})
            yield Piece(number, offset, text.encode(), trouble=f"is not CSV: {error}")
            continue
        if cells is None:
            return
        lines.since(number)
        row: dict[str, object] = dict(zip(columns, cells, strict=False))
        if cells and len(cells) != len(columns):
            row |= {MORE: cells[len(columns) :]}
            why = f"has {len(cells)} cells, and the header has {len(columns)}"
            yield piece_of(row, number, offset)._replace(trouble=why)
        elif cells:
            yield piece_of(row, number, offset)


def _columns(reader: Iterator[list[str]], lines: _Lines) -> list[str]:
    """Read the header; a column without a name is named by its place."""
    start, names, trouble = lines.number + 1, list[str](), ""
    try:
        names = next(reader, names)
    except csv.Error as error:
        trouble = str(error)
    header = "".join(lines.since(start))
    if re.search("[\ud800-\udfff\0]", header):
        name = "utf-16-le" if "\0" in header else "cp932"
        raise UsageError(f"the header is not UTF-8; name its encoding, such as --encoding {name}")
    if trouble:
        why = "its line ends are carriage returns" if "\r" in header.rstrip() else trouble
        raise UsageError(f"the header is not CSV: {why}; correct it or convert the file")
    columns = [name or f"column_{number}" for number, name in enumerate(names, 1)]
    if twice := [name for name, number in Counter(columns).items() if number > 1]:
        raise UsageError(f"the header names the column {twice[0]!r} twice; rename one of them")
    return columns


class _Lines:
    """The lines of a file as text, with the place that was read up to."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._kept: list[str] = []
        self.number = self.offset = 0

    def peek(self) -> str:
        """Return the first line."""
        line = self._file.readline(LONGEST).removeprefix(codecs.BOM_UTF8)
        self._file.seek(0)
        return line.decode("utf-8", "surrogateescape")

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        raw = self._file.readline(LONGEST)
        if not raw:
            raise StopIteration
        self.number += 1
        self.offset += len(raw)
        raw = raw.removeprefix(codecs.BOM_UTF8) if self.number == 1 else raw
        self._kept.append(raw.decode("utf-8", "surrogateescape"))
        return self._kept[-1]

    def since(self, number: int) -> list[str]:
        """Return the lines from that one on, and forget them."""
        kept, self._kept = self._kept[-(self.number - number + 1) :], []
        return kept


def rows(url: str, table: str = "", query: str = "") -> Iterator[Piece]:
    """Read a table, or what a query returns, as it stands at one moment; nothing is changed."""
    if query:
        return _read(url, checks.text(query, "query"), "the query")
    quoted = _identifier(table)
    return _read(url, f"SELECT * FROM {quoted}", f"the table {table}")  # noqa: S608 - identifiers


def count_of(url: str, table: str) -> int:
    """Return how many rows a table has."""
    query = f"SELECT count(*) AS n FROM {_identifier(table)}"  # noqa: S608 - identifiers
    [piece] = _read(url, query, f"the table {table}")
    return int(json.loads(piece.raw)["n"])


def _identifier(table: str) -> str:
    if not _TABLE.fullmatch(checks.text(table, "table")):
        raise UsageError(
            f"{table!r} is not the name of a table; write it like jobs or public.jobs, and a name"
            " with dots or quotes in double quotes"
        )
    names = [quoted.replace('""', '"') or bare for quoted, bare in _PART.findall(table)]
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _read(url: str, query: str, what: str) -> Iterator[Piece]:
    checks.text(url, "url")
    if re.match(r"(?!sqlite:|postgres(ql)?:)[a-z]{2,}:", url):
        raise UsageError(
            f"a table is read from SQLite or PostgreSQL; {url.partition(':')[0]}: is neither."
            " Name the database with --from sqlite:PATH or --from postgresql://HOST/DATABASE"
        )
    place = place_of(url)
    found = _sqlite(place, query, what) if place else _postgres(url, query, what)
    columns = [str(name) for name in next(found)]
    if twice := [name for name, number in Counter(columns).items() if number > 1]:
        raise UsageError(f"{what} returns the column {twice[0]} twice; rename one of them with AS")
    for number, row in enumerate(found, 1):
        yield piece_of(dict(zip(columns, row, strict=True)), number)


def piece_of(row: Mapping[str, object], number: int, offset: int = 0) -> Piece:
    """Make a piece of a row."""
    try:
        if any(isinstance(value, _VERBATIM) for value in row.values()):
            members = (f"{_encode(str(name))}: {_text(value)}" for name, value in row.items())
            text = "{" + ", ".join(members) + "}"
        else:
            text = _encode(row)
        return Piece(number, offset, text.encode("utf-8", "backslashreplace"), is_row=True)
    except (ValueError, TypeError, RecursionError) as error:
        text = json.dumps({str(name): repr(value) for name, value in row.items()})
        return Piece(number, offset, text.encode(), trouble=f"cannot be written as JSON: {error}")


def _text(value: object) -> str:
    """Write a value as JSON; a number that is exact stays so."""
    if isinstance(value, Decimal) and value.is_finite():
        return f"{value:f}"
    return str(value) if isinstance(value, Raw) else _encode(value)


def _plain(value: Any) -> object:
    """Return what JSON can hold of a value; bytes are text, or an object with their base 64."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except ValueError:
            return {"base64": base64.b64encode(value).decode()}
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


_encode = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def _postgres(url: str, query: str, what: str) -> Iterator[Sequence[object]]:
    """Yield the names of the columns, and the rows; times and JSON as PostgreSQL spells them."""
    from redrive.stores.postgres.address import read_url  # noqa: PLC0415, I001 - says what is missing

    import psycopg  # noqa: PLC0415 - an extra
    from psycopg.types.json import set_json_loads  # noqa: PLC0415
    from psycopg.types.string import TextLoader  # noqa: PLC0415

    try:
        with psycopg.connect(read_url(url).conninfo) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            set_json_loads(_raw, connection)
            for kind in ("timestamptz", "timestamp", "date"):  # Python has no infinity
                connection.adapters.register_loader(kind, TextLoader)
            connection.execute("SET datestyle = 'ISO'")
            with connection.cursor("redrive_import") as cursor:
                cursor.itersize = _BATCH
                cursor.execute(query.encode())
                yield [column.name for column in cursor.description or ()]
                yield from cursor
    except psycopg.Error as error:
        why = str(error).partition("\n")[0]
        raise StoreError(f"{what} cannot be read: {why}") from error


def _raw(data: str | bytes) -> Raw:
    return Raw(data if isinstance(data, str) else bytes(data).decode())


def _reads_only(action: int, *_: object) -> int:
    return sqlite3.SQLITE_OK if action in _READS else sqlite3.SQLITE_DENY


def _sqlite(place: Path, query: str, what: str) -> Iterator[Sequence[object]]:
    place = place.expanduser()
    if not place.is_file():
        raise StoreError(f"there is no SQLite file {place}; name it with --from sqlite:PATH")
    try:
        with closing(sqlite3.connect(f"{place.absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.set_authorizer(_reads_only)
            # What is no UTF-8 makes its row a bad one, and not the whole import.
            db.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
            cursor = db.execute(query)
            yield [column[0] for column in cursor.description]
            yield from cursor
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise StoreError(f"{what} cannot be read from {place}: {error}") from error
