"""The log as JSON: one line an event, in the words of Cloud Logging, nothing secret in it.

    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())

`redrive work --log-format json` does that. What a call gave as `extra` are fields of the line; about
jobs these are `event`, `job`, `handler`, `lane`, `category` and the like. Masking comes last: whatever
got into a line, and from wherever, has passed it.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import cast

from redrive.payloads.masking import inert, mask_payload, safe_text
from redrive.payloads.strict_json import Json

LONGEST = 60_000  # characters of one text; Cloud Logging takes 256 KiB a line
_LOOKED_AT = 4 * LONGEST
"""So much is masked before it is cut, so that no half of a secret is left at the end."""
_DEEPEST = 8
_NOT_FIELDS = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


class JsonFormatter(logging.Formatter):
    """Formats any record, of Redrive's or others', as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; the message has the traceback below it, where there is one."""
        given = {name: value for name, value in vars(record).items() if name not in _NOT_FIELDS}
        traceback = given.pop("traceback", None)
        document = {
            **given,
            "severity": severity(record.levelno),
            "time": _time(record.created),
            "logger": record.name,
            "process": record.process,
            "message": super().format(record) + (f"\n{traceback}" if traceback else ""),
        }
        return json.dumps(_cut(mask_payload(_plain(document))), ensure_ascii=False)


def severity(level: int) -> str:
    """Name a level as Cloud Logging does."""
    known = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO)
    return next((logging.getLevelName(number) for number in known if level >= number), "DEBUG")


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _plain(value: object, depth: int = 0) -> Json:
    """Make plain data of anything; what is none becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if depth > _DEEPEST:
        return safe_text(value, _LOOKED_AT)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {safe_text(name): _plain(inner, depth + 1) for name, inner in pairs}
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1) for inner in cast("list[object]", value)]
    return safe_text(value, _LOOKED_AT)


def _cut(value: Json) -> Json:
    """Shorten every text, and show what could drive a terminal as visible escapes."""
    if isinstance(value, str):
        return inert(safe_text(value, LONGEST), keep_newlines=True)
    if isinstance(value, dict):
        return {inert(name): _cut(inner) for name, inner in value.items()}
    return [_cut(inner) for inner in value] if isinstance(value, list | tuple) else value
