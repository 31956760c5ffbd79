"""What is checked about a request before anybody looks at what it wants.

The Host header names us and nobody else (so no foreign page can reach a server on loopback by a name of
its own), a page of another origin changes nothing, and a token is sent in a header, whole and once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from starlette.datastructures import Headers

from redrive.web.call import Problem
from redrive.web.tokens import ANYBODY, Token, Tokens

LARGEST = 16_384  # bytes of all headers, and of an address
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
    """Refuse headers or a URL that are too long."""
    if sum(len(name) + len(value) for name, value in headers.raw) > LARGEST:
        raise Problem(431, "long_headers", f"the headers must have at most {LARGEST:,} bytes")
    if len(url) > LARGEST:
        raise Problem(414, "long_url", f"the URL must have at most {LARGEST:,} bytes")


def check_host(headers: Headers, hosts: Collection[str]) -> None:
    """Refuse a request that was meant for another name."""
    names = headers.getlist("host")
    if len(names) != 1 or name_of(names[0]) not in hosts:
        raise Problem(
            421,
            "wrong_host",
            "the Host header names another server; redrive serve --allow-host adds a name",
        )


def name_of(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it is not valid."""
    match = _HOST.fullmatch(host.lower())
    return "" if match is None else match["name"] or match["six"]


def check_origin(headers: Headers) -> None:
    """Refuse a change that a page of another origin asks for."""
    site, origins = headers.getlist("sec-fetch-site"), headers.getlist("origin")
    host = headers["host"].lower()
    ours = {f"http://{host}", f"https://{host}"}
    if not _OURS.issuperset(site) or not ours.issuperset(map(str.lower, origins)):
        raise Problem(
            403,
            "foreign_origin",
            "the request comes from a page of another origin, which may not make changes here",
        )


def who(headers: Headers, tokens: Tokens | None, right: str) -> Token | None:
    """Return who sends a request; None if it names nobody and need not.

    Without tokens everybody may do everything: that is for a program that checks by itself.
    """
    if tokens is None:
        return ANYBODY
    given = headers.getlist("authorization")
    if not given and not right:
        return None
    scheme, _, text = given[0].partition(" ") if len(given) == 1 else ("", "", "")
    token = tokens.find(text) if scheme.lower() == "bearer" else None
    if token is None:
        msg = "a valid token is needed: send Authorization: Bearer TOKEN"
        raise Problem(401, "no_token", msg, {"www-authenticate": 'Bearer realm="redrive"'})
    if not token.allows(right):
        msg = f"the token {token.name!r} has the right {token.right!r}; this needs {right!r}"
        raise Problem(403, "not_allowed", msg)
    return token
