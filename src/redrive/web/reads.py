"""Reading requests strictly: bounded, JSON and nothing else, every name once and known."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any, NoReturn, cast
from urllib.parse import parse_qsl

from starlette.requests import Request

from redrive.web.call import Problem
from redrive.web.schema import Schema, faults

LARGEST = 1_048_576
"""Bytes of a body."""
SLOWEST = 10.0
"""Seconds for a body to arrive."""
_INTEGER = re.compile(r"-?\d{1,19}")
_NAMES = 100


async def read(request: Request) -> str:
    """Return the text of a body, if it is JSON, small enough, and comes in time."""
    kind = request.headers.getlist("content-type")
    plain = [part.strip() for part in kind[0].lower().split(";")] if len(kind) == 1 else [""]
    if plain[0] != "application/json" or plain[1:] not in ([], ["charset=utf-8"]):
        raise Problem(415, "not_json", "the body must be application/json, in UTF-8")
    if "content-encoding" in request.headers:
        raise Problem(415, "packed", "the body must not be packed")
    found = bytearray()
    try:
        async with asyncio.timeout(SLOWEST):
            async for chunk in request.stream():
                found += chunk
                if len(found) > LARGEST:
                    raise Problem(413, "too_large", f"the body must have at most {LARGEST} bytes")
    except TimeoutError as error:
        raise Problem(408, "too_slow", "the body did not arrive in time") from error
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8: {error}") from error


def body_of(text: str) -> dict[str, Any]:
    """Read a body: one object, each name once, and only what every store can keep."""
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_number
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _bad("the body has half a character (a lone surrogate) in it") from error
    except (ValueError, RecursionError) as error:
        raise _bad(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _bad("the body must be a JSON object")
    return cast("dict[str, Any]", value)


def query_of(said: bytes, shapes: Mapping[str, Schema]) -> dict[str, Any]:
    """Read the query by its shapes; an unknown name is refused, for it would be ignored in vain."""
    try:
        pairs = parse_qsl(
            said.decode(), keep_blank_values=True, errors="strict", max_num_fields=_NAMES
        )
    except ValueError as error:
        raise _bad(f"the query cannot be read: {error}") from error
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in shapes or name in found:
            known = ", ".join(shapes) or "nothing"
            why = "comes twice" if name in shapes else f"means nothing here; known: {known}"
            raise _bad(f"the query's {name!r} {why}")
        whole = shapes[name]["type"] == "integer" and _INTEGER.fullmatch(value)
        found[name] = int(value) if whole else value
        for wrong in faults(found[name], shapes[name], f"the query's {name}"):
            raise _bad(wrong)
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        msg = "a name comes twice in an object"
        raise ValueError(msg)
    return found


def _number(text: str) -> float:
    """Read 3.0 as the whole number it is; payloads are read elsewhere, from their text."""
    found = float(text)
    return int(found) if found.is_integer() else found


def _no_number(text: str) -> NoReturn:
    msg = f"{text} is no number of JSON's"
    raise ValueError(msg)


def _bad(detail: str) -> Problem:
    return Problem(400, "bad_request", detail)
