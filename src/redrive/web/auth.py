"""Who may ask for what: host names, origins, and tokens with a name, a right and only a hash of themselves.

The Host header names us and nobody else (so no foreign page can reach a server on loopback by a name of
its own), a page of another origin changes nothing, and a token is sent in a header, whole and once.

They come from the environment (`REDRIVE_READ_TOKEN`, `REDRIVE_ACT_TOKEN`, `REDRIVE_REVEAL_TOKEN`) or
from a file that only its owner may read, one a line: a name, `read`, `act` or `reveal`, and the token.
Each right includes those before it. The name is the actor in the audit log. The file is read at the start:
to revoke a token, remove it and restart.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

from redrive.errors import UsageError
from redrive.web.call import Problem

if TYPE_CHECKING:  # the tokens need no extra
    from starlette.datastructures import Headers

Right = Literal["read", "act", "reveal"]
RIGHTS = ("", *get_args(Right))
VARIABLES = {f"REDRIVE_{right.upper()}_TOKEN": right for right in get_args(Right)}
NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{20,500}")
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


@dataclass(frozen=True, slots=True)
class Token:
    """The name, the right and the hash of a token."""

    name: str
    right: Right
    digest: bytes = b""

    def allows(self, right: str) -> bool:
        """Return True if its right includes this one."""
        return RIGHTS.index(right) <= RIGHTS.index(self.right)


ANYBODY = Token("anybody", "act")  # without tokens: everybody who gets here may act


class Tokens:
    """The tokens that a server knows."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._tokens = tuple(tokens)

    def find(self, text: str) -> Token | None:
        """Return the token with this text, in constant time."""
        digest = _hash(text)
        equal = [token for token in self._tokens if hmac.compare_digest(token.digest, digest)]
        return equal[0] if equal else None

    def named(self, name: str) -> list[Token]:
        """Return the tokens of this name."""
        return [token for token in self._tokens if token.name == name]

    def strongest(self) -> Token:
        """Return the token that may do most, but not reveal unless all may."""
        by_right = {token.right: token for token in reversed(self._tokens)}
        return by_right.get("act") or by_right.get("reveal") or by_right["read"]


def made(name: str, right: str, token: str) -> Token:
    """Make a token, or raise UsageError."""
    if not NAME.fullmatch(name) or right not in VARIABLES.values():
        raise UsageError(
            "a token needs a name of letters, digits, _ . @ + or - and the right read, act or reveal; "
            f"found {name!r} {right!r}"
        )
    if not _TOKEN.fullmatch(token):
        raise UsageError(f"the token of {name!r} must have 20 to 500 visible ASCII characters")
    return Token(name, cast("Right", right), _hash(token))


def from_environ(environ: Mapping[str, str] | None = None) -> list[Token]:
    """Read the tokens of the environment: `api-read`, `api-act` and `api-reveal`."""
    environ = os.environ if environ is None else environ
    texts = [(right, environ.get(variable)) for variable, right in VARIABLES.items()]
    return [made(f"api-{right}", right, text) for right, text in texts if text]


def from_file(path: Path) -> list[Token]:
    """Read a file of tokens, one a line; one that others may read is refused."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o077:
                msg = f"{path} must be a file that only its owner may read: chmod 600 {path}"
                raise UsageError(msg)
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the tokens in {path}: {error}") from error
    tokens: dict[str, Token] = {}
    written = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    for number, parts in enumerate(written, 1):
        if len(parts) != 3 or parts[0] in tokens:  # noqa: PLR2004 - name, right, token
            msg = "write a name that is used once, a right and the token"
            raise UsageError(f"{path}, entry {number}: {msg}")
        tokens[parts[0]] = made(*parts)
    return list(tokens.values())


def write_file(path: Path, operator: str = "operator") -> None:
    """Make a file with two new tokens, one to read and one to act, for its owner only."""
    is_free = NAME.fullmatch(operator) and operator.casefold() != "reader"
    operator = operator if is_free else "operator"
    first: Mapping[str, Right] = {"reader": "read", operator: "act"}
    lines = [f"{name} {right} {secrets.token_urlsafe(32)}" for name, right in first.items()]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made_at = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise UsageError(f"cannot create the file of tokens {path}: {error.strerror}") from error
    with open(made_at, "w", encoding="utf-8") as file:  # noqa: PTH123 - it is open already
        file.write("\n".join(["# name, right, token", *lines, ""]))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


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
