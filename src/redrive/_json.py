"""Strict JSON: the one rule that decides which payloads every store accepts.

What passes here can be kept by a file, by SQLite and by PostgreSQL without changing on
the way: one object, finite numbers, text that encodes as UTF-8, bounded depth and size.
Text from people keeps its number text, key order and escapes; only white space outside
strings is removed. Encoding rich types (dates, dataclasses) is the business of the typed
arguments, not of this module.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, cast

from redrive.errors import BadPayload

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_DEPTH: Final = 64
"""How many objects and arrays may lie inside one another, the outermost included."""

MAX_BYTES: Final = 1_048_576
"""How many bytes of UTF-8 a payload may have unless configured otherwise."""

# CPython's own default for int(); a process with a laxer setting must not store what
# the next process cannot read.
_MAX_DIGITS: Final = 4300
_INT_LIMIT: Final = 10**_MAX_DIGITS

# A small object can refer to itself a million times, so the walk gives up, before anything
# is written out, at more members than the limit has bytes, or so many times the limit in text.
_HEADROOM: Final = 16
_TOO_BIG: Final = "the limit is {limit:,}; store the bulk elsewhere and pass a reference"

_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_SPACE = re.compile(rf"({_STRING})|[ \t\n\r]++", re.DOTALL)
_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_SHOWN: Final = 80
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class _FaultError(Exception):
    """What is wrong, and the steps to it, innermost first."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.steps: list[object] = []


class _RepeatedKey:
    """Stands where an object had the same key twice, until the walk can say where."""

    def __init__(self, key: str) -> None:
        self.key = key


class _LongInteger:
    """Stands where an integer was too long, until the walk can say where."""


def dumps(value: object, *, max_bytes: int = MAX_BYTES) -> str:
    """Write this object as the text that is stored.

    Accepts exactly dict, list, tuple (as a list), str, int, float, bool and None, and
    keeps the order of keys. Raises BadPayload, naming the field, for everything else.

    >>> dumps({"id": 7, "lines": [10.5, None]})
    '{"id":7,"lines":[10.5,null]}'
    """
    if type(value) is not dict:
        raise BadPayload(f"a payload is a JSON object (a dict), not {_kind(value)}")
    _walk(cast("dict[str, Any]", value), max_bytes)
    try:
        text = _encode(value)
    except ValueError as error:  # an interpreter told to print fewer digits than we accept
        raise BadPayload(f"the payload cannot be written as JSON: {error}") from error
    _check_size(len(text) if text.isascii() else len(text.encode()), max_bytes)
    return text


