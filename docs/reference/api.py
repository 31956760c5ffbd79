"""What the site prints below `docs/api.md`: the routes and documents of the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_origin

from redrive.web import openapi
from redrive.web.api import ROUTES, Route


def page() -> str:
    """Return the part of the page that is made."""
    return "\n".join([*map("".join, map(_route, ROUTES)), "## Documents\n", *_documents()])


def _route(route: Route) -> Iterator[str]:
    right = f"token: {route.right}" if route.right else "no token needed"
    yield f"### {route.method} {route.path}\n\n{route.summary} ({right})\n"
    rows = [(name, "path", openapi.schema(kind), True) for name, kind in route.params.items()]
    for place, kind in (("query", route.query), ("body", route.body)):
        if kind is not None:
            rows += [(name, place, *field) for name, field in openapi.fields(kind).items()]
    if rows:
        yield "\n| | in | | |\n|---|---|---|---|\n"
    for name, place, shape, needed in rows:
        must = "" if needed else "optional; "
        yield f"| `{name}` | {place} | {must}{_kind(shape)} | {shape.get('description', '')} |\n"
    if names := [kind.__name__ for kind in route.answers if get_origin(kind) is None]:
        yield f"\nReturns {' or '.join(names)}.\n"


def _documents() -> Iterator[str]:
    asked = {route.body.__name__ for route in ROUTES if route.body}
    for name, shape in openapi.components().items():
        if "properties" in shape and name not in asked:
            fields = ", ".join(
                f"`{key}` {_kind(inner)}" for key, inner in shape["properties"].items()
            )
            yield f"**{name}**: {shape.get('description', '')} {fields}.\n"
        elif "enum" in shape:
            yield f"**{name}**: {_kind(shape)}.\n"


def _kind(shape: dict[str, Any]) -> str:
    """Return a shape in a few words."""
    if "anyOf" in shape:
        return " or ".join(map(_kind, shape["anyOf"]))
    if "$ref" in shape:
        return str(shape["$ref"]).rpartition("/")[2]
    if "enum" in shape:
        return " \\| ".join(shape["enum"])
    kind = shape.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(shape['items'])}"
    if kind == "object" and "additionalProperties" in shape:
        return f"object of {_kind(shape['additionalProperties'])}"
    least, most = shape.get("minimum"), shape.get("maximum")
    return f"{kind}" if most is None else f"{kind}, {least:,} to {most:,.0f}"
