"""The fields of a record: read with care, and those we do not know kept for the way back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

Fields = dict[str, Any]
Known = Mapping[str, Any]
"""The names of fields we know; under a name stands what we know inside it, or None for all."""

_MOST: Final = 2**31
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class Raw(str):
    """JSON text that goes out as it is, so that numbers keep their spelling."""

    __slots__ = ()


def count(number: object, name: str) -> int:
    """Return a whole number."""
    if type(number) is int and 0 <= number < _MOST:
        return number
    raise ValueError(f"{name} must be a whole number from 0; found {number!r}")


def text(value: Fields, name: str) -> str:
    """Return a text that must be there."""
    member = value.get(name)
    if isinstance(member, str) and member:
        return member
    raise ValueError(f"{name} must be a text; found {member!r}")


def inner(value: Fields, name: str) -> Fields:
    """Return an object inside; an empty one where there is none."""
    member = value.get(name)
    if member is None or isinstance(member, dict):
        return cast("Fields", member or {})
    raise ValueError(f"{name} must be an object; found {member!r}")


def rest(value: Fields, known: Known) -> Fields:
    """Return the fields we do not know, also those inside of some that we do."""
    left: Fields = {}
    for name, inner in value.items():
        within = known.get(name)
        if name not in known:
            left[name] = inner
        elif within is not None and isinstance(inner, dict):
            left[name] = rest(cast("Fields", inner), within)
    return {name: inner for name, inner in left.items() if name not in known or inner}


def joined(value: Fields, left: Mapping[str, Any]) -> Fields:
    """Put such fields back; what we say ourselves wins."""
    out = dict(value)
    for name, inner in left.items():
        mine = out.get(name)
        if name not in out or (mine is None and isinstance(inner, dict)):
            out[name] = inner
        elif isinstance(mine, dict) and isinstance(inner, dict):
            out[name] = joined(cast("Fields", mine), cast("Fields", inner))
    return out


def cut(line: str, *path: str) -> str:
    """Return the text of a member of an object in JSON, as it stands there."""
    at = _past_space(line, 0)
    for name in path:
        at = _member(line, at, name)
    _, end = _decode(line, at)
    return line[at:end]


def _member(line: str, at: int, name: str) -> int:
    while line[at] in "{,":
        at = _past_space(line, at + 1)
        if line[at] == "}":
            break
        member, at = _decode(line, at)
        at = _past_space(line, _past_space(line, at) + 1)
        if member == name:
            return at
        _, at = _decode(line, at)
        at = _past_space(line, at)
    raise ValueError(f"{name} is missing")


def _past_space(line: str, at: int) -> int:
    while line[at] in " \t\r\n":
        at += 1
    return at


def written(value: object) -> str:
    """Write JSON in which some text is JSON already."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        members = cast("Fields", value).items()
        return "{" + ",".join(f"{_encode(k)}:{written(v)}" for k, v in members) + "}"
    return _encode(value)
