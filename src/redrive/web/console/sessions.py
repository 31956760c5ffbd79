"""Sessions of people who signed in with a token: a cookie that every server of a store can check.

The cookie has the name of the token, a session id, the time of the sign-in and of the last use, and a
MAC over these. Its key is an HMAC of the token's hash under a random key in the store: it needs no list of
sessions, and ends with the token. Signing out leaves a note, so that copies of the cookie end, too.
"""

from __future__ import annotations

import hmac
import secrets
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import cast, get_args

from redrive.app import Redrive
from redrive.web.call import Problem
from redrive.web.tokens import ANYBODY, Right, Token, Tokens

IDLE, LONGEST = 12 * 3600.0, 7 * 86400.0
"""Seconds after the last use, and after the sign-in, when a session ends."""
RENEWED = 300.0  # seconds after which a used cookie is written anew; the session stays the same
ONCE = 120.0  # seconds for which the link of `redrive serve --open` is good, once
_KEY, _OUT = "web:key", "web:out:"
_BETWEEN = "~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Somebody who signed in."""

    token: Token
    id: str = ""
    issued: float = 0.0
    used: float = 0.0
    csrf: str = ""
    """What every form must carry."""


class Sessions:
    """Makes, checks and ends sessions."""

    def __init__(self, app: Redrive, tokens: Tokens | None) -> None:
        self._app = app
        self._tokens = tokens
        self._key = b""
        self._codes: dict[str, tuple[Token, float]] = {}

    def open(self, token: Token) -> str:
        """Begin a session; return its cookie."""
        now, name = self._app.store.now(), secrets.token_urlsafe(16)
        return self._cookie(Session(token=token, id=name, issued=now, used=now))

    def sign_in(self, text: str) -> Token | None:
        """Return the token with this text."""
        return self._tokens.find(text) if self._tokens else None

    def read(self, cookie: str | None) -> Session | None:
        """Return the session of a cookie; None if it is not valid, has ended or was signed out."""
        if self._tokens is None:
            return Session(token=ANYBODY, csrf=self._mac(ANYBODY, "csrf"))
        parts = (cookie or "").split(_BETWEEN)
        if len(parts) != 5:  # noqa: PLR2004 - name, id, times and MAC
            return None
        name, session_id, issued, used, mac = parts
        signed = _BETWEEN.join(parts[:-1])
        token = next(
            (t for t in self._tokens.named(name) if is_same(self._mac(t, signed), mac)), None
        )
        if token is None:
            return None
        session = Session(token=token, id=session_id, issued=float(issued), used=float(used))
        now = self._app.store.now()
        is_over = now - session.used > IDLE or now - session.issued > LONGEST
        if is_over or self._app.store.notes(_OUT + session_id):
            return None
        return replace(session, csrf=self._mac(token, f"csrf{_BETWEEN}{session_id}"))

    def of_person(self, person: tuple[str, str] | None) -> Session | None:
        """Return the session of somebody whom the host program knows; None for nobody."""
        if person is None:
            return None
        name, right = person
        if right not in get_args(Right) or not name:
            msg = f"who() must return None, or a name and read, act or reveal; found {person!r}"
            raise Problem(500, "bad_who", msg)
        token = Token(name, cast("Right", right), b"host")
        return Session(token=token, csrf=self._mac(token, f"csrf{_BETWEEN}{name}"))

    def renewed(self, session: Session) -> str:
        """Return the cookie of a session that was used; empty while the present one is fresh."""
        now = self._app.store.now()
        if not session.id or now - session.used < RENEWED:
            return ""
        return self._cookie(replace(session, used=now))

    def close(self, session: Session) -> None:
        """End a session for every copy of its cookie."""
        if session.id:
            self._app.store.note(_OUT + session.id, "", expires_in=LONGEST, durable=True)

    def strongest(self) -> Token | None:
        """Return the token of the operator; None if no tokens are needed."""
        return self._tokens.strongest() if self._tokens else None

    def once(self, token: Token) -> str:
        """Return a code that signs in with this token, once and soon."""
        code = secrets.token_urlsafe(32)
        self._codes[code] = token, time.monotonic() + ONCE
        return code

    def take(self, code: str) -> Token | None:
        """Return the token of a code, which is used up by this."""
        token, ends = self._codes.pop(code, (None, 0.0))
        return token if time.monotonic() < ends else None

    def _cookie(self, session: Session) -> str:
        name = session.token.name
        signed = _BETWEEN.join([name, session.id, repr(session.issued), repr(session.used)])
        return f"{signed}{_BETWEEN}{self._mac(session.token, signed)}"

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


def cookie_name(root: str, port: str, store: str) -> str:
    """Return a name of its own for each mount, port and store: ports of a host share their cookies."""
    return "redrive_" + sha256(f"{root}|{port}|{store}".encode()).hexdigest()[:10]
