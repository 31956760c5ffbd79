"""Signing in: the form for a token, links that work once, and the cookie of a session.

The cookie has the name of the token, the time of the sign-in, a random part, and a MAC over these. Its key
is an HMAC of the token's hash under a random key in the store: every server of the store can check it, it
needs no list of sessions, and it ends with the token.
"""

from __future__ import annotations

import hmac
import secrets
import time
from hashlib import sha256
from typing import cast, get_args
from urllib.parse import quote

from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from redrive.app import Redrive
from redrive.web import LOOPBACK, auth
from redrive.web.auth import ANYBODY, Right, Token, Tokens
from redrive.web.call import Problem
from redrive.web.console import render
from redrive.web.console.requests import (
    HEADERS,
    Place,
    Runner,
    Session,
    address_of,
    back_of,
    came_from,
    form_of,
    is_ahead,
    is_refresh,
    redirect,
    root_of,
    texts_of,
)
from redrive.web.reads import query_of

LASTS = 12 * 3600.0  # seconds after the sign-in when a session ends
ONCE = 120.0  # seconds for which the link of `redrive serve --open` is good, once
_KEY = "web:key"
_BETWEEN = "~"


class Sessions:
    """Decides who asks, and lets people in."""

    def __init__(self, app: Redrive, tokens: Tokens | None, run: Runner, place: Place) -> None:
        self._app = app
        self._tokens = tokens
        self._run = run
        self._place = place
        self._key = b""
        self._codes: dict[str, tuple[Token, float]] = {}

    def find(self, request: HttpRequest) -> Session | None:
        """Return who asks: by the host program if it decides, else by the cookie; None for nobody."""
        if self._place.who is not None:
            return self._of_person(self._place.who(request.scope))
        if self._tokens is None:
            return Session(token=ANYBODY, csrf=self._mac(ANYBODY, "csrf"))
        signed, _, mac = request.cookies.get(self.cookie(request), "").rpartition(_BETWEEN)
        parts = signed.split(_BETWEEN)
        for token in self._tokens.named(parts[0]):
            if is_same(self._mac(token, signed), mac):
                is_over = self._app.store.now() - float(parts[1]) > LASTS
                csrf = self._mac(token, f"csrf{_BETWEEN}{signed}")
                return None if is_over else Session(token=token, csrf=csrf, has_cookie=True)
        return None

    def _of_person(self, person: tuple[str, str] | None) -> Session | None:
        if person is None:
            return None
        name, right = person
        if right not in get_args(Right) or not name:
            msg = f"who() must return None, or a name and read, act or reveal; found {person!r}"
            raise Problem(500, "bad_who", msg)
        token = Token(name, cast("Right", right), b"host")
        return Session(token=token, csrf=self._mac(token, f"csrf{_BETWEEN}{name}"))

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
            token, ends = self._codes.pop(query["once"], (None, 0.0))
            if token is None or time.monotonic() > ends:
                return self._gate(request, back, "sign_in.used", 401)
            return self._welcome(request, token, back)

        return await self._run(does)

    async def enter(self, request: HttpRequest) -> Response:
        """Begin a session with the token that was typed."""
        fields = await form_of(request)
        back = back_of({"back": fields.get("next", "")})

        def does() -> Response:
            if self._place.who is not None:
                return self._sent_to_host(request, back)
            token = self._tokens.find(fields.get("token", "").strip()) if self._tokens else None
            if token is None:
                return self._gate(request, back, "sign_in.wrong", 401)
            return self._welcome(request, token, back)

        return await self._run(does)

    def leave(self, request: HttpRequest) -> Response:
        """Remove the cookie."""
        response = redirect(request, "/sign-in")
        response.delete_cookie(self.cookie(request), path=root_of(request) or "/")
        return response

    def first(self, request: HttpRequest) -> Response:
        """Lead somebody without a session to the sign-in, and back afterwards."""
        if is_refresh(request):
            return Response("", 401, dict(HEADERS))
        to = came_from(request) if request.method == "POST" else address_of(request)
        more = f"?next={quote(to, safe='')}" if to != "/" else ""
        return redirect(request, f"/sign-in{more}")

    def link(self) -> str:
        """Return the path of a page that signs in once and soon, as the token that may act."""
        if self._tokens is None:
            return "/"
        code = secrets.token_urlsafe(32)
        self._codes[code] = self._tokens.strongest(), time.monotonic() + ONCE
        return f"/sign-in?once={code}"

    def cookie(self, request: HttpRequest) -> str:
        """Return a name for each mount, port and store: the ports of a host share their cookies."""
        port = request.headers.get("host", "").rpartition(":")[2]
        text = f"{root_of(request)}|{port}|{self._place.name}"
        return f"redrive_{sha256(text.encode()).hexdigest()[:10]}"

    def _sent_to_host(self, request: HttpRequest, back: str) -> Response:
        """Lead somebody to the sign-in of the host program, and back afterwards."""
        if self.find(request) is not None:
            return redirect(request, back)
        if not self._place.sign_in:
            return self._gate(request, back, status=401)
        to = f"{self._place.sign_in}?next={quote(root_of(request) + back, safe='/')}"
        return RedirectResponse(to, 303, dict(HEADERS))

    def _welcome(self, request: HttpRequest, token: Token, back: str) -> Response:
        signed = _BETWEEN.join([token.name, repr(self._app.store.now()), secrets.token_urlsafe(16)])
        is_local = auth.name_of(request.headers.get("host", "")) in LOOPBACK
        response = redirect(request, back)
        response.set_cookie(
            self.cookie(request),
            f"{signed}{_BETWEEN}{self._mac(token, signed)}",
            max_age=int(LASTS),
            path=root_of(request) or "/",
            secure=not is_local,
            httponly=True,
            samesite="lax",
        )
        return response

    def _gate(
        self, request: HttpRequest, back: str, error: str = "", status: int = 200
    ) -> Response:
        t = texts_of(request)
        data = {"place": self._place, "next": back, "error": t(error) if error else ""}
        html = render.bare("sign_in.html", t, root_of(request), data)
        return Response(html, status, dict(HEADERS), "text/html")

    def _mac(self, token: Token, text: str) -> str:
        key = hmac.digest(self._store_key(), token.digest, "sha256")
        return hmac.digest(key, text.encode(), "sha256").hex()

    def _store_key(self) -> bytes:
        """Return the random key of the store, which the first server makes."""
        while not self._key:
            notes = [note for note in self._app.store.notes(_KEY) if note.name == _KEY]
            if notes:
                self._key = bytes.fromhex(notes[0].value)
            else:
                self._app.store.note(_KEY, secrets.token_hex(32), expected=0, durable=True)
        return self._key


def is_same(given: str, known: str) -> bool:
    """Return True if two texts are the same, in constant time."""
    return hmac.compare_digest(given.encode(), known.encode())
