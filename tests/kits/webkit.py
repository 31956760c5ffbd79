"""Asks a server in-process: what a client sees, without a socket between."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from kit import START
from redrive import Redrive
from redrive.web import asgi
from redrive.web.auth import made

__all__ = ["ACT", "READ", "START", "Web"]

READ, ACT = "read-" + "r" * 30, "act-" + "a" * 30
TOKENS = [made("reader", "read", READ), made("shop", "act", ACT)]
BASE = "http://127.0.0.1:9200"


class Web:
    """A server for an app, and a client that says a token unless told otherwise."""

    def __init__(self, app: Redrive, **settings: Any) -> None:
        self.app = app
        self.site = asgi(app, **{"tokens": TOKENS, **settings})

    def ask(
        self, method: str, path: str, *, token: str | None = ACT, **said: Any
    ) -> httpx.Response:
        headers = httpx.Headers(said.pop("headers", {}))
        if token is not None:
            headers.setdefault("authorization", f"Bearer {token}")

        async def go() -> httpx.Response:
            # What the server raises is an error of the test, not an answer.
            transport = httpx.ASGITransport(self.site, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
                return await client.request(method, path, headers=headers, **said)

        return asyncio.run(go())

    def get(self, path: str, **said: Any) -> Any:
        answer = self.ask("GET", path, **said)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, *, status: int = 200, **said: Any) -> Any:
        answer = self.ask("POST", path, json={} if body is None else body, **said)
        assert answer.status_code == status, answer.text
        return answer.json()
