"""Signatures by Standard Webhooks: an HMAC-SHA256 over id, time and body.

The id is the same with every attempt, the time is that of the attempt. While a key is being replaced
both sign, and the receiver accepts either signature.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

from redrive.errors import UsageError

TOLERANCE: Final = 300.0  # seconds by which the clocks of sender and receiver may differ

_PREFIX: Final = "whsec_"
_SHORTEST, _LONGEST = 24, 64
SECRET: Final = f"{_PREFIX} and the base64 of {_SHORTEST} to {_LONGEST} bytes"
"""The description of a valid secret, for messages."""
_TIME: Final = re.compile(r"[0-9]{1,12}")


def sign(key: str, body: bytes, secrets: Sequence[str], now: float) -> dict[str, str]:
    """Return the headers for a body; each secret adds a signature."""
    stamp = str(int(now))
    made = " ".join(f"v1,{_signature(secret, key, stamp, body)}" for secret in secrets)
    return {"Webhook-Id": key, "Webhook-Timestamp": stamp, "Webhook-Signature": made}


def verify(
    headers: Mapping[str, str],
    body: bytes,
    *secrets: str,
    now: float | None = None,
    tolerance: float = TOLERANCE,
) -> bool:
    """Return True if a received request is signed with one of these secrets.

    False also if it is older or newer than the tolerance: it may be a replay. To act on each request
    only once, remember its `Webhook-Id` for that long.
    """
    given = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    key, stamp, signatures = (given.get(name, "") for name in names)
    if not key or not _TIME.fullmatch(stamp):
        return False
    is_fresh = abs((time.time() if now is None else now) - int(stamp)) <= tolerance
    good = [f"v1,{_signature(secret, key, stamp, body)}" for secret in secrets]
    # Each is compared with each, so that the time taken tells nothing.
    matches = [
        hmac.compare_digest(expected.encode(), _bytes(received))
        for expected in good
        for received in signatures.split()
    ]
    return is_fresh and any(matches)


def _signature(secret: str, key: str, stamp: str, body: bytes) -> str:
    signed = _bytes(f"{key}.{stamp}.") + body
    return base64.b64encode(hmac.digest(_key(secret), signed, hashlib.sha256)).decode()


def _bytes(text: str) -> bytes:
    """Encode a received header, including bytes that the server could not decode."""
    return text.encode(errors="surrogatepass")


def bare(secret: str) -> str:
    """Return a secret without its prefix."""
    return secret.strip().removeprefix(_PREFIX)


def is_secret(text: str) -> bool:
    """Return True if a text is a valid signing secret."""
    try:
        return bool(_key(text))
    except UsageError:
        return False


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(bare(secret), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        msg = f"a signing secret is {SECRET}"  # and no word about the one that is not
        raise UsageError(msg)
    return key
