"""A proxy signs people in: trusted with its secret, and never without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from consolekit import TOKENS, Page, Visitor
from redrive import Redrive
from redrive.web.call import Problem
from redrive.web.console.forms import FORMS
from redrive.web.proxy import TrustedProxy
from redrive.web.tokens import Right, made
from shopkit import name
from webkit import ACT, BASE, READ

SECRET = "proxy-" + "s" * 30
PEOPLE: dict[str, Right] = {"mira@shop.example": "act", "root": "reveal", "*": "read"}
PATHS = {"job": name(1), "group": "G1", "run": "R1", "plan": "none", "lane": "mail.send"}
PATHS["channel"] = "none"
MIRA = "mira@shop.example"


class Proxied(Visitor):
    """Somebody whose requests come through a proxy, which adds headers."""

    def __init__(
        self, app: Redrive, person: str = MIRA, *, people: Any = None, **more: Any
    ) -> None:
        proxy = TrustedProxy("X-User", made("proxy", "read", SECRET), people or PEOPLE, ())
        super().__init__(app, None, **{"who": proxy, "tokens": (), **more})
        self.added = {"x-user": person, "redrive-proxy-secret": SECRET}

    def ask(self, method: str, path: str, **said: Any) -> httpx.Response:
        return super().ask(
            method, path, **{**said, "headers": {**self.added, **said.get("headers", {})}}
        )


@pytest.fixture
def untouched(app: Redrive) -> Iterator[None]:
    yield
    assert app.desk.log.actions() == []


def test_the_person_that_the_proxy_names_acts_under_that_name(app: Redrive) -> None:
    mira = Proxied(app)
    page = mira.page("/")
    assert MIRA in page.text
    assert "/sign-out" not in page.posts()
    assert mira.send(f"/jobs/{name(1)}/retry", reason="by hand").status_code == 303
    assert app.desk.log.actions()[0].actor == MIRA
    assert mira.ask("GET", "/sign-in?next=/groups").headers["location"] == "/groups"
    assert not [cookie.name for cookie in mira.cookies.jar if not cookie.name.endswith("_notice")]


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize("path", FORMS)
def test_every_form_needs_the_secret_a_right_an_origin_and_its_word(
    app: Redrive, path: str
) -> None:
    mira, wall = Proxied(app), Proxied(app, "wall")
    csrf, at = mira.csrf(), path.format(**PATHS)
    ours = {"origin": BASE}
    for added in (
        {},
        {"redrive-proxy-secret": SECRET},
        {"x-user": MIRA},
        {"x-user": MIRA, "redrive-proxy-secret": SECRET[:-1]},
        {"x-user": MIRA, "redrive-proxy-secret": ""},
    ):
        mira.added = added
        assert mira.ask("POST", at, data={"csrf": csrf}, headers=ours).status_code == 401, added
    mira = Proxied(app)
    assert wall.ask("POST", at, data={"csrf": wall.csrf()}, headers=ours).status_code == 403
    assert mira.ask("POST", at, data={"csrf": csrf}).status_code == 403
    for foreign in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert mira.ask("POST", at, data={"csrf": csrf}, headers=foreign).status_code == 403
    for word in ("", wall.csrf()):
        assert mira.ask("POST", at, data={"csrf": word}, headers=ours).status_code == 403


def test_the_right_is_that_of_the_line_with_the_name(app: Redrive) -> None:
    reader = Proxied(app, "anybody.else")
    assert reader.page(f"/jobs/{name(1)}").posts() == ["/language"]
    reveal = f"/jobs/{name(1)}/reveal"
    assert Proxied(app).send(reveal).status_code == 403
    assert Proxied(app, "root").send(reveal).status_code == 200
    strict = Proxied(app, "anybody.else", people={MIRA: "act"})
    answer = strict.ask("GET", "/groups")
    assert (answer.status_code, "G1" in answer.text) == (403, False)
    assert "add &#39;anybody.else read&#39;" in answer.text
    assert strict.ask("GET", "/part/overview").status_code == 403


@pytest.mark.parametrize(("sent", "line"), [(MIRA.upper(), MIRA), (MIRA, MIRA.title())])
def test_names_are_compared_without_case_and_written_as_in_the_file(
    app: Redrive, sent: str, line: str
) -> None:
    mira = Proxied(app, sent, people={line: "act", "*": "read"})
    assert mira.send(f"/jobs/{name(1)}/retry", reason="by hand").status_code == 303
    assert app.desk.log.actions()[0].actor == line


ODD = ["", "a b", "mira@shop.example, root", "<b>x</b>", "*", "x" * 65, "mira\tread"]


@pytest.mark.parametrize("person", ODD)
def test_a_name_that_is_none_is_refused(app: Redrive, person: str) -> None:
    answer = Proxied(app, person).ask("GET", "/")
    assert answer.status_code == 401
    assert "must send one name" in Page(answer.text).text
    assert "<b>x" not in answer.text


@pytest.mark.parametrize(
    "twice", [(b"x-user", b"root"), (b"redrive-proxy-secret", SECRET.encode())]
)
def test_headers_that_are_sent_twice_are_refused(twice: tuple[bytes, bytes]) -> None:
    proxy = TrustedProxy("X-User", made("proxy", "read", SECRET), PEOPLE, ())
    headers = [(b"x-user", b"root"), (b"redrive-proxy-secret", SECRET.encode())]
    assert proxy({"type": "http", "headers": headers}) == ("root", "reveal")
    with pytest.raises(Problem):
        proxy({"type": "http", "headers": [*headers, twice]})


def test_nothing_else_reads_the_headers(app: Redrive) -> None:
    """Neither the API, nor a server that trusts no proxy."""
    for visitor in (Proxied(app), Proxied(app, tokens=TOKENS)):
        assert visitor.ask("GET", "/api/v1/jobs").status_code == 401
    bearer = {"authorization": f"Bearer {READ}"}
    api = Proxied(app, tokens=TOKENS)
    assert api.ask("GET", "/api/v1/jobs", headers=bearer).status_code == 200
    api.added = {}
    signed = api.sign_in(ACT)
    assert (signed.status_code, "set-cookie" in signed.headers) == (401, False)
    assert api.ask("GET", "/groups").status_code == 401
    assert Proxied(app, who=None, tokens=TOKENS).ask("GET", "/groups").status_code == 303


@pytest.mark.parametrize("place", ["/oauth2/", "= /oauth2/auth"])
def test_the_nginx_example_replaces_what_oauth2_proxy_trusts(place: str) -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "reverse-proxy.md"
    block = page.read_text().partition(f"location {place} {{")[2].partition("}")[0]
    assert dict(re.findall(r"proxy_set_header (X-\S+) (\S+);", block)) == {
        "X-Forwarded-Uri": "$request_uri",
        "X-Forwarded-Host": "$http_host",
        "X-Forwarded-Proto": "$scheme",
        "X-Real-IP": "$remote_addr",
    }
