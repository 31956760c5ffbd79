"""A failure of the server is a page for a browser, also before it is known who asks."""

from __future__ import annotations

import pytest

from consolekit import Visitor
from redrive import Redrive
from redrive.errors import StoreBusy
from redrive.web.console.sessions import Sessions
from redrive.web.reads import LARGEST
from webkit import BASE


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(Sessions, "find", read)


def test_a_failure_before_a_session_is_known_is_a_page(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = Visitor(app)
    for error, status, head in (
        (StoreBusy("it is locked by secret-7"), 503, "The store does not answer"),
        (ZeroDivisionError("secret-7"), 500, "The request failed"),
    ):
        fail(monkeypatch, error)
        for address in ("/", "/jobs?q=state:dead", "/nowhere"):
            answer = visitor.ask("GET", address)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert f"<h1>{head}</h1>" in answer.text
            assert f'href="{address}"' in answer.text
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert "secret-7" not in answer.text
        answer = visitor.ask("GET", f"{BASE}//evil.example/x")
        assert (answer.status_code, "evil.example" in answer.text) == (status, False)
        headers = {"origin": BASE, "referer": f"{BASE}/system?x=1"}
        answer = visitor.ask("POST", "/pauses", data={"lane": "x"}, headers=headers)
        assert (answer.status_code, 'href="/system?x=1"' in answer.text) == (status, True)


FORM = {"content-type": "application/x-www-form-urlencoded"}
REFUSED = [
    ({"origin": "http://evil.example"}, "", 403, "from a page of another site"),
    ({}, "", 403, "did not say which page"),
    ({"origin": BASE}, "note=" + "x" * LARGEST, 413, "at most 1 MiB"),
    ({"origin": BASE}, "note=%ff", 400, "cannot be read"),
    ({"origin": BASE, "content-type": "text/plain"}, "", 415, "content type"),
]


def test_a_form_that_is_refused_unread_is_a_page_that_leads_back(app: Redrive) -> None:
    visitor = Visitor(app)
    page = {"referer": f"{BASE}/groups/G1?x=y"}
    for path in ("/groups/G1/note", "/sign-in", "/language"):
        for headers, body, status, text in REFUSED:
            answer = visitor.ask("POST", path, content=body, headers={**FORM, **page, **headers})
            assert (answer.status_code, text in answer.text) == (status, True), path
            assert answer.headers["content-type"] == "text/html; charset=utf-8"
            assert 'href="/groups/G1?x=y"' in answer.text
            api = visitor.ask("POST", f"/api/v1{path}", content=body, headers={**FORM, **headers})
            assert api.headers["content-type"] == "application/problem+json"
    for referer in ("http://evil.example/jobs", "http://[", f"{BASE}//evil/x"):
        headers = {**FORM, "origin": "http://evil.example", "referer": referer}
        answer = visitor.ask("POST", "/sign-out", headers=headers)
        assert (answer.status_code, 'class="btn first" href="/"' in answer.text) == (403, True)


def test_another_host_name_is_told_nothing(app: Redrive) -> None:
    answer = Visitor(app, name="billing").ask("GET", "/", headers={"host": "evil.example"})
    assert (answer.status_code, "billing" in answer.text) == (421, False)


def test_programs_and_the_api_get_a_document(app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = Visitor(app, auth=False, token=None)
    fail(monkeypatch, StoreBusy("locked"))
    monkeypatch.setattr(type(app.store), "counts", lambda _: 1 / 0)
    for accept, address in (("*/*", "/"), ("text/html", "/api/v1/lanes")):
        answer = visitor.ask("GET", address, headers={"accept": accept})
        assert answer.status_code in {500, 503}
        assert answer.headers["content-type"] == "application/problem+json"
