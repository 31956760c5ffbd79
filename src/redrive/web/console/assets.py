"""Static files: served under a name with a hash of their content, so that browsers keep them for good."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

STATIC = Path(__file__).with_name("static")
_KINDS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Asset(NamedTuple):
    """One file, as it is and compressed."""

    name: str
    """Its name in addresses: `console.1f2e3d4c5b.css`."""
    kind: str
    plain: bytes
    packed: bytes


@cache
def assets() -> dict[str, Asset]:
    """Return the static files by their own name, such as `console.css`."""
    files = sorted(path for path in STATIC.iterdir() if path.suffix in _KINDS)
    return {path.name: _asset(path) for path in files}


def _asset(path: Path) -> Asset:
    plain = path.read_bytes()
    digest = hashlib.sha256(plain).hexdigest()[:12]
    kind = f"{_KINDS[path.suffix]}; charset=utf-8"
    return Asset(f"{path.stem}.{digest}{path.suffix}", kind, plain, gzip.compress(plain, mtime=0))


@cache
def by_public_name() -> dict[str, Asset]:
    """Return the static files by their name in addresses."""
    return {asset.name: asset for asset in assets().values()}
