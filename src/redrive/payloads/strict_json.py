"""Strict JSON: the one rule that decides which payloads every store accepts.

What passes here can be kept by a file, by SQLite and by PostgreSQL without changing on
the way: one object, finite numbers, text that encodes as UTF-8, bounded depth and size.
Text from people keeps its number text, key order and escapes; only white space outside
strings is removed. Rich types (dates, dataclasses) are the business of the typed arguments.
"""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import accumulate
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from redrive.errors import BadPayload

if TYPE_CHECKING:
    from collections.abc import Callable

Json: TypeAlias = dict[str, Any] | list[Any] | str | int | float | bool | None

MAX_DEPTH: Final = 64
"""How many objects and arrays may lie inside one another, the outermost included."""

MAX_BYTES: Final = 1_048_576
"""How many bytes of UTF-8 a payload may have unless configured otherwise."""

# CPython's own default for int(); a process with a laxer setting must not store what
# the next process cannot read.
_INT_LIMIT: Final = 10**4300

_SHOWN: Final = 80
_STRING: Final = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_SPACE = re.compile(rf"({_STRING})|[ \t\n\r]++", re.DOTALL)
_BRACKET = re.compile(rf"{_STRING}|([\[\]{{}}])", re.DOTALL)
_LEVELS: Final = {"{": 1, "[": 1, "}": -1, "]": -1, "": 0}


