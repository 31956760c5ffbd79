"""JSON: one document with a version, in ASCII, so that nothing in it can drive a terminal."""

from __future__ import annotations

import json
from typing import cast

from redrive.cli.output import View

SCHEMA = 1  # grows when a field changes its meaning or is removed; new fields do not count


def render(view: View) -> str:
    """Return the whole document."""
    return _text({"schema": SCHEMA, "data": view.data, "page": view.page}, indent=2)


def lines(view: View) -> str:
    """Return one line for each element of a list, or one line for a single document."""
    whole = view.data
    data = cast("list[object]", whole) if isinstance(whole, list) else [whole]
    return "".join(_text(element, indent=None) for element in data)


def problem(code: str, message: str, hint: str) -> str:
    """Return the document that stands for an error."""
    return _text({"error": {"code": code, "message": message, "hint": hint or None}}, indent=None)


def _text(document: object, *, indent: int | None) -> str:
    text = json.dumps(document, ensure_ascii=True, indent=indent)
    # The one control character that JSON's own escapes leave as it is.
    return text.replace("\x7f", "\\u007f") + "\n"
