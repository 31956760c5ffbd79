"""A payload as a person edits it: its secrets are marks that are put back afterwards.

Each hidden value has a mark of its own, so that one that is moved, or whose neighbour is deleted, is
still the right one. Numbers keep their text: an editor must not round somebody's money.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, cast

from redrive import _json
from redrive.errors import BadPayload
from redrive.redact import MASK, is_secret_name, mask_text, secrets_in


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


@dataclass(slots=True)
class Hidden:
    """A payload's text for an editor, and what its marks stand for."""

    text: str
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """What each mark stands for."""

    def restore(self, edited: str) -> str:
        """Give the payload with the hidden values in their places again; BadPayload if it is none."""
        return written(_restored(parsed(_json.compact(edited)), self.values))


def hide(payload: str, *, reveal: bool = False) -> Hidden:
    """Write a payload out for an editor, its secrets as marks unless they are to be seen."""
    value = parsed(payload)
    hidden = Hidden("")
    if not reveal:
        value = _Hider(payload, hidden.values).hide(value)
    hidden.text = written(value, indent="  ") + "\n"
    return hidden


class _Hider:
    def __init__(self, payload: str, values: dict[str, Any]) -> None:
        self._values = values
        self._secrets = secrets_in(json.loads(payload))
        self._mark = MASK
        while re.search(rf"{self._mark}\d+{self._mark}", payload):
            self._mark += MASK[0]

    def hide(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self._text(key): self._put(item) if is_secret_name(key) else self.hide(item)
                for key, item in cast("dict[str, Any]", value).items()
            }
        if isinstance(value, list):
            return [self.hide(item) for item in cast("list[object]", value)]
        return self._text(value) if type(value) is str else value

    def _text(self, text: str) -> str:
        return text if mask_text(text, self._secrets) == text else self._put(text)

    def _put(self, value: Any) -> str:
        mark = f"{self._mark}{len(self._values) + 1}{self._mark}"
        self._values[mark] = value
        return mark


def _restored(value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        return {
            _restored(key, values): _restored(item, values)
            for key, item in cast("dict[str, Any]", value).items()
        }
    if isinstance(value, list):
        return [_restored(item, values) for item in cast("list[object]", value)]
    if type(value) is not str:
        return value
    if value in values:
        return values[value]
    for mark in values:
        if mark in value:
            msg = (
                f"{value!r} has a hidden value inside a text; leave the mark whole, or use --reveal"
            )
            raise BadPayload(msg)
    return value


def parsed(text: str) -> Any:
    """Read JSON, numbers as they were written; BadPayload if it is none."""
    try:
        return json.loads(text, parse_float=_Number, parse_int=_Number)
    except (ValueError, RecursionError) as error:
        msg = f"the text is not JSON: {error}"
        raise BadPayload(msg) from error


def written(value: Any, indent: str = "", lead: str = "\n") -> str:
    """Write JSON, numbers as they were, nothing in it that could drive a terminal."""
    inner = f"{lead}{indent}" if indent else ""
    end, colon = (lead, ": ") if indent else ("", ":")
    if isinstance(value, dict) and value:
        items = [
            f"{_string(key)}{colon}{written(item, indent, inner)}"
            for key, item in cast("dict[str, Any]", value).items()
        ]
        return f"{{{inner}{f',{inner}'.join(items)}{end}}}"
    if isinstance(value, list) and value:
        items = [written(item, indent, inner) for item in cast("list[object]", value)]
        return f"[{inner}{f',{inner}'.join(items)}{end}]"
    if isinstance(value, _Number):
        return str(value)
    return _string(value) if isinstance(value, str) else json.dumps(value)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable()).replace("\x7f", "\\u007f")
