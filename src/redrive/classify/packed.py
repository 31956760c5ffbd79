"""Google's RetryInfo as gRPC sends it: a `google.rpc.Status` in a trailing header.

Read without the protobuf library, which may not be installed: a message is a row of
fields, each a number and a value; messages within it are values too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

STATUS_DETAILS: Final = "grpc-status-details-bin"

_DETAILS, _TYPE, _VALUE, _DELAY, _SECONDS, _NANOS = 3, 1, 2, 1, 1, 2
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5


def retry_delay(status: str) -> float | None:
    """Find the seconds to wait; None where the server named none. What is no message raises.

    The status is text, a character for each byte, as headers are kept.
    """
    for number, detail in _fields(status.encode("latin-1")):
        fields = dict(_fields(detail)) if number == _DETAILS and type(detail) is bytes else {}
        name, info = fields.get(_TYPE), fields.get(_VALUE)
        if type(name) is bytes and name.endswith(b"/google.rpc.RetryInfo") and type(info) is bytes:
            delay = dict(_fields(info)).get(_DELAY)
            parts = dict(_fields(delay)) if type(delay) is bytes else {}
            return _whole(parts.get(_SECONDS)) + _whole(parts.get(_NANOS)) / 1e9
    return None


def _whole(value: int | bytes | None) -> int:
    """Return a whole number, which below zero is sent as its two's complement."""
    number = value if type(value) is int else 0
    return number - (1 << 64) if number >> 63 else number


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            number, at = _varint(message, at)
            yield key >> 3, number
            continue
        sizes = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
        size, at = _varint(message, at) if kind == _BYTES else (sizes[kind], at)
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Read seven bits of a byte, the lowest first, while the eighth says that more follow."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:  # noqa: PLR2004
            return number, at
