"""The OpenAPI document, written from the table of routes."""

from __future__ import annotations

from typing import Any

from redrive import __version__
from redrive.web.routes import ROUTES, Route
from redrive.web.schema import named
from redrive.web.shapes import SCHEMAS

_ABOUT = (
    "Redrive keeps work that failed. Every mutation is a POST with a JSON object, and is recorded as "
    "an act of the token's name. Actions on many jobs go by a plan: it freezes which, and is carried out "
    "once its number is said again. Errors are problem documents (RFC 9457)."
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
            "schemas": dict(SCHEMAS),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    places = (("path", route.params), ("query", route.query))
    parameters = [
        {"name": name, "in": place, "required": place == "path", "schema": shape}
        for place, shapes in places
        for name, shape in shapes.items()
    ]
    said: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": _responses(route),
        "security": [{"token": []}] if route.right else [{}, {"token": []}],
    }
    if route.right:
        said["description"] = f"Needs a token for {route.right}."
    if route.body is not None:
        content = {"application/json": {"schema": route.body}}
        said["requestBody"] = {"required": True, "content": content}
    return said


def _responses(route: Route) -> dict[str, Any]:
    kind = "text/plain" if route.gives is None else "application/json"
    content = {kind: {"schema": route.gives or {"type": "string"}}}
    problem = {"application/problem+json": {"schema": named("Problem")}}
    found: dict[str, Any] = {
        "200": {"description": "Done.", "content": content},
        "default": {"description": "A problem.", "content": problem},
    }
    if route.may_fail:
        found["503"] = {
            "description": "The store does not answer.",
            "content": {**content, **problem},
        }
    return found
