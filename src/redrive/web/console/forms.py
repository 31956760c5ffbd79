"""What forms do: the POST routes of the API without their prefix, and where people are afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from redrive.web.call import Problem
from redrive.web.messages import Request
from redrive.web.routes import ROUTES, Route

PREFIX = "/api/v1"
_MOST_FIELDS = 500
_NOT_FIELDS = ("csrf", "back", "again")
_SEVERAL = "q"
"""The name that ticked rows share."""


class Form(NamedTuple):
    """One form: the route of the API that it is, the notice afterwards, and what undoes it."""

    route: Route
    notice: str
    undo: str = ""
    """The address of the form that undoes it, with the names of the path."""
    goes: Callable[[Any], str] = lambda _: ""
    """Where people are led afterwards, by the result; empty: where they were."""
    kind: type[Request] = Request
    """What its fields say."""
    page: str = ""
    """The page that is shown again with the error and what was typed, if it is refused."""


def _to_plan(plan: Any) -> str:
    return f"/plans/{plan['plan']}"


def _after_plan(done: Any) -> str:
    return f"/runs/{done['run']}" if done["run"] else f"/plans/{done['plan']}"


_TABLE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("/jobs/{job}/retry", "retry", {}),
    ("/jobs/{job}/resolve", "resolve", {"undo": "/jobs/{job}/reopen"}),
    ("/jobs/{job}/discard", "discard", {"undo": "/jobs/{job}/reopen", "page": "/jobs/{job}"}),
    ("/jobs/{job}/reopen", "reopen", {}),
    ("/groups/{group}/mark", "mark", {}),
    ("/groups/{group}/note", "note", {}),
    ("/plans", "", {"goes": _to_plan}),
    ("/plans/{plan}/carry-out", "carry_out", {"goes": _after_plan, "page": "/plans/{plan}"}),
    ("/pauses", "pause", {"undo": "/pauses/{lane}/resume"}),
    ("/pauses/{lane}/resume", "resume", {}),
    ("/alerts/{channel}/test", "alert_test", {}),
    ("/runs/{run}/pause", "run_pause", {"undo": "/runs/{run}/resume"}),
    ("/runs/{run}/resume", "run_resume", {}),
    ("/runs/{run}/cancel", "run_cancel", {}),
    ("/runs/{run}/rate", "run_rate", {}),
)


def _posts() -> Mapping[str, Route]:
    posts = (route for route in ROUTES if route.method == "POST")
    return {route.path.removeprefix(PREFIX): route for route in posts}


def _form(route: Route, notice: str, more: dict[str, Any]) -> Form:
    return Form(route, notice, kind=route.body or Request, **more)


FORMS: Mapping[str, Form] = {
    path: _form(_posts()[path], notice, more) for path, notice, more in _TABLE
}
"""By path; a submit has no form, and an edit one of its own."""
UNDO: Mapping[str, str] = {form.notice: form.undo for form in FORMS.values()}
"""The address of the form that undoes what a notice is about, with the names of the path."""


def fields_of(text: str) -> dict[str, str]:
    """Read a form: each name once, but for the rows that are ticked."""
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise Problem(400, "bad_request", f"the form cannot be read: {error}") from error
    fields: dict[str, str] = {}
    for name, value in pairs:
        if name in fields and name != _SEVERAL:
            raise Problem(400, "bad_request", f"the form has the field {name!r} twice")
        fields[name] = f"{fields[name]} {value}" if name in fields else value
    if "one" in fields:  # the button of one row, whatever is ticked
        fields["verb"], _, fields["q"] = fields.pop("one").partition(" ")
    return fields


def body_of(fields: Mapping[str, str], route: Route, path: Mapping[str, str]) -> dict[str, object]:
    """Return the fields of a form as the body of its route, but for those that were left empty.

    An empty note removes the note. Numbers may be typed with commas.
    """
    body: dict[str, object] = {
        n: v for n, v in fields.items() if n not in _NOT_FIELDS and (v or n == "note")
    }
    if "confirm" in body:
        body["confirm"] = str(body["confirm"]).replace(",", "").replace(" ", "")
    names = route.body.__struct_fields__ if route.body else ()
    return body | {name: value for name, value in path.items() if name in names}


def back_of(fields: Mapping[str, str], default: str = "/") -> str:
    """Return the page that a form was on: an address here and nowhere else."""
    back = fields.get("back", "")
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    return back if is_ours and back.isprintable() else default
