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
_TABLE = Struct("!iiIiiii")
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
_VALUES = {letter: Struct(f"!i{letter}") for _, letter in _KINDS.values() if letter}
"""A number with its length before it."""


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
    return Array(
        _HEAD.pack(1, 1, number, len(values), 1) + _packed_values(letter, values, encoding)
    )


def packed_table(kind: bytes, columns: Sequence[Sequence[Any]], encoding: str) -> bytes:
    """Pack columns of one type as an array of two dimensions: columns, then rows."""
    number, letter = _KINDS[kind]
    head = _TABLE.pack(2, 1, number, len(columns), 1, len(columns[0]), 1)
    return head + b"".join([_packed_values(letter, column, encoding) for column in columns])


def _packed_values(letter: str, values: Sequence[Any], encoding: str) -> bytes:
    count = len(values)
    if count and values.count(values[0]) == count:  # a lane, a handler; or one job
        return _packed_value(letter, values[0], encoding) * count
    if letter and None not in values:
        return _packed_numbers(letter, values)
    return b"".join([_packed_value(letter, value, encoding) for value in values])


def _packed_value(letter: str, value: Any, encoding: str) -> bytes:
    if value is None:
        return _NULL
    if letter:
        return _packed_numbers(letter, (value,))
    data: bytes = value.encode(encoding)
    return _LENGTH.pack(len(data)) + data


def _packed_numbers(letter: str, values: Sequence[Any]) -> bytes:
    one = _VALUES[letter]
    try:
        if len(values) == 1:
            return one.pack(one.size - 4, *values)
        return pack(
            "!" + f"i{letter}" * len(values),
            *chain.from_iterable(zip(repeat(one.size - 4), values)),
        )
    except error as problem:
        raise OverflowError(str(problem)) from problem
