"""Lists in the binary form of the server's arrays.

The driver packs each value by several calls, which was most of what a bulk submit cost us; a list of
one known type can be packed in one go. The types are those that our statements cast to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from struct import Struct, error, pack
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format

_HEAD = Struct("!iiIii")
_LENGTH = Struct("!i")
_NULL = _LENGTH.pack(-1)
_KINDS: dict[bytes, tuple[int, str]] = {
    b"text": (25, ""),
    b"int2": (21, "h"),
    b"int4": (23, "i"),
    b"int8": (20, "q"),
    b"float8": (701, "d"),
}
"""The number of each type at the server, and how a value of it is packed."""


class Array(bytes):
    """A packed list; statements say its type, so the server need not be told."""


class _ArrayDumper(Dumper):
    format = Format.BINARY
    oid = 0

    def dump(self, obj: Array) -> Buffer:
        """Pass it on as it is."""
        return obj


def know_arrays(cursor: psycopg.Cursor[Any]) -> None:
    """Make a cursor understand them; the connection, which may be the caller's, stays as it is."""
    cursor.adapters.register_dumper(Array, _ArrayDumper)


def packed(kind: bytes, values: Sequence[Any], encoding: str) -> Array:
    """Pack values of one type, text as the connection spells it.

    OverflowError or UnicodeError if one does not fit.
    """
    number, letter = _KINDS[kind]
    has_null = None in values
    head = _HEAD.pack(1, has_null, number, len(values), 1)
    if values and values.count(values[0]) == len(values):  # a lane, a handler; or nothing
        return Array(head + _packed_value(letter, values[0], encoding) * len(values))
    if letter and not has_null:
        return Array(head + _packed_numbers(letter, values))
    return Array(head + b"".join([_packed_value(letter, value, encoding) for value in values]))


def _packed_value(letter: str, value: Any, encoding: str) -> bytes:
    if value is None:
        return _NULL
    data = _packed_number(letter, value) if letter else value.encode(encoding)
    return _LENGTH.pack(len(data)) + data


def _packed_numbers(letter: str, values: Sequence[Any]) -> bytes:
    size = Struct("!" + letter).size
    try:
        return pack(
            "!" + f"i{letter}" * len(values), *chain.from_iterable(zip(repeat(size), values))
        )
    except error as problem:
        raise OverflowError(str(problem)) from problem


def _packed_number(letter: str, value: Any) -> bytes:
    try:
        return pack("!" + letter, value)
    except error as problem:
        raise OverflowError(str(problem)) from problem