def compact(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> str:
    """Check JSON text given by a person or a file and drop the white space it can spare.

    Numbers, escapes and key order stay as given. Raises BadPayload for whatever `dumps`
    would refuse, and for duplicate keys, a byte order mark or anything after the object.

    >>> compact(' { "price": 10.10, "id": 9223372036854775809 } ')
    '{"price":10.10,"id":9223372036854775809}'
    """
    source = _as_text(text)
    short = _SPACE.sub(r"\1", source)
    _check_size(len(short.encode()), max_bytes)
    _check_depth(short)
    # The source is parsed, not the short form: removing a space can join two numbers.
    value = _parse(_decode_strictly, source)
    _walk(value, max_bytes)
    return short


def loads(text: str) -> dict[str, Any]:
    """Read stored text back into an object.

    Trusts that the text came from `dumps` or `compact`, so it does not look for duplicate
    keys again; text that is damaged all the same raises BadPayload and never recurses.

    >>> loads('{"id":7}')
    {'id': 7}
    """
    _check_depth(text)
    return _parse(_decode, text)


def same(a: str, b: str) -> bool:
    """Say whether two stored texts hold the same value.

    Key order and the spelling of a number do not matter (10.10 is 10.1); whether a number
    is an integer does, because a handler can tell 1 from 1.0.

    >>> same('{"a":1,"b":10.10}', '{"b":10.1,"a":1}'), same('{"a":1}', '{"a":1.0}')
    (True, False)
    """
    if a == b:
        return True
    _check_depth(a)
    _check_depth(b)
    return _alike(_parse(_decode_exactly, a), _parse(_decode_exactly, b))


def _as_text(text: str | bytes) -> str:
    try:
        if isinstance(text, bytes):
            text = text.decode()
        else:
            text.encode()
    except UnicodeError as error:
        raise BadPayload(
            f"the text is not UTF-8: {error.args[-1]} (at {_offset(error)})"
        ) from error
    if text.startswith("\ufeff"):
        raise BadPayload("the text starts with a byte order mark; save it as plain UTF-8")
    return text


def _offset(error: UnicodeError) -> int:
    return error.start if isinstance(error, UnicodeDecodeError | UnicodeEncodeError) else 0


def _parse(decode: Callable[[str], object], text: str) -> dict[str, Any]:
    try:
        value = decode(text)
    except ValueError as error:
        raise BadPayload(f"the text is not JSON: {error}") from error
    if type(value) is _RepeatedKey:
        raise BadPayload(f"$ has the key {_shown(value.key)} twice")
    if type(value) is not dict:
        raise BadPayload(f"a payload is a JSON object, not {_kind(value)}")
    return cast("dict[str, Any]", value)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise BadPayload(f"the payload has {size:,} bytes, {_TOO_BIG.format(limit=limit)}")


def _check_depth(text: str) -> None:
    # Fewer brackets than levels cannot be too deep: most payloads stop here.
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACKET.finditer(text):
        part = match[0]
        if part in "{[":
            depth += 1
            if depth > MAX_DEPTH:
                raise BadPayload(f"the payload is nested deeper than {MAX_DEPTH} levels")
        elif part in "]}":
            depth -= 1


def _walk(value: Mapping[str, object], max_bytes: int) -> None:
    try:
        left = _check_object(value, 1, _HEADROOM * max_bytes)
    except _FaultError as fault:
        field = "$" + "".join(map(_step, reversed(fault.steps)))
        raise BadPayload(f"{field} {fault.why}", field=field) from None
    if left < 0:
        least = f"{max_bytes:,} bytes, {_TOO_BIG.format(limit=max_bytes)}"
        raise BadPayload(f"the payload has more than {least}")


def _check_object(value: Mapping[str, object], depth: int, left: int) -> int:
    left -= _weigh(value, depth)
    key = ""
    try:
        for key, item in value.items():
            left = _check_string(key, depth, left) if type(key) is str else _refuse_key(key)
            left = _CHECKS.get(type(item), _refuse)(item, depth + 1, left)
            if left < 0:
                break
    except _FaultError as fault:
        fault.steps.append(key)
        raise
    return left


def _check_array(value: Sequence[object], depth: int, left: int) -> int:
    left -= _weigh(value, depth)
    index = 0
    try:
        for index, item in enumerate(value):  # noqa: B007 - the handler below names it
            left = _CHECKS.get(type(item), _refuse)(item, depth + 1, left)
            if left < 0:
                break
    except _FaultError as fault:
        fault.steps.append(index)
        raise
    return left


def _weigh(value: Mapping[str, object] | Sequence[object], depth: int) -> int:
    if depth > MAX_DEPTH:
        raise _FaultError(f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
    return _HEADROOM * len(value)


def _check_string(value: str, _depth: int, left: int) -> int:
    if "\0" in value:
        raise _FaultError("contains a NUL character, which PostgreSQL cannot keep")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _FaultError("contains a lone surrogate, which is not Unicode text") from None
    return left - len(value)


def _check_int(value: int, _depth: int, left: int) -> int:
    if not -_INT_LIMIT < value < _INT_LIMIT:
        _check_long_integer(value, _depth, left)
    return left


def _check_float(value: float, _depth: int, left: int) -> int:
    if not isfinite(value):
        raise _FaultError("is not a finite number (NaN or infinity); use null or a string")
    return left


def _check_nothing(_value: object, _depth: int, left: int) -> int:
    return left


def _check_repeated_key(value: _RepeatedKey, _depth: int, _left: int) -> NoReturn:
    raise _FaultError(f"has the key {_shown(value.key)} twice")


def _check_long_integer(_value: object, _depth: int, _left: int) -> NoReturn:
    raise _FaultError(f"is an integer of more than {_MAX_DIGITS} digits; use a string")


def _refuse(value: object, _depth: int, _left: int) -> NoReturn:
    raise _FaultError(
        f"is {_kind(value)}, which is not JSON; annotate the handler's parameter or convert it"
    )


def _refuse_key(key: object) -> NoReturn:
    raise _FaultError(f"is a key {_kind(key)}; keys must be str")


_CHECKS: Final[dict[type, Callable[[Any, int, int], int]]] = {
    str: _check_string,
    int: _check_int,
    float: _check_float,
    bool: _check_nothing,
    type(None): _check_nothing,
    dict: _check_object,
    list: _check_array,
    tuple: _check_array,
    _RepeatedKey: _check_repeated_key,
    _LongInteger: _check_long_integer,
}


def _kind(value: object) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _shown(key: object) -> str:
    # ascii(): a key is foreign text and ends up in terminals and logs.
    text = ascii(key)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _step(step: object) -> str:
    if type(step) is str and _PLAIN_NAME.fullmatch(step):
        return f".{step}"
    return f"[{_shown(step)}]"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _RepeatedKey:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    counts = Counter(key for key, _ in pairs)
    return _RepeatedKey(next(key for key, count in counts.items() if count > 1))


def _integer(text: str) -> int | _LongInteger:
    return int(text) if len(text.lstrip("-")) <= _MAX_DIGITS else _LongInteger()


def _exact(text: str) -> object:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond even Decimal; a tuple equals no JSON value
        return ("number", text)


def _alike(a: object, b: object) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        left, right = cast("dict[str, object]", a), cast("dict[str, object]", b)
        return left.keys() == right.keys() and all(_alike(left[key], right[key]) for key in left)
    if isinstance(a, list):
        first, second = cast("list[object]", a), cast("list[object]", b)
        return len(first) == len(second) and all(map(_alike, first, second))
    return a == b


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode
_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
_decode_strictly = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer).decode
_decode_exactly = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_exact).decode
