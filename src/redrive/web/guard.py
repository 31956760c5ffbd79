"""What is checked about a request before anybody looks at what it wants.

The Host header names us and nobody else (so no foreign page can reach a server on loopback by a name of
its own), a page of another origin changes nothing, and a token is said in a header, whole and once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers

from redrive.web.call import Problem
from redrive.web.tokens import Token, Tokens

LARGEST = 16_384
"""Bytes of all headers, and of an address."""
SAFE = frozenset({"GET", "HEAD"})

HEADERS: Mapping[str, str] = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""On every answer that does not say otherwise."""

_HOST = re.compile(r"(?:(?P<name>[a-z0-9._-]{1,253})|\[(?P<six>[0-9a-f:.]{2,45})\])(?::\d{1,5})?")
_OURS = frozenset({"same-origin", "none"})


def check_size(headers: Headers, url: bytes) -> None:
    """Refuse a head that nobody needs to send."""
    if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST:
        raise Problem(431, "long_headers", f"the headers must have at most {LARGEST} bytes")
    if len(url) > LARGEST:
        raise Problem(414, "long_url", f"the address must have at most {LARGEST} bytes")


def check_host(headers: Headers, hosts: Collection[str]) -> None:
    """Refuse a request that was meant for another name."""
    said = headers.getlist("host")
    if len(said) != 1 or name_of(said[0]) not in hosts:
        raise Problem(421, "wrong_host", "this server does not go by that name")


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port; empty for what is none."""
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else found["name"] or found["six"]


def check_origin(headers: Headers) -> None:
    """Refuse a change that a page of another origin asks for."""
    site, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    host = headers["host"].lower()
    ours = {f"http://{host}", f"https://{host}"}
    if any(one not in _OURS for one in site) or any(one.lower() not in ours for one in origins):
        raise Problem(403, "foreign_origin", "pages of other origins change nothing here")


def who(headers: Headers, tokens: Tokens | None, right: str) -> Token | None:
    """Return who sends a request; None if it names nobody and need not.

    Without tokens everybody may do everything: that is for a program that checks by itself.
    """
    if tokens is None:
        return Token("anybody", "act")
    said = headers.getlist("authorization")
    if not said and not right:
        return None
    scheme, _, token = said[0].partition(" ") if len(said) == 1 else ("", "", "")
    found = tokens.find(token) if scheme.lower() == "bearer" else None
    if found is None:
        msg = "a token is needed, as in Authorization: Bearer TOKEN"
        raise Problem(401, "no_token", msg, {"www-authenticate": 'Bearer realm="redrive"'})
    if not found.allows(right):
        raise Problem(403, "not_allowed", f"the token {found.name!r} is not good for this: {right}")
    return found
