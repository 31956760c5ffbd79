"""Requests for pages: who asks, what they may do, and the answer.

Cookies are read here and nowhere else, and tokens in headers are not read here. A change is a POST of a
form that carries the session's own word, from a page of this origin.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import to_builtins
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from redrive.app import Redrive
from redrive.errors import RedriveError, StoreError
from redrive.jobs.logger import log
from redrive.web.auth import Tokens
from redrive.web.call import Problem
from redrive.web.console import acting, pages, render
from redrive.web.console.acting import Outcome, as_problem
from redrive.web.console.pages import Data, Page
from redrive.web.console.requests import (
    ACT,
    FORMS,
    HEADERS,
    LANGUAGE,
    Form,
    Place,
    Runner,
    Session,
    Visit,
    address_of,
    back_of,
    body_of,
    came_from,
    form_of,
    is_refresh,
    read_notice,
    redirect,
    root_of,
    texts_of,
)
from redrive.web.console.sessions import Sessions, is_same
from redrive.web.console.texts import languages
from redrive.web.health import Health
from redrive.web.messages import PATH, JobSearch
from redrive.web.reads import checked
from redrive.web.shared import Shared

Handler = Callable[[HttpRequest], Awaitable[Response]]

PAGES: tuple[Page, ...] = (
    Page("/", pages.overview, refreshes=True),
    Page("/groups", pages.groups, pages.GroupList, refreshes=True),
    Page("/groups/{group}", pages.group, refreshes=True),
    Page("/jobs", pages.jobs, JobSearch),
    Page("/jobs/{job}", pages.job),
    Page("/jobs/{job}/edit", acting.edit, right="act"),
    Page("/runs", pages.runs, refreshes=True),
    Page("/runs/{run}", pages.run, refreshes=True),
    Page("/activity", pages.activity, pages.Activity),
    Page("/system", pages.system, pages.SystemView, refreshes=True),
)
_NOTICE = "_notice"
_YEAR = 366 * 86_400
_FOREVER = {"cache-control": "public, max-age=31536000, immutable", "vary": "Accept-Encoding"}
_NOT_PAGES = ("/api/", "/metrics", "/healthz", "/readyz")
_WRONG_HOST = 421
"""A page would show the name of the store to another site, by a host name of its own."""


class Console:
    """The pages of one app; `paths` are its routes."""

    def __init__(
        self, app: Redrive, tokens: Tokens | None, health: Health, run: Runner, place: Place
    ) -> None:
        self._app = app
        self._health = health
        self._run = run
        self._place = place
        self._shared = Shared()
        self.sessions = Sessions(app, tokens, run, place)

    def paths(self) -> dict[str, dict[str, Handler]]:
        """Return the function of each path and method."""
        found: dict[str, dict[str, Handler]] = {
            "/-/{name}": {"GET": self._asset},
            "/sign-in": {"GET": self.sessions.ask, "POST": self.sessions.enter},
            "/sign-out": {"POST": self._sign_out},
            "/language": {"POST": self._language},
            "/jobs/{job}/reveal": {"POST": self._reveal},
            "/jobs/{job}/edit": {"POST": partial(self._act, acting.save)},
            "/activity/export": {"GET": self._export},
            "/plans": {"POST": partial(self._act, acting.plan)},
            ACT: {"POST": partial(self._act, acting.act)},
        }
        for page in PAGES:
            found.setdefault(page.path, {})["GET"] = partial(self._page, page)
        for path, form in FORMS.items():
            found.setdefault(path, {})["POST"] = partial(self._form, form)
        return found

    async def nowhere(self, request: HttpRequest) -> Response:
        """Answer a request of a browser for a page that there is not."""

        def does(visit: Visit) -> Response:
            raise Problem(404, "no_route", visit.texts("error.no_page"))

        return await self._answer(request, does)

    async def _asset(self, request: HttpRequest) -> Response:
        asset = render.by_public_name().get(request.path_params["name"])
        if asset is None:
            raise Problem(404, "no_route", "there is no such file")
        packed = "gzip" in request.headers.get("accept-encoding", "")
        headers = _FOREVER | ({"content-encoding": "gzip"} if packed else {})
        return Response(asset.packed if packed else asset.plain, 200, headers, asset.kind)

    async def _page(self, page: Page, request: HttpRequest) -> Response:
        def does(visit: Visit) -> Response:
            visit = visit.of(request, page.query)
            return self._shown(visit, page.template, self._read(page, visit))

        return await self._answer(request, does, right=page.right)

    def _read(self, page: Page, visit: Visit) -> Data:
        """Return what a page shows; one that refreshes is read once for all who look."""
        if not page.refreshes:
            return page.does(visit)
        asked = (page.path, *visit.path.values(), urlencode(to_builtins(visit.query)))
        key, does = (*asked, visit.texts.language), partial(page.does, visit)
        return self._shared.get(key, lambda data: data["every"] - 0.2, does)

    async def _form(self, form: Form, request: HttpRequest) -> Response:
        def does(visit: Visit) -> Response:
            fields, visit = visit.form or {}, visit.of(request)
            asked = body_of(fields, form.kind, visit.path)
            form.route.does(visit, checked(asked, form.kind, "form", strict=False))
            self._shared.clear()
            names = {**visit.path, **{n: v for n, v in asked.items() if isinstance(v, str)}}
            return self._gone(visit, back_of(fields), form.notice, names)

        return await self._answer(request, does, right=form.route.right)

    async def _act(self, act: Callable[[Visit], Outcome], request: HttpRequest) -> Response:
        def does(visit: Visit) -> Response:
            outcome = act(visit.of(request))
            if outcome.to:
                names = {"job": outcome.job} if outcome.job else {}
                return self._gone(visit, outcome.to, outcome.notice, names)
            data = outcome.data or {}
            return self._shown(outcome.visit, outcome.template, data, outcome.status)

        return await self._answer(request, does, right="act")

    async def _reveal(self, request: HttpRequest) -> Response:
        def does(visit: Visit) -> Response:
            visit = visit.of(request).at("/jobs/{job}")
            return self._shown(visit, "job.html", pages.job(visit, reveal=True))

        return await self._answer(request, does, right="reveal")

    async def _export(self, request: HttpRequest) -> Response:
        def does(visit: Visit) -> Response:
            text = pages.exported(visit.of(request, pages.Activity))
            name = 'attachment; filename="redrive-activity.jsonl"'
            return Response(
                text, 200, {**HEADERS, "content-disposition": name}, "application/jsonl"
            )

        return await self._answer(request, does)

    async def _language(self, request: HttpRequest) -> Response:
        """Keep the language that somebody chose; it needs no session, so that a sign-in can be read."""
        fields = await form_of(request)
        language = fields.get("language", "")
        if language not in languages():
            known = ", ".join(languages())
            raise Problem(400, "bad_request", f"no language {language[:20]!r}; known: {known}")
        response = redirect(request, back_of(fields))
        path = root_of(request) or "/"
        response.set_cookie(LANGUAGE, language, max_age=_YEAR, path=path, httponly=True)
        return response

    async def _sign_out(self, request: HttpRequest) -> Response:
        return await self._answer(request, lambda _: self.sessions.leave(request))

    async def _answer(
        self,
        request: HttpRequest,
        does: Callable[[Visit], Response],
        *,
        right: str = "read",
    ) -> Response:
        """Check who asks, and answer; what goes wrong is a page, too."""
        form = await form_of(request) if request.method == "POST" else None
        return await self._run(partial(self._checked, request, form, does, right))

    def _checked(
        self,
        request: HttpRequest,
        form: dict[str, str] | None,
        does: Callable[[Visit], Response],
        right: str,
    ) -> Response:
        session = self.sessions.find(request)
        if session is None:
            return self.sessions.first(request)
        visit = self._visit(request, session, form)
        try:
            if not session.token.allows(right):
                msg = f"the token {session.token.name!r} may {session.token.right}; this needs {right!r}"
                raise Problem(403, "not_allowed", msg)
            if form is not None and not is_same(form.get("csrf", ""), session.csrf):
                raise Problem(403, "old_form", visit.texts("error.old_form"))
            return does(visit)
        except (Problem, RedriveError) as error:
            return self._problem(request, visit, error)

    def _visit(self, request: HttpRequest, session: Session, form: dict[str, str] | None) -> Visit:
        cookie = self.sessions.cookie(request)
        return Visit(
            app=self._app,
            health=self._health,
            actor=session.token.name,
            known=True,
            may_reveal=session.token.allows("reveal"),
            root=root_of(request),
            path={},
            session=session,
            texts=texts_of(request),
            shared=self._shared,
            place=self._place,
            is_refresh=is_refresh(request),
            address=address_of(request),
            form=form,
            notice=read_notice(request.cookies.get(cookie + _NOTICE, "")),
            cookie=cookie,
        )

    def _shown(
        self, visit: Visit, template: str, data: Mapping[str, Any], status: int = 200
    ) -> Response:
        html = render.page(visit, template, data)
        response = Response(html, status, dict(HEADERS), "text/html")
        if visit.notice:
            response.delete_cookie(visit.cookie + _NOTICE, path=visit.root or "/")
        return response

    def _gone(self, visit: Visit, to: str, notice: str, names: Mapping[str, str]) -> Response:
        """Lead somebody on after an action, with a notice of what was done."""
        response = RedirectResponse(visit.root + to, 303, dict(HEADERS))
        if notice:
            shown = {name: value for name, value in names.items() if name in PATH}
            value = quote(json.dumps([notice, shown]))
            response.set_cookie(
                f"{visit.cookie}{_NOTICE}",
                value,
                max_age=60,
                path=visit.root or "/",
                httponly=True,
                samesite="strict",
            )
        return response

    def _problem(
        self, request: HttpRequest, visit: Visit, error: Problem | RedriveError
    ) -> Response:
        problem = as_problem(error)
        if isinstance(error, StoreError):
            log.warning("%s %s: %s", request.method, request.scope["path"], error)
        if visit.is_refresh:
            return Response("", problem.status, dict(HEADERS))
        to = back_of(visit.form or {})
        data = {"here": "", "line": "redrive doctor", "problem": problem, "to": to}
        visit = visit if visit.form is None else replace(visit, address=to)
        return self._shown(visit, "error.html", data, problem.status)


def failure_page(request: HttpRequest, problem: Problem, place: Place) -> Response | None:
    """Return a page for an error before a session is known; None if a browser did not ask for a page."""
    address = address_of(request)
    is_page = "text/html" in request.headers.get("accept", "") and not is_refresh(request)
    if not is_page or address.startswith(_NOT_PAGES) or problem.status == _WRONG_HOST:
        return None
    is_get = request.method in {"GET", "HEAD"}
    data = {
        "place": place,
        "problem": problem,
        "is_get": is_get,
        "back": back_of({"back": address}) if is_get else came_from(request),
    }
    html = render.bare("failed.html", texts_of(request), root_of(request), data)
    return Response(html, problem.status, {**HEADERS, **problem.headers}, "text/html")
