"""A failure of the server is a page for a browser, also before it is known who asks."""

from __future__ import annotations

import pytest

from consolekit import Visitor
from redrive import Redrive
from redrive.errors import StoreBusy
from redrive.web.console.sessions import Sessions
from webkit import BASE

PLACES = ("/", "/jobs?q=state:dead", "/nowhere")


def fail(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def read(*_: object) -> None:
        raise error

    monkeypatch.setattr(Sessions, "read", read)


@pytest.mark.parametrize("address", PLACES)
@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (StoreBusy("it is locked by secret-7"), (503, "The store does not answer")),
        (ZeroDivisionError("secret-7"), (500, "The request failed")),
    ],
)
def test_a_failure_before_a_session_is_known_is_a_page(
    app: Redrive,
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    error: Exception,
    shown: tuple[int, str],
) -> None:
    visitor = Visitor(app)
    fail(monkeypatch, error)
    answer = visitor.ask("GET", address)
    status, head = shown
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert f"<h1>{head}</h1>" in answer.text
    assert f'href="{address}"' in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "secret-7" not in answer.text


def test_a_page_about_a_failure_links_to_no_other_site(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = Visitor(app)
    fail(monkeypatch, StoreBusy("locked"))
    answer = visitor.ask("GET", f"{BASE}//evil.example/x")
    assert (answer.status_code, "evil.example" in answer.text) == (503, False)


def test_a_form_that_fails_leads_back_to_its_page(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = Visitor(app)
    fail(monkeypatch, StoreBusy("locked"))
    headers = {"origin": BASE, "referer": f"{BASE}/system?x=1"}
    answer = visitor.ask("POST", "/pauses", data={"lane": "x"}, headers=headers)
    assert answer.status_code == 503
    assert 'href="/system"' in answer.text


@pytest.mark.parametrize(("accept", "address"), [("*/*", "/"), ("text/html", "/api/v1/lanes")])
def test_programs_and_the_api_get_a_document(
    app: Redrive, monkeypatch: pytest.MonkeyPatch, accept: str, address: str
) -> None:
    visitor = Visitor(app, auth=False, token=None)
    fail(monkeypatch, StoreBusy("locked"))
    monkeypatch.setattr(type(app.store), "counts", lambda _: 1 / 0)
    answer = visitor.ask("GET", address, headers={"accept": accept})
    assert answer.status_code in {500, 503}
    assert answer.headers["content-type"] == "application/problem+json"
