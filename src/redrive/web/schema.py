"""Shapes of JSON: the few words of JSON Schema we use, and a check that knows exactly these.

What the OpenAPI document promises about a request is what is checked, because both read one table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, cast

Schema = Mapping[str, Any]

_KINDS: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_SHOWN = 80

BOOLEAN: Schema = {"type": "boolean"}
TIME: Schema = {"type": "string", "description": "ISO 8601, UTC"}
ANY: Schema = {}


def text(most: int = 1000, *, least: int = 0, pattern: str = "", about: str = "") -> Schema:
    """Text of a bounded length, without the one character that not every store keeps."""
    return _known(
        type="string",
        minLength=least,
        maxLength=most,
        pattern=pattern or r"^[^\u0000]*$",
        description=about,
    )


def integer(least: int = 0, most: int | None = None, *, about: str = "") -> Schema:
    """Return a whole number within bounds."""
    return _known(type="integer", minimum=least, maximum=most, description=about)


def number(least: float, most: float, *, about: str = "") -> Schema:
    """Return a number within bounds."""
    return _known(type="number", minimum=least, maximum=most, description=about)


def one_of(words: type[StrEnum] | Sequence[str], *, about: str = "") -> Schema:
    """Return one of some words."""
    return _known(type="string", enum=[str(word) for word in words], description=about)


def array(items: Schema, most: int | None = None) -> Schema:
    """Return a list of such things."""
    return _known(type="array", items=items, maxItems=most)


def record(fields: Mapping[str, Schema], *, needed: Sequence[str] | None = None) -> Schema:
    """Return an object with these fields and no others; all are needed unless some are named."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields if needed is None else needed),
        "additionalProperties": False,
    }


def mapping(values: Schema) -> Schema:
    """Return an object with names of any kind."""
    return {"type": "object", "additionalProperties": values}


def maybe(schema: Schema) -> Schema:
    """Return the same, or null."""
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    more = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, **more, "type": [schema["type"], "null"]}


def named(name: str) -> Schema:
    """Return a shape that stands among the components of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def faults(value: object, schema: Schema, at: str) -> Iterator[str]:
    """Yield what is wrong with a value of a request, the outermost first."""
    kind = schema.get("type")
    if kind is not None and not _is(value, kind):
        yield f"{at} must be {_article(kind)}; found {_shown(value)}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} must be one of {', '.join(map(str, schema['enum']))}; found {_shown(value)}"
    if isinstance(value, str):
        yield from _text_faults(value, schema, at)
    elif isinstance(value, int | float):
        least, most = schema.get("minimum"), schema.get("maximum")
        if (least is not None and value < least) or (most is not None and value > most):
            yield f"{at} must be {_range(least, most)}; found {_shown(value)}"
    elif isinstance(value, list):
        yield from _list_faults(cast("list[object]", value), schema, at)
    elif isinstance(value, dict):
        yield from _field_faults(cast("dict[str, object]", value), schema, at)


def _text_faults(value: str, schema: Schema, at: str) -> Iterator[str]:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least or (most is not None and len(value) > most):
        yield f"{at} must have {_range(least, most)} characters; found {len(value)}"
    elif "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        yield f"{at} must match {schema['pattern']}; found {_shown(value)}"


def _list_faults(value: list[object], schema: Schema, at: str) -> Iterator[str]:
    most = schema.get("maxItems")
    if most is not None and len(value) > most:
        yield f"{at} must have at most {most} items; found {len(value)}"
    for index, item in enumerate(value):
        yield from faults(item, schema.get("items", ANY), f"{at}[{index}]")


def _field_faults(value: dict[str, object], schema: Schema, at: str) -> Iterator[str]:
    fields: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{at} needs {name!r}"
    for name, item in value.items():
        if name in fields:
            yield from faults(item, fields[name], f"{at}.{name}")
        elif schema.get("additionalProperties") is False:
            known = ", ".join(fields) or "nothing"
            yield f"{at} has {_shown(name)}, which means nothing here; it may have: {known}"


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind])


def _known(**words: object) -> Schema:
    return {name: word for name, word in words.items() if word is not None and word != ""}


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aio' else 'a'} {kind}"


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"{least} or more"
    return f"{least} to {most}"


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
