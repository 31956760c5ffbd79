"""Signing in: the form for a token, links that work once, and the cookie of a session.

Last use is what a person does: pages and forms. A refresh of a part is not, so an open tab ends, too.
"""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from redrive.web import LOOPBACK, guard
from redrive.web.console.forms import back_of
from redrive.web.console.pages import Pages
from redrive.web.console.requests import (
    HEADERS,
    Runner,
    address_of,
    came_from,
    form_of,
    is_ahead,
    is_part,
    redirect,
    root_of,
    texts_of,
)
from redrive.web.console.sessions import LONGEST, Session, Sessions, cookie_name
from redrive.web.console.visit import Place
from redrive.web.reads import query_of
from redrive.web.tokens import Token


class SignIn:
    """Decides who asks, and lets people in."""

    def __init__(self, sessions: Sessions, pages: Pages, run: Runner, place: Place) -> None:
        self._sessions = sessions
        self._pages = pages
        self._run = run
        self._place = place

    def session(self, request: HttpRequest) -> Session | None:
        """Return who asks: by the host program if it decides, else by the cookie."""
        if self._place.who is not None:
            return self._sessions.of_person(self._place.who(request.scope))
        return self._sessions.read(request.cookies.get(self.cookie(request)))

    async def ask(self, request: HttpRequest) -> Response:
        """Show the form for a token; a code of `redrive serve --open` needs none."""
        query = query_of(request.scope["query_string"])
        back = back_of({"back": query.get("next", "")})

        def does() -> Response:
            if self._place.who is not None:
                return self._sent_to_host(request, back)
            if "once" not in query:
                return self._gate(request, back)
            if is_ahead(request):  # a person may still want to use the code
                return Response("", 200 if request.method == "HEAD" else 503, dict(HEADERS))
            token = self._sessions.take(query["once"])
            if token is None:
                return self._gate(request, back, "sign_in.used", 401)
            return self._welcome(request, token, back)

        return await self._run(does, "")

    async def enter(self, request: HttpRequest) -> Response:
        """Begin a session with the token that was typed."""
        fields = await form_of(request)
        back = back_of({"back": fields.get("next", "")})

        def does() -> Response:
            if self._place.who is not None:
                return self._sent_to_host(request, back)
            token = self._sessions.sign_in(fields.get("token", "").strip())
            if token is None:
                return self._gate(request, back, "sign_in.wrong", 401)
            return self._welcome(request, token, back)

        return await self._run(does, "")

    def leave(self, request: HttpRequest, session: Session) -> Response:
        """End a session, and remove its cookie."""
        self._sessions.close(session)
        response = redirect(request, "/sign-in")
        response.delete_cookie(self.cookie(request), path=root_of(request) or "/")
        return response

    def renew(self, request: HttpRequest, response: Response, session: Session) -> None:
        """Write the last use of a session into its cookie."""
        own = f"{self.cookie(request)}="
        is_closed = any(c.startswith(own) for c in response.headers.getlist("set-cookie"))
        if is_part(request) or is_ahead(request) or is_closed:
            return
        if cookie := self._sessions.renewed(session):
            self._set(request, response, cookie)

    def first(self, request: HttpRequest) -> Response:
        """Lead somebody without a session to the sign-in, and back afterwards."""
        if is_part(request):
            return Response("", 401, dict(HEADERS))
        to = came_from(request) if request.method == "POST" else address_of(request)
        more = f"?next={quote(to, safe='')}" if to != "/" else ""
        return redirect(request, f"/sign-in{more}")

    def cookie(self, request: HttpRequest) -> str:
        """Return the name of the cookie of sessions."""
        port = request.headers.get("host", "").rpartition(":")[2]
        return cookie_name(root_of(request), port, self._place.name)

    def _sent_to_host(self, request: HttpRequest, back: str) -> Response:
        """Lead somebody to the sign-in of the host program, and back afterwards."""
        if self.session(request) is not None:
            return redirect(request, back)
        if not self._place.sign_in:
            return self._gate(request, back, status=401)
        to = f"{self._place.sign_in}?next={quote(root_of(request) + back, safe='/')}"
        return RedirectResponse(to, 303, dict(HEADERS))

    def _welcome(self, request: HttpRequest, token: Token, back: str) -> Response:
        response = redirect(request, back)
        self._set(request, response, self._sessions.open(token))
        return response

    def _gate(
        self, request: HttpRequest, back: str, error: str = "", status: int = 200
    ) -> Response:
        t = texts_of(request)
        data = {"place": self._place, "next": back, "error": t(error) if error else ""}
        html = self._pages.bare("sign_in.html", t, root_of(request), data)
        return Response(html, status, dict(HEADERS), "text/html")

    def _set(self, request: HttpRequest, response: Response, value: str) -> None:
        is_local = guard.name_of(request.headers.get("host", "")) in LOOPBACK
        response.set_cookie(
            self.cookie(request),
            value,
            max_age=int(LONGEST),
            path=root_of(request) or "/",
            secure=not is_local,
            httponly=True,
            samesite="lax",
        )
