"""Signing in to the console: cookies, their ends, and what keeps others out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from consolekit import REVEAL, TOKENS, Page, Visitor
from redrive import Redrive
from redrive.testing import ManualClock
from redrive.web.auth import from_environ, made
from redrive.web.console.requests import FORMS
from redrive.web.console.sessions import LASTS
from shopkit import name
from webkit import ACT, BASE, READ

PATHS = {"job": name(1), "group": "G1", "run": "R1", "lane": "mail.send"}
PATHS["channel"] = "none"


@pytest.fixture
def clock(app: Redrive) -> ManualClock:
    clock = app.submitter.settings.clock
    assert isinstance(clock, ManualClock)
    return clock


def cookie_of(visitor: Visitor) -> str:
    return next(c.value or "" for c in visitor.cookies.jar if not c.name.endswith("_notice"))


def is_in(visitor: Visitor) -> bool:
    return visitor.ask("GET", "/runs").status_code == 200


def test_a_wrong_token_gets_nobody_in_and_the_right_one_leads_on(app: Redrive) -> None:
    visitor = Visitor(app, None)
    asked = visitor.ask("GET", "/groups/G1?x=y")
    assert (asked.status_code, asked.headers["location"]) == (
        303,
        "/sign-in?next=%2Fgroups%2FG1%3Fx%3Dy",
    )
    page = visitor.page(asked.headers["location"])
    assert {"name": "next", "value": "/groups/G1?x=y", "type": "hidden"} in page.all("input")
    wrong = visitor.sign_in("x" * 30, next="/groups/G1")
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    right = visitor.sign_in(ACT, next="/groups/G1")
    assert (right.status_code, right.headers["location"]) == (303, "/groups/G1")
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Path=/" in cookie
    assert ACT not in cookie


def test_a_sign_in_leads_to_no_other_place(app: Redrive) -> None:
    for away in ("//evil.example", "https://evil.example", "/\\evil", "x", "/\n/e"):
        assert Visitor(app, None).sign_in(ACT, next=away).headers["location"] == "/", away


def test_a_cookie_that_was_changed_is_none(app: Redrive) -> None:
    visitor = Visitor(app, READ)
    cookie, key = cookie_of(visitor), next(c.name for c in visitor.cookies.jar)
    parts = cookie.split("~")
    later = [parts[0], "9999999999.0", *parts[2:]]
    for changed in (
        "",
        "~" * 3,
        "mira~~~",
        cookie[:-1],
        "mira~" + "~".join(parts[1:]),
        "~".join(later),
        "ü" * 5,
    ):
        headers = {"cookie": f"{key}={changed}".encode()}
        visitor.cookies.clear()
        assert visitor.ask("GET", "/runs", headers=headers).status_code == 303, changed
    assert visitor.ask("GET", "/runs", headers={"cookie": f"{key}={cookie}"}).status_code == 200


def test_a_session_ends_twelve_hours_after_the_sign_in(app: Redrive, clock: ManualClock) -> None:
    visitor = Visitor(app)
    cookie = cookie_of(visitor)
    clock.advance(LASTS - 60)
    assert is_in(visitor)
    assert cookie_of(visitor) == cookie
    clock.advance(120)
    assert not is_in(visitor)
    refresh = visitor.ask("GET", "/runs", headers={"hx-request": "true"})
    assert (refresh.status_code, refresh.text) == (401, "")


def test_signing_out_removes_the_cookie(app: Redrive) -> None:
    visitor = Visitor(app)
    answer = visitor.send("/sign-out")
    assert answer.headers["location"] == "/sign-in"
    assert [c.split("=")[1][:2] for c in answer.headers.get_list("set-cookie")] == ['""']
    assert not is_in(visitor)


def test_a_session_holds_on_every_server_of_a_store_and_ends_with_its_token(app: Redrive) -> None:
    visitor = Visitor(app)
    other, without = Visitor(app, None), Visitor(app, None, tokens=TOKENS[1:])
    renamed = Visitor(app, None, tokens=[made("mira", "act", "another-" + "t" * 30)])
    for server in (other, without, renamed):
        server.cookies = visitor.cookies
    assert is_in(other)
    assert not is_in(without)
    assert not is_in(renamed)


def test_a_session_of_another_store_is_none(app: Redrive, tmp_path: Path) -> None:
    with Redrive(tmp_path / "jobs2.db") as second:
        stranger = Visitor(second, None, name="jobs.db")  # the cookie has the same name
        stranger.cookies = Visitor(app).cookies
        assert not is_in(stranger)


def test_tokens_of_the_environment_have_names_of_their_own() -> None:
    variables = {f"REDRIVE_{right}_TOKEN": right * 20 for right in ("READ", "ACT", "REVEAL")}
    tokens = from_environ(variables)
    assert [token.name for token in tokens] == ["api-read", "api-act", "api-reveal"]


def test_a_code_signs_in_once_and_soon(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = Visitor(app, None)
    link = visitor.site.console.sessions.link()
    assert visitor.ask("HEAD", link).status_code == 200
    for ahead in ({"sec-purpose": "prefetch;prerender"}, {"purpose": "prefetch"}):
        early = visitor.ask("GET", link, headers=ahead)
        assert (early.status_code, "set-cookie" in early.headers) == (503, False)
    first = visitor.ask("GET", link)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert is_in(visitor)
    other = Visitor(app, None)
    other.site = visitor.site
    assert other.ask("GET", link).status_code == 401
    old = visitor.site.console.sessions.link()
    monkeypatch.setattr("redrive.web.console.sessions.time.monotonic", lambda: 1e12)
    assert other.ask("GET", old).status_code == 401


def test_the_api_takes_no_cookie_and_pages_take_no_token(app: Redrive) -> None:
    visitor = Visitor(app)
    assert visitor.ask("GET", "/api/v1/jobs").status_code == 401
    path = "/api/v1/actions"
    assert visitor.ask("POST", path, json={}, headers={"origin": BASE}).status_code == 401
    stranger = Visitor(app, None)
    bearer = {"authorization": f"Bearer {ACT}"}
    assert stranger.ask("GET", "/runs", headers=bearer).status_code == 303


@pytest.fixture
def untouched(app: Redrive) -> Iterator[None]:
    """What a test sends changes nothing."""
    yield
    assert app.desk.log.actions() == []
    assert app.desk.lanes.pauses() == []


def sent(visitor: Visitor, path: str, **said: Any) -> int:
    fields = {"reason": "x", "lane": "mail.send", "note": "x", "resolved": "true", "confirm": "4"}
    form = FORMS[path].route.body if path in FORMS else None
    names = form.__struct_fields__ if form else ()
    known = {name: value for name, value in fields.items() if name in names}
    known |= {} if form else {"one": "resolve G1"}
    data = {**known, "csrf": visitor.csrf(), **said.pop("data", {})}
    return visitor.ask("POST", path.format(**PATHS), data=data, **said).status_code


@pytest.mark.usefixtures("untouched")
def test_a_form_needs_a_session_a_right_an_origin_and_its_word(app: Redrive) -> None:
    ours, bearer = {"origin": BASE}, {"authorization": f"Bearer {ACT}"}
    stranger, reader, actor, other = (Visitor(app, t) for t in (None, READ, ACT, ACT))
    empty = {**ours, "content-type": "application/x-www-form-urlencoded"}
    for path in (*FORMS, "/actions", "/plans"):
        assert sent(stranger, path, headers=ours) == 303, path  # to the sign-in
        assert sent(stranger, path, headers={**bearer, **ours}) == 303, path
        assert sent(reader, path, headers=ours) == 403, path
        assert sent(actor, path) == 403, path
        for foreign in ("null", "http://evil.example", "http://127.0.0.1:3000"):
            assert sent(actor, path, headers={"origin": foreign}) == 403, path
        assert sent(actor, path, headers={"sec-fetch-site": "cross-site"}) == 403, path
        assert sent(actor, path, headers=ours, data={"csrf": ""}) == 403, path
        assert sent(actor, path, headers=ours, data={"csrf": other.csrf()}) == 403, path
        answer = actor.ask("POST", path.format(**PATHS), content="", headers=empty)
        assert answer.status_code == 403, path


@pytest.mark.usefixtures("untouched")
def test_a_form_is_read_strictly(app: Redrive) -> None:
    actor = Visitor(app)
    path, csrf = "/actions", actor.csrf()
    good = f"one=resolve+{name(1)}&csrf={csrf}"
    for body in (f"{good}&csrf={csrf}", f"{good}&nonsense=1", f"{good}&reason=%ff"):
        headers = {"origin": BASE, "content-type": "application/x-www-form-urlencoded"}
        assert actor.ask("POST", path, content=body, headers=headers).status_code == 400, body
    headers = {"origin": BASE, "content-type": "text/plain"}
    assert actor.ask("POST", path, content="{}", headers=headers).status_code == 415


def test_without_tokens_everybody_acts_but_no_page_of_another_origin(app: Redrive) -> None:
    anybody = Visitor(app, None, tokens=None, auth=False)
    assert is_in(anybody)
    assert anybody.send("/actions", one=f"resolve {name(1)}").status_code == 303
    assert app.desk.log.actions()[0].actor == "anybody"
    data = {"csrf": anybody.csrf(), "one": f"resolve {name(2)}"}
    foreign = {"origin": "http://evil.example"}
    assert anybody.ask("POST", "/actions", data=data, headers=foreign).status_code == 403


@pytest.mark.usefixtures("untouched")
def test_what_is_no_form_of_the_api_needs_its_word_too(app: Redrive) -> None:
    root = Visitor(app, REVEAL)
    for path in (f"/jobs/{name(1)}/reveal", "/sign-out"):
        assert root.send(path, csrf="").status_code == 403
        foreign = {"origin": "http://evil.example"}
        data = {"csrf": root.csrf()}
        assert root.ask("POST", path, data=data, headers=foreign).status_code == 403
    assert is_in(root)


def noticed(visitor: Visitor, value: object) -> Page:
    """The page that somebody sees whose browser has this notice, by whomever it was set."""
    cookie = next(c for c in visitor.cookies.jar if not c.name.endswith("_notice"))
    forged = f"{cookie.name}_notice={quote(json.dumps(value))}"
    headers = {"cookie": f"{cookie.name}={cookie.value}; {forged}"}
    answer = visitor.ask("GET", "/runs", headers=headers)
    assert answer.status_code == 200
    return Page(answer.text)


def test_a_notice_that_somebody_else_set_has_no_button_of_its_own(app: Redrive) -> None:
    """Every program on a host can set cookies for all of its ports."""
    visitor = Visitor(app)
    usual = set(visitor.page("/runs").posts())
    known = noticed(visitor, ["pause", {"lane": "mail.send"}])
    assert set(known.posts()) - usual == {"/pauses/mail.send/resume"}
    closed = noticed(visitor, ["resolve", {"job": name(1)}])
    assert set(closed.posts()) - usual == {"/actions"}
    assert f"reopen {name(1)}" in [button.get("value") for button in closed.all("button")]
    for value in (
        ["resolve", {"job": f"{name(1)} G1"}],
        *[{"key": "retry", "values": {}, "undo": undo} for undo in ("//evil.example/x", 5, ["/"])],
        ["pause", {"lane": "mail send"}],
        ["pause", {}],
        ["pause", {"x": "y"}],
        [["pause"], {}],
        ["pause", "lane"],
        [],
        5,
        ["pause", {"lane": 5}],
    ):
        assert set(noticed(visitor, value).posts()) == usual, value


def test_an_error_leads_back_to_a_page_of_ours(app: Redrive) -> None:
    visitor = Visitor(app)
    gone = visitor.page(f"{BASE}//evil.example/x", 404)
    assert not [link for link in gone.links() if "evil" in link]
    refused = visitor.send("/actions", one=f"reopen {name(1)}", back="/groups?sort=jobs")
    assert refused.status_code == 409
    assert "/groups?sort=jobs" in Page(refused.text).links()
