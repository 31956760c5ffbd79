"""Pages for errors that come before a session is known: they need no session and no store."""

from __future__ import annotations

from functools import cache

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from redrive.web.call import Problem
from redrive.web.console.forms import back_of
from redrive.web.console.pages import Pages
from redrive.web.console.requests import HEADERS, address_of, came_from, root_of, texts_of
from redrive.web.console.visit import Place

_NOT_PAGES = ("/api/", "/metrics", "/healthz", "/readyz")
_WRONG_HOST = 421
"""A page would show the name of the store to another site, by a host name of its own."""
_pages = cache(Pages)


def failure_page(request: HttpRequest, problem: Problem, place: Place) -> Response | None:
    """Return a page for an error; None if a browser did not ask for a page."""
    address = address_of(request)
    is_page = "text/html" in request.headers.get("accept", "")
    if not is_page or address.startswith(_NOT_PAGES) or problem.status == _WRONG_HOST:
        return None
    is_get = request.method in {"GET", "HEAD"}
    data = {
        "place": place,
        "problem": problem,
        "is_get": is_get,
        "back": back_of({"back": address}) if is_get else came_from(request),
    }
    html = _pages().bare("failed.html", texts_of(request), root_of(request), data)
    return Response(html, problem.status, {**HEADERS, **problem.headers}, "text/html")
