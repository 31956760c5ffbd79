"""What the console reads from a request: its prefix, language, query, origin and notice."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast
from urllib.parse import unquote

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from redrive.errors import RedriveError
from redrive.web import guard
from redrive.web.call import Problem, problem_of
from redrive.web.console.forms import UNDO, back_of, fields_of
from redrive.web.console.texts import Texts, language_of, languages, texts
from redrive.web.messages import PATH, Request
from redrive.web.reads import checked, query_of, read

Search = Literal["", "page", "plan"]
"""If a request searches jobs one by one: for a page of them, or for all that a plan takes."""
Runner = Callable[[Callable[[], Response], Search], Awaitable[Response]]
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


def as_problem(error: Problem | RedriveError) -> Problem:
    """Return an error as a problem with a status."""
    return error if isinstance(error, Problem) else problem_of(error)


def root_of(request: HttpRequest) -> str:
    """Return the prefix that the console is mounted under."""
    return str(request.scope.get("root_path", ""))


def texts_of(request: HttpRequest) -> Texts:
    """Return the texts of the language that was chosen by hand, else of the browser's."""
    chosen = request.cookies.get(LANGUAGE)
    accepted = request.headers.get("accept-language", "")
    return texts(chosen if chosen in languages() else language_of(accepted))


def redirect(request: HttpRequest, to: str) -> Response:
    """Lead somebody to another page of ours."""
    return RedirectResponse(root_of(request) + to, 303, dict(HEADERS))


def typed_query(request: HttpRequest, kind: type[Request]) -> Request:
    """Return what the query says, by the type of a page."""
    return checked(query_of(request.scope["query_string"]), kind, "query", strict=False)


def typed_path(request: HttpRequest) -> dict[str, str]:
    """Return the names in the path, checked."""
    path = dict(request.path_params)
    for name, value in path.items():
        checked(value, PATH[name], f"path.{name}")
    return path


def is_part(request: HttpRequest) -> bool:
    """Return True if a page refreshes one of its parts, by itself."""
    return address_of(request).startswith("/part/")


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
    """Return the fields of a form that was sent from a page of ours."""
    check_origin(request)
    return fields_of(await read(request, "application/x-www-form-urlencoded"))


def check_origin(request: HttpRequest) -> None:
    """Refuse a form of another origin, or one that does not say which it is of."""
    guard.check_origin(request.headers)
    if not {"origin", "sec-fetch-site"} & set(request.headers):
        msg = "the request does not say which page it comes from: send it from a browser"
        raise Problem(403, "no_origin", msg)


def read_notice(value: str) -> dict[str, Any]:
    """Return what was done, its names and what undoes it; empty if the cookie is not valid.

    Another program on this host can set the cookie, so the form that undoes it is looked up here.
    """
    try:
        key, names = cast("tuple[Any, Any]", json.loads(unquote(value)))
        values = {name: checked(text, PATH[name], name) for name, text in names.items()}
        return {"key": key, "values": values, "undo": UNDO.get(key, "").format(**values)}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, Problem):
        return {}
