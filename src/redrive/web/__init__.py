"""Redrive over HTTP: health checks, metrics, a JSON API and the console. Needs the extra `redrive[web]`.

    from redrive.web import asgi
    site = Starlette(routes=[Mount("/redrive", asgi(app, hosts=["shop.example"]))])

Here: routes, tokens, limits, pages (`console`). Not here: what requests do to jobs (`desk`), `redrive serve` (`cli.serve`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, MutableMapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redrive.app import Redrive
from redrive.errors import StoreError, StoreForeign, UsageError
from redrive.jobs.logger import log
from redrive.web.auth import Token, Tokens, from_environ

if TYPE_CHECKING:
    from redrive.web.server import Server

LOOPBACK = ("localhost", "127.0.0.1", "::1")
"""The names of a server that only its own host can reach."""
DEADLINE = 30.0  # seconds for one request


def asgi(
    app: Redrive,
    *,
    tokens: Collection[Token] | None = None,
    hosts: Collection[str] = LOOPBACK,
    auth: bool = True,
    deadline: float = DEADLINE,
    name: str = "",
    environment: str = "",
    who: Callable[[MutableMapping[str, Any]], tuple[str, str] | None] | None = None,
    sign_in: str = "",
) -> Server:
    """Return an ASGI application for an app's store, to be served or mounted.

    `tokens` are those of the environment unless given; with an empty list only health checks are
    answered. `hosts` are the names it goes by; requests for others are refused. `name` and `environment`
    are shown on every page of the console.

    With `who` the host program decides who uses the console: it is called with the ASGI scope of each
    request, on a thread, and returns a name for the audit log and `read`, `act` or `reveal`, or None
    for somebody who may not; these are led to its page `sign_in`. The API still needs a token.
    `auth=False` lets everybody in who gets here: for a program that checks by itself.

    The app stays the caller's to close. Its store is opened here; one that cannot be reached now
    is logged, and requests try again.
    """
    try:
        from redrive.web.console.requests import Place  # noqa: PLC0415 - an extra
        from redrive.web.server import Server  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"serving needs an extra: pip install 'redrive[web]' ({error})") from error
    _open(app)
    if tokens is None:
        tokens = from_environ()
        if auth and not tokens and who is None:
            raise UsageError("there is no token: set REDRIVE_ACT_TOKEN or REDRIVE_READ_TOKEN")
    known = Tokens(tokens) if auth else None
    place = Place(name or _name(app), environment, who, sign_in)
    return Server(app, known, hosts, deadline, place)


def _open(app: Redrive) -> None:
    """Open an app's store; StoreForeign if another version of Redrive created it."""
    try:
        app.store.now()
    except StoreForeign:
        raise
    except StoreError as error:
        log.warning("requests are answered with 503 until the store can be opened: %s", error)


def _name(app: Redrive) -> str:
    """Return the last part of the store's address: a file or a database."""
    try:
        url = app.store.url
    except StoreError:
        return "redrive"
    return PurePath(urlsplit(url).path).name or url
