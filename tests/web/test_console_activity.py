"""Activity and the choice of a language."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import redrive.desk
from consolekit import Visitor
from redrive import Redrive
from redrive.web.console.pages import VERBS
from shopkit import name
from webkit import ACT, BASE, READ

CANARY = "<img src=x onerror=alert(1)>"


@pytest.fixture
def busy(app: Redrive) -> Redrive:
    app.desk.groups.mark("G1", note="they know", reason=CANARY, actor="kenji")
    app.desk.retry(name(1), reason="password=hunter2222 is mended", actor="mira")
    app.desk.lanes.pause("mail.send", reason="maintenance", actor=CANARY)
    return app


def rows(html: str) -> list[str]:
    return re.findall(r'<li id="action-\d+">(.*?)</li>', html)


def test_activity_says_who_did_what_and_why(busy: Redrive) -> None:
    page = Visitor(busy, READ).page("/activity")
    assert len(rows(page.html)) == 3
    for text in ("kenji", "note", "G1", "mira", "retry", "1 job", "pause", "maintenance", CANARY):
        assert text in page.text, text
    assert CANARY not in page.html
    assert "hunter2222" not in page.html
    assert "/groups/G1" in page.links()
    assert f"/jobs/{name(1)}" in page.links()
    assert page.html.count('class="day"') == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("actor=mira", ["retry"]),
        ("verb=note", ["note"]),
        ("target=G1", ["note"]),
        ("since=1h", ["pause", "retry", "note"]),
        ("actor=&verb=&since=&target=", ["pause", "retry", "note"]),
        ("actor=mira&verb=note", []),
    ],
)
def test_activity_is_filtered_by_its_address(busy: Redrive, query: str, found: list[str]) -> None:
    visitor = Visitor(busy)
    page = visitor.page(f"/activity?{query}")
    verbs = [re.findall(r"<span[^>]*>(\w+)</span>", row)[0] for row in rows(page.html)]
    assert verbs == found
    lines = visitor.ask("GET", f"/activity/export?{query}")
    assert [json.loads(line)["verb"] for line in lines.text.splitlines()] == found
    assert "attachment" in lines.headers["content-disposition"]
    assert "hunter2222" not in lines.text


@pytest.mark.parametrize("name", ["actor", "verb", "target"])
def test_a_filter_that_not_every_store_can_read_is_refused(busy: Redrive, name: str) -> None:
    assert "pattern" not in Visitor(busy).page(f"/activity?{name}=%00", 400).html


def test_activity_is_paged(busy: Redrive) -> None:
    for number in range(60):
        busy.desk.groups.mark("G1", note=f"note {number}", actor="kenji")
    visitor = Visitor(busy)
    first = visitor.page("/activity?verb=note")
    older = next(link for link in first.links() if "before=" in link)
    assert "verb=note" in older
    assert len(rows(first.html)) + len(rows(visitor.page(older).html)) == 61
    assert "redrive log --verb note" in first.text


def test_activity_is_refused_to_strangers(busy: Redrive) -> None:
    stranger = Visitor(busy, None)
    assert stranger.ask("GET", "/activity").status_code == 303
    assert stranger.ask("GET", "/activity/export").status_code == 303
    assert Visitor(busy).page("/activity?since=odd", 400).all("h1")


def test_nothing_was_done_yet(app: Redrive) -> None:
    assert "No actions yet" in Visitor(app).page("/activity").text


def test_every_verb_of_the_audit_log_can_be_chosen() -> None:
    verbs = set[str]()
    for file in Path(redrive.desk.__path__[0]).rglob("*.py"):
        source = file.read_text("utf-8")
        verbs |= set(re.findall(r'(?:log|self)\._?action\(\s*"(\w+)"', source))
    assert len(verbs) > 8
    assert verbs <= set(VERBS)


def test_the_language_is_chosen_by_the_browser_or_by_hand(app: Redrive) -> None:
    visitor = Visitor(app)
    japanese = {"accept-language": "ja-JP,ja;q=0.9,en;q=0.8"}
    assert '<html lang="en">' in visitor.ask("GET", "/jobs").text
    html = visitor.ask("GET", "/jobs", headers=japanese).text
    assert '<html lang="ja">' in html
    assert "ジョブ" in html
    choice = {"language": "ja", "back": "/jobs?q=state:dead"}
    answer = visitor.ask("POST", "/language", data=choice, headers={"origin": BASE})
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?q=state:dead")
    assert '<html lang="ja">' in visitor.ask("GET", "/jobs").text
    assert '<html lang="ja">' in visitor.ask("GET", "/sign-in").text
    choice["language"] = "en"
    visitor.ask("POST", "/language", data=choice, headers={"origin": BASE})
    assert '<html lang="en">' in visitor.ask("GET", "/jobs", headers=japanese).text


def test_a_language_needs_no_session_but_a_page_of_ours(app: Redrive) -> None:
    stranger = Visitor(app, None)
    for origin, language, status in (
        (BASE, "ja", 303),
        (BASE, "xx", 400),
        ("http://evil.example", "ja", 403),
    ):
        answer = stranger.ask(
            "POST", "/language", data={"language": language}, headers={"origin": origin}
        )
        assert answer.status_code == status
    assert '<html lang="ja">' in stranger.ask("GET", "/sign-in").text
    assert stranger.sign_in(ACT).status_code == 303


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_page_is_shown_in_every_language(busy: Redrive, language: str) -> None:
    busy.desk.runs.start("G1", canary=1, stop_on="5%", name="outage", actor="mira")
    visitor = Visitor(busy)
    plan = visitor.send("/plans", verb="discard", q="state:dead").headers["location"]
    pages = (
        "/",
        "/groups",
        "/groups/G1",
        "/jobs?q=handler:nobody",
        "/runs",
        "/runs/R1",
        plan,
    )
    more = ("/system?pause=mail.send", "/activity", f"/jobs/{name(2)}", "/nowhere")
    for path in (*pages, *more, f"/jobs/{name(2)}/edit"):
        answer = visitor.ask("GET", path, headers={"accept-language": language})
        assert answer.status_code == (404 if path == "/nowhere" else 200), (path, answer.text)
        assert f'<html lang="{language}">' in answer.text
