"""Read requests strictly: bounded, only JSON, every name known and used once."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, NoReturn, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from redrive.payloads.masking import mask_text
from redrive.web.call import Problem

LARGEST = 1_048_576  # bytes of a body
_DRAINED = 16 * LARGEST
"""Bytes that are read of a body that is too large: a client that still sends may not see an answer."""
SLOWEST = 10.0  # seconds for a body to arrive
_STEP = re.compile(r"[^.\[\]]+")
_NAMES = 100
_SHOWN = 80
T = TypeVar("T")


async def read(request: Request, kind: str = "application/json") -> str:
    """Return the text of a body, if it is of this kind, small enough, and comes in time."""
    given = request.headers.getlist("content-type")
    plain = [part.strip() for part in given[0].lower().split(";")] if len(given) == 1 else [""]
    if plain[0] != kind or plain[1:] not in ([], ["charset=utf-8"]):
        raise Problem(415, "not_json", f"the body must have the content type {kind}, in UTF-8")
    if "content-encoding" in request.headers:
        raise Problem(415, "packed", "the body must not be compressed: omit Content-Encoding")
    try:
        async with asyncio.timeout(SLOWEST):
            received = await _received(request)
        return received.decode()
    except TimeoutError as error:
        msg = f"the body did not arrive within {SLOWEST:g} seconds"
        raise Problem(408, "too_slow", msg) from error
    except UnicodeDecodeError as error:
        raise _bad(f"the body is not UTF-8: {error}") from error


async def _received(request: Request) -> bytearray:
    received, size = bytearray(), 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= LARGEST:
            received += chunk
        elif size > _DRAINED:
            break
    if size > LARGEST:
        raise Problem(413, "too_large", f"the body must have at most {LARGEST:,} bytes")
    return received


def body_of(text: str) -> dict[str, Any]:
    """Read a body: one object, each name once, and only what every store can keep."""
    try:
        value = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_number
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise _bad("the body has a lone surrogate, which is not valid Unicode") from error
    except (ValueError, RecursionError) as error:
        raise _bad(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _bad("the body must be a JSON object")
    return cast("dict[str, Any]", value)


def query_of(query: bytes) -> dict[str, str]:
    """Read the query: each name once."""
    try:
        pairs = parse_qsl(
            query.decode(), keep_blank_values=True, errors="strict", max_num_fields=_NAMES
        )
        return _once(pairs)
    except ValueError as error:
        raise _bad(f"the query cannot be read: {error}") from error


def checked(value: object, kind: type[T], at: str, *, strict: bool = True) -> T:
    """Return a value of a request as this type, or raise a Problem with what is wrong and where.

    The message shows the value, but nothing of a payload, and no secret.
    """
    try:
        return msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError as error:
        wrong, _, path = str(error).partition(" - at `$")
        path = path.rstrip("`")
        wrong = mask_text(f"{wrong}{_allowed(wrong, kind, path.lstrip('.'))}")
        shown = "" if " of length " in wrong else _shown(value, path)
        # Cut only what is masked: half a secret would not be recognised.
        raise _bad(f"{at}{path}: {wrong[:300]}{shown}") from None


def _allowed(wrong: str, kind: type, name: str) -> str:
    """Return what may stand there instead, if the type says it."""
    if not wrong.startswith(("Invalid enum", "Object contains unknown", "Expected `str` matching")):
        return ""
    schema = msgspec.json.schema(kind)
    schema = schema.get("$defs", {}).get(getattr(kind, "__name__", ""), schema)
    about = schema.get("properties", {}).get(name, schema)
    known = about.get("enum") or list(about.get("properties", [about.get("description", "")]))
    return f"; it may be: {', '.join(filter(None, known)) or 'nothing'}"


def _shown(value: Any, path: str) -> str:
    """Return the value at a path for a message, unless it is a container or of a payload."""
    steps = _STEP.findall(path)
    for step in steps:
        value = value[int(step) if type(value) is list else step]
    if isinstance(value, dict | list) or "payload" in steps:
        return ""
    shown = mask_text(repr(value))
    return f"; found {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}"


def _once(pairs: list[tuple[str, T]]) -> dict[str, T]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError("a name is used twice")
    return values


def _number(text: str) -> float:
    """Read 3.0 as the whole number it is; payloads are read elsewhere, from their text."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _bad(detail: str) -> Problem:
    return Problem(400, "bad_request", detail)
