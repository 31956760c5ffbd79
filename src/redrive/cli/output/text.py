"""Plain text and JSON: the same on every machine.

Plain text has one row a line and tabs between values. Values are whole, times are UTC in ISO 8601,
durations are seconds with their unit (`90s`), and characters that could drive a terminal or forge a
line are shown as escapes. JSON is one ASCII document with a version.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import cast

from redrive.cli.output import Block, Facts, Kind, Line, Panel, Part, Table, View, joined
from redrive.payloads.escaping import inert

SCHEMA = (
    1  # grows when a field of a document changes its meaning or is removed; new ones do not count
)
NOTHING = "-"  # stands for a value that is not there


def plain(view: View) -> str:
    """Return the whole view as plain text."""
    lines: list[str] = []
    tag = ""
    for part in view.parts:
        new = list(_lines(part))
        # Consecutive tables with the same tag are one: the columns are named once.
        again = isinstance(part, Table) and tag == part.tag != ""
        lines += new[1:] if again else new
        tag = part.tag if isinstance(part, Table) else ""
    return "".join(f"{line}\n" for line in lines)


def seconds(value: float | None) -> str:
    """Return a duration in seconds, with the unit and without needless digits."""
    return "" if value is None else f"{value:.3f}".rstrip("0").rstrip(".") + "s"


def numbers_of(value: object) -> list[int]:
    """Return the numbers of a trend, which a document may hold beside the width of its spans."""
    numbers = (
        cast("Mapping[str, object]", value)["numbers"] if isinstance(value, Mapping) else value
    )
    return cast("list[int]", numbers or [])


def text_of(value: object, kind: Kind) -> str:
    """Return one value as text; an empty one where there is none."""
    if value is None:
        return ""
    match kind:
        case "span" | "exact":
            return value if isinstance(value, str) else seconds(cast("float", value))
        case "trend":
            return joined(numbers_of(value), ",")
        case "list":
            return joined(value)
        case "count":
            return str(len(cast("list[object]", value)))
        case _:
            return str(value)


def _lines(part: Part) -> Iterator[str]:
    match part:
        case Line(text) | Panel(text):
            yield inert(text)
        case Facts():
            for field, value in part.pairs():
                yield _row(field.title, text_of(value, field.kind))
        case Block(_, text, tag):
            for line in text.splitlines():
                yield f"{tag}\t{inert(line)}"
        case Table(fields, rows, _, tag) if rows:
            titles = [field.title for field in fields]
            # The titles of tagged rows begin with # and the tag, so that no search for a tag finds them.
            yield _row(f"#{tag}", *titles) if tag else _row(*titles)
            lead = [tag] if tag else []
            for row in rows:
                yield _row(*lead, *(text_of(field.value(row), field.kind) for field in fields))
        case _:
            pass


def _row(*values: str) -> str:
    return "\t".join(inert(value) or NOTHING for value in values)


def document(view: View) -> str:
    """Return the whole view as one JSON document."""
    return _json({"schema": SCHEMA, "data": view.data, "page": view.page}, indent=2)


def json_lines(view: View) -> str:
    """Return a line of JSON for each element of a list, or one line for a single document."""
    data = view.data
    elements = cast("list[object]", data) if isinstance(data, list) else [data]
    return "".join(_json(element, indent=None) for element in elements)


def problem(code: str, message: str, hint: str) -> str:
    """Return the JSON document that stands for an error."""
    return _json({"error": {"code": code, "message": message, "hint": hint or None}}, indent=None)


def _json(value: object, *, indent: int | None) -> str:
    text = json.dumps(value, ensure_ascii=True, indent=indent)
    # The one control character that JSON's own escapes leave as it is.
    return text.replace("\x7f", "\\u007f") + "\n"