class _Fault(Exception):
    """What is wrong, and the steps to it, innermost first.

    One may also lie in a parsed value, where only the walk can say where that is.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.steps: list[object] = []


def dumps(value: object, *, max_bytes: int = MAX_BYTES) -> str:
    """Write this object as the text that is stored.

    Accepts exactly dict, list, tuple (as a list), str, int, float, bool and None, and
    keeps the order of keys. Raises BadPayload, naming the field, for everything else.

    >>> dumps({"id": 7, "lines": [10.5, None]})
    '{"id":7,"lines":[10.5,null]}'
    """
    _walk(value)
    text = "".join(_parts(value, 0))
    _check_size(len(text.encode()), max_bytes)
    return text


def compact(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> str:
    """Check JSON text given by a person or a file and drop the white space it can spare.

    Numbers, escapes and key order stay as given. Raises BadPayload for whatever `dumps`
    would refuse, and for duplicate keys or anything after the object.

    >>> compact(' { "price": 10.10, "id": 9223372036854775809 } ')
    '{"price":10.10,"id":9223372036854775809}'
    """
    try:
        source = text.decode() if isinstance(text, bytes) else text
        short = _SPACE.sub(r"\1", source)
        size = len(short.encode())
    except UnicodeError as error:
        raise BadPayload(f"the text is not UTF-8: {error}") from error
    _check_size(size, max_bytes)
    # The source is parsed, not the short form: removing a space can join two numbers.
    read(source)
    return short


def read(text: str) -> dict[str, Any]:
    """Read text given by a file, and refuse what `compact` would refuse, but for its length.

    >>> read(' {"id": 7} ')
    {'id': 7}
    """
    value = _parse(_decode_strictly, text)
    _walk(value)
    return cast("dict[str, Any]", value)


def loads(text: str) -> dict[str, Any]:
    """Read stored text back into an object.

    Trusts that the text came from `dumps` or `compact`, so it does not look for duplicate
    keys again; text that is damaged all the same raises BadPayload and never recurses.

    >>> loads('{"id":7}')
    {'id': 7}
    """
    value = _parse(_decode_own, text)
    if type(value) is not dict:
        raise BadPayload(f"a payload is a JSON object, not {_kind(value)}")
    return cast("dict[str, Any]", value)


def same(a: str, b: str) -> bool:
    """Return True if two stored texts hold the same value, as a handler would see it.

    Key order and the spelling of a number do not matter (10.10 is 10.1); whether a number
    is an integer does, because a handler can tell 1 from 1.0.

    >>> same('{"a":1,"b":10.10}', '{"b":10.1,"a":1}'), same('{"a":1}', '{"a":1.0}')
    (True, False)
    """
    return a == b or _canonical(loads(a)) == _canonical(loads(b))


def _parse(decode: Callable[[str], object], text: str) -> object:
    # Fewer brackets than levels cannot be too deep: most payloads stop here.
    if text.count("{") + text.count("[") > MAX_DEPTH:
        levels = map(_LEVELS.__getitem__, _BRACKET.findall(text))
        if any(depth > MAX_DEPTH for depth in accumulate(levels)):
            raise BadPayload(f"the payload is nested deeper than {MAX_DEPTH} levels")
    try:
        return decode(text)
    except ValueError as error:
        raise BadPayload(f"the text is not JSON: {error}") from error


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        bulk = "store the bulk elsewhere and pass a reference"
        raise BadPayload(f"the payload has {size:,} bytes, the limit is {limit:,}; {bulk}")


def _walk(value: object) -> None:
    if type(value) not in (dict, _Fault):
        raise BadPayload(f"a payload is a JSON object (a dict), not {_kind(value)}")
    try:
        _check(value, 0)
    except _Fault as fault:
        field = "$" + "".join(map(_step, reversed(fault.steps)))
        raise BadPayload(f"{field} {fault}", field=field) from None


def _check(value: object, depth: int) -> None:
    """Refuse what not every store can keep."""
    if type(value) is int:
        if not -_INT_LIMIT < value < _INT_LIMIT:
            raise _Fault("is an integer of more than 4300 digits; use a string")
    elif type(value) is float:
        if not isfinite(value):
            raise _Fault("is not a finite number (NaN or infinity); use null or a string")
    elif type(value) in (dict, list, tuple):
        _check_members(cast("Any", value), depth + 1)
    elif type(value) is _Fault:
        raise value
    else:
        raise _Fault(f"is {_kind(value)}, which is not JSON; annotate the parameter or convert it")


def _check_text(value: str) -> None:
    if "\0" in value:
        raise _Fault("contains a NUL character, which PostgreSQL cannot keep")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _Fault("contains a lone surrogate, which is not Unicode text") from None


def _check_members(value: dict[object, object] | list[object], depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Fault(f"is nested deeper than {MAX_DEPTH} levels, or contains itself")
    step: object = None
    try:
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            if type(step) is str:
                _check_text(step)
            elif isinstance(value, dict):
                raise _Fault(f"is a key {_kind(step)}; keys must be str")
            if type(item) is str:
                _check_text(item)
            elif item is not None and type(item) is not bool:
                _check(item, depth)
    except _Fault as fault:
        fault.steps.append(step)
        raise


def _kind(value: object) -> str:
    return f"of type {type(value).__name__}"


def _shown(key: object) -> str:
    # ascii(): a key is foreign text and ends up in terminals and logs.
    text = ascii(key)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _step(step: object) -> str:
    shown = _shown(step)
    return f".{step}" if type(step) is str and shown[1:-1].isidentifier() else f"[{shown}]"


def _object(pairs: list[tuple[str, object]]) -> dict[str, object] | _Fault:
    value = dict(pairs)
    if len(value) < len(pairs):
        again = next(key for key, _ in pairs if value.pop(key, pairs) is pairs)
        return _Fault(f"has the key {_shown(again)} twice")
    return value


# `JSONEncoder.encode` would make one at each call. Here `_walk` has refused all that is not JSON.
_make: Any = cast("Any", json.encoder).c_make_encoder  # None in PyPy
_slow = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)
_parts: Any = _slow.iterencode
if _make is not None:
    _parts = _make(None, None, json.encoder.encode_basestring, None, ":", ",", False, False, False)
_canonical = json.JSONEncoder(check_circular=False, sort_keys=True).encode
_decoder = json.JSONDecoder(parse_constant=int)  # int("NaN") is a ValueError


def _decode_own(text: str) -> object:
    """Read text as we write it: `decode` would look for white space around it, which takes longer."""
    value, end = _decoder.raw_decode(text)
    return value if end == len(text) else _decoder.decode(text)


_decode_strictly = partial(json.loads, object_pairs_hook=_object)  # refuses a byte order mark
