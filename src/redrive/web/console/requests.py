"""One request for a page: who asks and in which language, what was typed, and what forms do."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, cast
from urllib.parse import parse_qsl, quote, unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from redrive.desk.desk import Desk
from redrive.web import auth
from redrive.web.api import ROUTES, Route
from redrive.web.auth import RIGHTS, Token
from redrive.web.call import Call, Problem
from redrive.web.console.texts import Texts, language_of, languages, texts
from redrive.web.messages import PATH, Request
from redrive.web.reads import checked, query_of, read
from redrive.web.shared import Shared

Runner = Callable[[Callable[[], Response]], Awaitable[Response]]
"""Runs a function on a thread."""

HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; "
    "base-uri 'none'",
    # no-referrer would make the origin of a form `null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "vary": "Cookie, Accept-Language",
}
"""On every page."""
LANGUAGE = "redrive_language"  # the cookie with the language that somebody chose
_MOST_FIELDS = 500
_NOT_FIELDS = ("csrf", "back")
_SEVERAL = "q"
"""The name that ticked rows share."""


class Place(NamedTuple):
    """What the console says about where it is."""

    name: str
    environment: str = ""
    who: Callable[[MutableMapping[str, Any]], tuple[str, str] | None] | None = None
    """Returns who sends a request, if the host program knows; then nobody signs in here."""
    sign_in: str = ""
    """The page of the host program where people sign in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Somebody who signed in."""

    token: Token
    csrf: str
    """What every form must carry."""
    has_cookie: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit(Call):
    """What every page's function is given."""

    session: Session
    texts: Texts
    shared: Shared
    place: Place
    query: Any = None
    """What the query says, by the page's type."""
    is_refresh: bool = False
    """True if a page refreshes itself."""
    address: str = "/"
    """The path and query of the page, without the root."""
    form: Mapping[str, str] | None = None
    """What was typed into a form that is shown again, with its error."""
    error: str = ""
    notice: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What was done just now."""
    cookie: str = ""
    """The name of the session's cookie."""

    @property
    def desk(self) -> Desk:
        """Where jobs are read, masked."""
        return self.app.desk

    def of(self, request: HttpRequest, query: type[Request] | None = None) -> Visit:
        """Return the visit with the names in its path, and what its query says by the type of a page."""
        path = dict(request.path_params)
        for name, value in path.items():
            checked(value, PATH[name], f"path.{name}")
        if query is None:
            return replace(self, path=path)
        asked = checked(query_of(request.scope["query_string"]), query, "query", strict=False)
        return replace(self, path=path, query=asked)

    def at(self, page: str) -> Visit:
        """Return the visit with the address of a page that can be asked for, unlike that of a form."""
        return replace(self, address=page.format(**self.path))

    def may(self, right: str) -> bool:
        """Return True if the visitor's right includes this one."""
        return RIGHTS.index(right) <= RIGHTS.index(self.session.token.right)


class Form(NamedTuple):
    """One form: the route of the API that it is, the notice afterwards, and what undoes it."""

    route: Route
    notice: str
    undo: str = ""
    """The address of the form that undoes it, with the names of the path."""

    @property
    def kind(self) -> type[Request]:
        """What its fields say."""
        return self.route.body or Request


_TABLE: tuple[tuple[str, str, str], ...] = (
    ("/groups/{group}/mark", "mark", ""),
    ("/groups/{group}/note", "note", ""),
    ("/pauses", "pause", "/pauses/{lane}/resume"),
    ("/pauses/{lane}/resume", "resume", ""),
    ("/alerts/{channel}/test", "alert_test", ""),
    ("/runs/{run}/pause", "run_pause", "/runs/{run}/resume"),
    ("/runs/{run}/resume", "run_resume", ""),
    ("/runs/{run}/cancel", "run_cancel", ""),
    ("/runs/{run}/rate", "run_rate", ""),
)
_POSTS = {route.path.removeprefix("/api/v1"): route for route in ROUTES if route.method == "POST"}
FORMS: Mapping[str, Form] = {path: Form(_POSTS[path], *more) for path, *more in _TABLE}
"""By path: POST routes of the API without their prefix.

A submit has no form; an edit and the actions on jobs have their own.
"""
ACT = "/actions"
UNDO: Mapping[str, tuple[str, str]] = {
    **{form.notice: (form.undo, "") for form in FORMS.values()},
    **dict.fromkeys(("resolve", "discard"), (ACT, "reopen {job}")),
}
"""The address of the form that undoes what a notice is about, and the value of its button."""


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


