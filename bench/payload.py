"""A kibibyte of JSON. It stands alone, so that no peer's process has to import Redrive for it."""

from __future__ import annotations

import json
from typing import Any

PAYLOAD: dict[str, Any] = {"id": 7, "to": "ada@example.org", "tags": ["a", "b"], "text": "x" * 966}
TEXT = json.dumps(PAYLOAD, separators=(",", ":"))
BYTES = TEXT.encode()
assert len(BYTES) == 1024
