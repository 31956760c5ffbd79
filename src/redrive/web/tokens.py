"""Who may read, act and reveal: tokens with a name, a right, and only a hash of themselves.

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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from redrive.errors import UsageError

Right = Literal["read", "act", "reveal"]
RIGHTS = ("", *get_args(Right))
VARIABLES = {f"REDRIVE_{right.upper()}_TOKEN": right for right in get_args(Right)}
NAME = re.compile(r"[A-Za-z0-9_.@+-]{1,64}")
_TOKEN = re.compile(r"[\x21-\x7e]{20,500}")


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
