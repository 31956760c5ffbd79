"""A visitor of the console: cookies are kept, forms are sent as a browser sends them."""

from __future__ import annotations

import asyncio
import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl

import httpx
from starlette.applications import Starlette
from starlette.routing import Mount

from redrive import Redrive
from redrive.web import asgi
from redrive.web.auth import made
from webkit import ACT, BASE, READ

REVEAL = "reveal-" + "v" * 30
TOKENS = [
    made("mira", "act", ACT),
    made("wall", "read", READ),
    made("root", "reveal", REVEAL),
]


class Visitor:
    """Somebody with a browser of their own."""

    def __init__(
        self, app: Redrive, token: str | None = ACT, root: str = "", **settings: Any
    ) -> None:
        self.app, self.root = app, root
        self.site: Any = asgi(app, **{"tokens": TOKENS, **settings})
        self.cookies = httpx.Cookies()
        if root:
            self.site = Starlette(routes=[Mount(root, self.site)])
        if token is not None:
            assert self.sign_in(token).status_code == 303

    def ask(self, method: str, path: str, **said: Any) -> httpx.Response:
        headers = httpx.Headers(said.pop("headers", {}))
        headers.setdefault("accept", "text/html")

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.site, raise_app_exceptions=True)
            async with httpx.AsyncClient(
                transport=transport, base_url=BASE, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, headers=headers, **said)
                self.cookies = client.cookies
                return answer

        return asyncio.run(go())

    def sign_in(self, token: str, **more: str) -> httpx.Response:
        data = {"token": token, **more}
        return self.ask("POST", f"{self.root}/sign-in", data=data, headers={"origin": BASE})

    def page(self, path: str, status: int = 200) -> Page:
        answer = self.ask("GET", path)
        assert answer.status_code == status, answer.text
        return Page(answer.text)

    def send(
        self, path: str, *, csrf: str | None = None, headers: Any = (), **fields: Any
    ) -> httpx.Response:
        """Send a form, with the word of this session unless another is given."""
        word = self.csrf(headers) if csrf is None else csrf
        more = [("origin", BASE), *httpx.Headers(headers).multi_items()]
        return self.ask("POST", path, data={"csrf": word, **fields}, headers=more)

    def open(self, address: str, **said: Any) -> httpx.Response:
        """Ask for a page; that of a plan is the answer to a form."""
        path, _, query = address.partition("?")
        if path != "/plans":
            return self.ask("GET", address, **said)
        data = {"csrf": self.csrf(), **dict(parse_qsl(query))}
        headers = {"origin": BASE, **said.get("headers", {})}
        return self.ask("POST", path, data=data, headers=headers)

    def plan(self, verb: str, q: str) -> Page:
        """Ask what an action would do."""
        answer = self.send("/plans", verb=verb, q=q)
        assert answer.status_code == 200, answer.text
        return Page(answer.text)

    def carry_out(self, plan: Page, **typed: str) -> httpx.Response:
        """Send the form of a plan, with what was typed into it."""
        return self.send("/actions", **{**plan.fields(), **typed})

    def csrf(self, headers: Any = ()) -> str:
        html = self.ask("GET", f"{self.root}/groups", headers=headers).text
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', html)
        return found[1] if found else ""


class Page(HTMLParser):
    """A page: its tags, its text, and its forms."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self._texts.append(data)

    @property
    def text(self) -> str:
        """What a person reads, spaces joined."""
        return " ".join(" ".join(self._texts).split())

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def links(self) -> list[str]:
        return [attrs["href"] for attrs in self.all("a") if "href" in attrs]

    def fields(self) -> dict[str, str]:
        """The hidden fields of the forms, but for the word of the session."""
        hidden = [one for one in self.all("input") if one.get("type") == "hidden"]
        return {one["name"]: one["value"] for one in hidden if one["name"] != "csrf"}

    def posts(self) -> list[str]:
        """The addresses of the forms that change something."""
        return [form["action"] for form in self.all("form") if form.get("method") == "post"]
