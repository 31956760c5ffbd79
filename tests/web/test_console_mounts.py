"""The console under a prefix of another program, which may decide who asks."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from consolekit import TOKENS, Page
from redrive import Redrive
from redrive.web import asgi
from shopkit import name
from webkit import ACT, BASE, READ

ROOT = "/ops/redrive"


class Host:
    """A program with the console under a prefix, and a browser."""

    def __init__(self, app: Redrive, **settings: Any) -> None:
        async def home(_: object) -> PlainTextResponse:
            return PlainTextResponse("the host program")

        site = asgi(app, **{"tokens": TOKENS, **settings})
        self.site = Starlette(routes=[Route("/", home), Mount(ROOT, site)])
        self.cookies = httpx.Cookies()

    def ask(self, method: str, path: str, **said: Any) -> httpx.Response:
        more = httpx.Headers(said.pop("headers", {})).multi_items()
        headers = [("accept", "text/html"), ("origin", BASE), *more]

        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(self.site)
            async with httpx.AsyncClient(
                transport=transport, base_url=BASE, cookies=self.cookies
            ) as client:
                answer = await client.request(method, path, headers=headers, **said)
                self.cookies = client.cookies
                return answer

        return asyncio.run(go())

    def csrf(self, path: str = f"{ROOT}/groups", **said: Any) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.ask("GET", path, **said).text)
        assert found is not None
        return found[1]


def addresses(page: Page) -> list[str]:
    names = ("href", "src", "action", "formaction", "hx-get")
    found = [attrs[name] for _, attrs in page.tags for name in names if name in attrs]
    return [address for address in found if not address.startswith("#")]


def test_every_address_has_the_prefix_and_works(app: Redrive) -> None:
    host = Host(app)
    assert host.ask("GET", "/").text == "the host program"
    answer = host.ask("GET", f"{ROOT}/jobs?q=state:dead")
    to = answer.headers["location"]
    assert to == f"{ROOT}/sign-in?next=%2Fjobs%3Fq%3Dstate%3Adead"
    signed = host.ask("POST", f"{ROOT}/sign-in", data={"token": ACT, "next": "/jobs?q=state:dead"})
    assert signed.headers["location"] == f"{ROOT}/jobs?q=state:dead"
    assert f"Path={ROOT};" in signed.headers["set-cookie"]
    seen = set[str]()
    job = f"{ROOT}/jobs/{name(1)}"
    for path in ("/", "/groups/G1", "/jobs", "/runs", "/activity", "/system"):
        page = Page(host.ask("GET", ROOT + path).text)
        assert addresses(page)
        assert all(address.startswith(f"{ROOT}/") for address in addresses(page)), path
        seen |= {link for link in page.links() if "#" not in link}
    for link in seen:
        assert host.ask("GET", link).status_code == 200, link
    sent = host.ask("POST", f"{job}/retry", data={"csrf": host.csrf(), "back": "/jobs"})
    assert sent.headers["location"] == f"{ROOT}/jobs"
    assert app.get(name(1)).state == "pending"
    assert host.ask("GET", f"{ROOT}/api/v1/jobs").status_code == 401
    api = {"authorization": f"Bearer {READ}"}
    assert host.ask("GET", f"{ROOT}/api/v1/jobs", headers=api).status_code == 200


PEOPLE = {"mira": "act", "wall": "read", "root": "reveal"}


def who(scope: Any) -> tuple[str, str] | None:
    """The host program knows people by a header."""
    name = dict(scope["headers"]).get(b"x-person", b"").decode()
    return (name, PEOPLE[name]) if name in PEOPLE else None


def as_(name: str) -> dict[str, dict[str, str]]:
    return {"headers": {"x-person": name}}


def test_the_host_program_decides_who_reads_acts_and_reveals(app: Redrive) -> None:
    host = Host(app, who=who, tokens=())
    job = f"{ROOT}/jobs/{name(1)}"
    assert "mira" in host.ask("GET", ROOT + "/", **as_("mira")).text
    page = Page(host.ask("GET", job, **as_("wall")).text)
    assert page.posts() == [f"{ROOT}/language"]
    csrf = host.csrf(**as_("mira"))
    assert host.ask("POST", f"{job}/retry", data={"csrf": csrf}, **as_("wall")).status_code == 403
    assert host.ask("POST", f"{job}/retry", data={"csrf": "x"}, **as_("mira")).status_code == 403
    assert host.ask("POST", f"{job}/reveal", data={"csrf": csrf}, **as_("mira")).status_code == 403
    assert host.ask("POST", f"{job}/retry", data={"csrf": csrf}, **as_("mira")).status_code == 303
    assert app.desk.log.actions()[0].actor == "mira"
    assert f"{ROOT}/sign-out" not in page.posts()


def test_the_recipe_for_a_proxy_trusts_its_secret_alone(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROXY_SECRET", "s3cret")
    page = Path(__file__).parents[2] / "docs" / "howto" / "reverse-proxy.md"
    recipe: dict[str, Any] = {}
    exec(page.read_text().partition("```python\n")[2].partition("```")[0], recipe)
    host = Host(app, who=recipe["who"], tokens=())
    good = [("x-user", "mira@shop.example"), ("x-proxy-secret", "s3cret")]
    csrf = host.csrf(headers=good)
    sent = host.ask("POST", f"{ROOT}/jobs/{name(1)}/retry", data={"csrf": csrf}, headers=good)
    assert (sent.status_code, app.desk.log.actions()[0].actor) == (303, "mira@shop.example")
    reader = [("x-user", "wall"), good[1]]
    assert host.ask("GET", ROOT + "/", headers=reader).status_code == 200
    assert host.ask("GET", f"{ROOT}/jobs/{name(1)}/edit", headers=reader).status_code == 403
    for bad in (
        good[:1],
        good[1:],
        [good[0], ("x-proxy-secret", "s3cre")],
        [good[0], ("x-proxy-secret", "")],
        [*good, ("x-user", "root")],
        [*good, good[1]],
    ):
        assert host.ask("GET", f"{ROOT}/groups", headers=bad).status_code == 303, bad
    monkeypatch.setitem(recipe, "SECRET", b"")
    assert host.ask("GET", f"{ROOT}/groups", headers=[good[0], bad[1]]).status_code == 303


def test_whom_the_host_program_does_not_know_is_led_to_its_sign_in(app: Redrive) -> None:
    host = Host(app, who=who, tokens=(), sign_in="/accounts/login/")
    first = host.ask("GET", f"{ROOT}/groups?status=all")
    to = host.ask("GET", first.headers["location"]).headers["location"]
    assert to == f"/accounts/login/?next={ROOT}/groups%3Fstatus%3Dall"
    refresh = host.ask("GET", f"{ROOT}/groups", headers={"hx-request": "true"})
    assert refresh.status_code == 401
    plain = Host(app, who=who, tokens=(), name="shop")
    page = plain.ask("GET", plain.ask("GET", f"{ROOT}/groups").headers["location"])
    assert page.status_code == 401
    assert "not signed in to shop" in page.text
    assert "token" not in page.text.lower()


def test_tokens_and_cookies_do_not_pass_by_the_host_program(app: Redrive) -> None:
    host = Host(app, who=who)
    host.ask("POST", f"{ROOT}/sign-in", data={"token": ACT})
    assert host.ask("GET", f"{ROOT}/groups").status_code == 303
    bare = Host(app, who=who, tokens=())
    for headers in ({"x-person": "mira"}, {"authorization": "Bearer "}):
        assert bare.ask("GET", f"{ROOT}/api/v1/jobs", headers=headers).status_code == 401


@pytest.mark.parametrize("person", [("", "act"), ("mira", "admin"), ("mira", "")])
def test_a_wrong_answer_of_the_host_program_lets_nobody_in(
    app: Redrive, person: tuple[str, str]
) -> None:
    host = Host(app, who=lambda _: person, tokens=())
    answer = host.ask("GET", f"{ROOT}/groups")
    assert answer.status_code == 500
    assert "G1" not in answer.text
