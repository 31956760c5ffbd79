"""The table of routes: method and path, the right that is needed, and the function.

The router, the checks of requests, the OpenAPI document, docs/api.md and the tests of who may do what
all read this table, so a new line here is checked, described and tested without more code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import UnionType
from typing import Any, Literal, cast, get_args, get_type_hints

from redrive.web import actions
from redrive.web.call import Call, Document, Reply
from redrive.web.messages import PATH, Request

Right = Literal["", "read", "act"]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One route; the annotations of its function are the types of the request and the answer."""

    method: Literal["GET", "POST"] = "GET"
    path: str
    does: Callable[..., Document | Reply]
    right: Right = "read"
    """The right that the caller's token must have; empty: no token is needed."""
    may_fail: bool = False
    """True if 503 has the same shape as 200."""
    at_once: bool = False
    """True if it needs no thread, because it reads nothing from the store."""
    searches: bool = False
    """True if it searches jobs one by one, which is slow if many do it at once."""

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.does, include_extras=True)

    @cached_property
    def params(self) -> Mapping[str, Any]:
        """The names in the path, and the type of each."""
        return {name: PATH[name] for name in re.findall(r"{(\w+)}", self.path)}

    @property
    def query(self) -> type[Request]:
        """What the query may say."""
        return cast("type[Request]", self._hints.get("query", Request))

    @property
    def body(self) -> type[Request] | None:
        """What the body must say; None if there is none."""
        return self._hints.get("body")

    @cached_property
    def answers(self) -> tuple[Any, ...]:
        """What comes back, one of these; none: plain text."""
        hint = self._hints["return"]
        kinds = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        return tuple(kind for kind in kinds if kind is not Reply)

    @property
    def name(self) -> str:
        """One word for it, such as `post_runs_run_pause`."""
        plain = self.path.removeprefix("/api/v1/").strip("/")
        words = "".join(letter if letter.isalnum() else "_" for letter in plain)
        return "_".join(part for part in f"{self.method.lower()}_{words}".split("_") if part)

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        return (self.does.__doc__ or "").partition("\n")[0]


def _openapi(call: Call) -> dict[str, Any]:
    """Return this description of the API."""
    from redrive.web.openapi import document  # noqa: PLC0415 - it reads this table

    return document(call.root)


def _get(path: str, does: Callable[..., Document | Reply], **more: Any) -> Route:
    return Route(path=f"/api/v1/{path}", does=does, **more)


def _post(path: str, does: Callable[..., Document | Reply], **more: Any) -> Route:
    return Route(method="POST", path=f"/api/v1/{path}", does=does, right="act", **more)


ROUTES: tuple[Route, ...] = (
    Route(path="/healthz", does=actions.alive, right="", at_once=True),
    Route(path="/readyz", does=actions.ready, right="", may_fail=True),
    Route(path="/metrics", does=actions.metrics),
    _get("health", actions.health, right="", may_fail=True),
    _get("openapi.json", _openapi, at_once=True),
    _post("jobs", actions.submit),
    _get("jobs", actions.jobs, searches=True),
    _get("count", actions.count, searches=True),
    _get("jobs/{job}", actions.job),
    _post("jobs/{job}/edit", actions.edit),
    _get("groups", actions.groups, searches=True),
    _get("groups/{group}", actions.group),
    _post("groups/{group}/mark", actions.mark),
    _post("groups/{group}/note", actions.note),
    _get("handlers", actions.handlers, at_once=True),
    _get("lanes", actions.lanes),
    _get("system", actions.system),
    _get("alerts", actions.alerts),
    _post("alerts/{channel}/test", actions.send_test),
    _post("pauses", actions.pause),
    _post("pauses/{lane}/resume", actions.resume),
    _get("runs", actions.runs),
    _get("runs/{run}", actions.run),
    _post("runs/{run}/pause", actions.pause_run),
    _post("runs/{run}/resume", actions.resume_run),
    _post("runs/{run}/cancel", actions.cancel_run),
    _post("runs/{run}/rate", actions.set_run_rate),
    _get("actions", actions.audit_log),
    _post("actions", actions.act, searches=True),
)
