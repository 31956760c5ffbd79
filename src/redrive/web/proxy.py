"""People whom a proxy signs in: it names them in one header, and proves itself by a secret in another.

Without the secret the name is not looked at. The API does not read these headers: it needs a token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from starlette.datastructures import Headers

from redrive.errors import UsageError
from redrive.web.call import Problem
from redrive.web.tokens import ANYBODY, EVERYBODY, NAME, VARIABLES, Right, Token, Tokens

SECRET = "Redrive-Proxy-Secret"  # noqa: S105 - the name of the header
_TAKEN = {SECRET.lower(), "host", "cookie", "authorization", "origin"}


class TrustedProxy:
    """Returns the name and the right of the person that a request names, for `asgi(who=)`."""

    def __init__(
        self, header: str, secret: Token, people: Mapping[str, Right], tokens: Iterable[Token]
    ) -> None:
        if not re.fullmatch("[A-Za-z0-9-]+", header) or header.lower() in _TAKEN:
            msg = "--user-header must be a name of letters, digits and -, such as X-User; not"
            raise UsageError(f"{msg} {', '.join(sorted(_TAKEN))}; found {header!r}")
        self._header = header
        self._secret = Tokens([secret])
        self._people = {name.casefold(): (name, right) for name, right in people.items()}
        names = [ANYBODY.name, *(f"api-{right}" for right in VARIABLES.values())]
        self._reserved = {name.casefold() for name in (*names, *(token.name for token in tokens))}

    def __call__(self, scope: MutableMapping[str, Any]) -> tuple[str, str]:
        """Return who asks; raise Problem if it is not the proxy, or names nobody who has a right."""
        headers = Headers(scope=scope)
        secrets, names = headers.getlist(SECRET), headers.getlist(self._header)
        if len(secrets) != 1 or self._secret.find(secrets[0]) is None:
            msg = f"open the console at its proxy, which must send the right secret as {SECRET}"
            raise Problem(401, "no_proxy", msg)
        if len(names) != 1 or not NAME.fullmatch(names[0]):
            msg = f"the proxy must send one name of letters, digits, _ . @ + or - as {self._header}"
            raise Problem(401, "no_user", f"{msg}; found {', '.join(names)[:80]!r}")
        folded = names[0].casefold()
        if folded in self._reserved:
            msg = (
                f"{names[0]} is the name of a token: use another name at the proxy or for the token"
            )
            raise Problem(403, "name_of_token", msg)
        everybody = self._people.get(EVERYBODY)
        person = self._people.get(folded, everybody and (names[0], everybody[1]))
        if person is None:
            msg = f"{names[0]} may not use this console: add '{names[0]} read' to the file of --tokens"
            raise Problem(403, "no_right", f"{msg} and restart the server")
        return person
