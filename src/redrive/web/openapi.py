"""The OpenAPI document, written from the table of routes and the types of its functions."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, cast

from msgspec.json import schema_components

from redrive import __version__
from redrive.web.api import ROUTES, Route
from redrive.web.messages import END, Problem

_ABOUT = (
    "Redrive keeps work that failed. Every change is a POST with a JSON object, and is recorded in the "
    "audit log under the token's name. Actions on many jobs need a plan "
    "(dry_run), which is carried out when you send its as_of and the number of jobs. Errors are problem documents (RFC 9457). Times are "
    "ISO 8601, UTC."
)


def document(root: str = "") -> dict[str, Any]:
    """Describe the API as it is mounted at `root`."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Redrive", "version": __version__, "description": _ABOUT},
        "servers": [{"url": root or "/"}],
        "paths": paths,
        "components": {
            "schemas": components(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


@cache
def components() -> dict[str, Any]:
    """Return the schemas of all answers and bodies, by name."""
    kinds = [kind for route in ROUTES for kind in (*route.answers, route.body) if kind]
    return _schemas([*dict.fromkeys(kinds), Problem])[1]


def schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a type; one that has a name is a reference."""
    return cast("dict[str, Any]", _schemas([kind])[0][0])


def fields(kind: Any) -> dict[str, Any]:
    """Return the schema of each field of a query or a body, and if it is required."""
    schema = _schemas([kind])[1][kind.__name__]
    needed = schema.get("required", ())
    return {name: (shape, name in needed) for name, shape in schema["properties"].items()}


def _schemas(kinds: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return schemas as msgspec makes them."""
    components = schema_components(kinds, ref_template="#/components/schemas/{name}")
    refs, named = json.loads(json.dumps(components).replace(json.dumps(END)[1:-1], "$"))
    return refs, named


def _operation(route: Route) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": schema(kind)}
        for name, kind in route.params.items()
    ]
    parameters += [
        {"name": name, "in": "query", "required": needed, "schema": shape}
        for name, (shape, needed) in fields(route.query).items()
    ]
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(route),
        "security": [{"token": []}] if route.right else [{}, {"token": []}],
    }
    if route.right:
        operation["description"] = f"Needs a token for {route.right}."
    if route.body is not None:
        content = {"application/json": {"schema": schema(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _responses(route: Route) -> dict[str, Any]:
    kinds = [schema(kind) for kind in route.answers]
    shape = {"anyOf": kinds} if len(kinds) > 1 else kinds[0] if kinds else {"type": "string"}
    content = {"application/json" if kinds else "text/plain": {"schema": shape}}
    problem = {"application/problem+json": {"schema": schema(Problem)}}
    responses: dict[str, Any] = {
        "200": {"description": "Done.", "content": content},
        "default": {"description": "A problem.", "content": problem},
    }
    if route.may_fail:
        responses["503"] = {
            "description": "The store does not answer.",
            "content": {**content, **problem},
        }
    return responses