def body_of(
    fields: Mapping[str, str], kind: type[Request], path: Mapping[str, str]
) -> dict[str, object]:
    """Return the fields of a form as the body of a request, but for those that were left empty.

    An empty note removes the note. Numbers may be typed with commas.
    """
    body: dict[str, object] = {
        n: v for n, v in fields.items() if n not in _NOT_FIELDS and (v or n == "note")
    }
    if "confirm" in body:
        body["confirm"] = str(body["confirm"]).replace(",", "").replace(" ", "")
    return body | {n: v for n, v in path.items() if n in kind.__struct_fields__}


def back_of(fields: Mapping[str, str], default: str = "/") -> str:
    """Return the page that a form was on: an address here and nowhere else."""
    back = fields.get("back", "")
    is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
    return back if is_ours and back.isprintable() else default


def root_of(request: HttpRequest) -> str:
    """Return the prefix that the console is mounted under."""
    return str(request.scope.get("root_path", ""))


def texts_of(request: HttpRequest) -> Texts:
    """Return the texts of the language that was chosen by hand, else of the browser's."""
    chosen = request.cookies.get(LANGUAGE)
    accepted = request.headers.get("accept-language", "")
    return texts(chosen if chosen in languages() else language_of(accepted))


def redirect(request: HttpRequest, to: str) -> Response:
    """Redirect to another console page."""
    return RedirectResponse(root_of(request) + to, 303, dict(HEADERS))


def is_refresh(request: HttpRequest) -> bool:
    """Return True if a page refreshes itself."""
    return "hx-request" in request.headers


def is_ahead(request: HttpRequest) -> bool:
    """Return True if nobody may ever see the answer: a preview of a link, or a page loaded ahead."""
    purposes = [request.headers.get(name, "") for name in ("sec-purpose", "purpose", "x-moz")]
    return request.method == "HEAD" or any("prefetch" in purpose for purpose in purposes)


def address_of(request: HttpRequest) -> str:
    """Return the path and query that were asked for, without the root."""
    path = str(request.scope["path"]).removeprefix(root_of(request)) or "/"
    query = request.scope["query_string"].decode("ascii", "replace")
    return f"{path}?{query}" if query else path


def came_from(request: HttpRequest) -> str:
    """Return the page of ours that a form was on; the overview if the browser does not say."""
    referer, host = request.headers.get("referer", ""), request.headers.get("host", "")
    roots = [f"{scheme}://{host}{root_of(request)}" for scheme in ("http", "https")]
    pages = [referer.removeprefix(root) for root in roots if referer.startswith(f"{root}/")]
    return back_of({"back": "".join(pages)})


async def form_of(request: HttpRequest) -> dict[str, str]:
    """Return the fields of a form that was sent from a page of ours.

    One of another origin is refused, and one that does not say which it is of.
    """
    auth.check_origin(request.headers)
    if not {"origin", "sec-fetch-site"} & set(request.headers):
        msg = "the request does not say which page it comes from: send it from a browser"
        raise Problem(403, "no_origin", msg)
    return fields_of(await read(request, "application/x-www-form-urlencoded"))


def read_notice(value: str) -> dict[str, Any]:
    """Return what was done, its names and what undoes it; empty if the cookie is not valid.

    Another program on this host can set the cookie, so the form that undoes it is looked up here.
    """
    try:
        key, names = cast("tuple[Any, Any]", json.loads(unquote(value)))
        values = {name: checked(text, PATH[name], name) for name, text in names.items()}
        to, one = UNDO.get(key, ("", ""))
        undo = to.format(**{name: quote(text, safe="") for name, text in values.items()})
        one = one.format(**values)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, Problem):
        return {}
    return {"key": key, "values": values, "undo": undo, "one": one}
