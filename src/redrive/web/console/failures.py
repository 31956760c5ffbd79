"""Pages for failures of the server: they need no session and no store."""

from __future__ import annotations

from functools import cache
from urllib.parse import urlsplit

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from redrive.web.call import Problem
from redrive.web.console.forms import back_of
from redrive.web.console.pages import Pages
from redrive.web.console.requests import HEADERS, root_of, texts_of
from redrive.web.console.visit import Place

_FAILED = 500
_NOT_PAGES = ("/api/", "/metrics", "/healthz", "/readyz")
_pages = cache(Pages)


def failure_page(request: HttpRequest, problem: Problem, place: Place) -> Response | None:
    """Return a page for a failure of the server; None if a browser did not ask for a page."""
    root = root_of(request)
    path = request.scope["path"].removeprefix(root)
    is_page = "text/html" in request.headers.get("accept", "") and not path.startswith(_NOT_PAGES)
    if not is_page or problem.status < _FAILED:
        return None
    is_get = request.method in {"GET", "HEAD"}
    query = request.scope["query_string"].decode("ascii", "replace")
    address = f"{path}?{query}" if query else path
    came_from = urlsplit(request.headers.get("referer", "")).path.removeprefix(root)
    data = {
        "place": place,
        "problem": problem,
        "is_get": is_get,
        "back": back_of({"back": address if is_get else came_from}),
    }
    html = _pages().bare("failed.html", texts_of(request), root, data)
    return Response(html, problem.status, {**HEADERS, **problem.headers}, "text/html")
