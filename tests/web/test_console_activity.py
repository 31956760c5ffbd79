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
from webkit import BASE, READ

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


def test_activity_is_filtered_by_its_address(busy: Redrive) -> None:
    visitor = Visitor(busy)
    for query, found in (
        ("actor=mira", ["retry"]),
        ("verb=note", ["note"]),
        ("target=G1", ["note"]),
        ("since=1h", ["pause", "retry", "note"]),
        ("actor=&verb=&since=&target=", ["pause", "retry", "note"]),
        ("actor=mira&verb=note", []),
    ):
        page = visitor.page(f"/activity?{query}")
        verbs = [re.findall(r"<span[^>]*>(\w+)</span>", row)[0] for row in rows(page.html)]
        assert verbs == found
        lines = visitor.ask("GET", f"/activity/export?{query}")
        assert [json.loads(line)["verb"] for line in lines.text.splitlines()] == found
        assert "attachment" in lines.headers["content-disposition"]
        assert "hunter2222" not in lines.text
    for odd in ("actor=%00", "verb=%00", "target=%00", "since=odd"):
        assert visitor.page(f"/activity?{odd}", 400).all("h1")
    stranger = Visitor(busy, None)
    for path in ("/activity", "/activity/export"):
        assert stranger.ask("GET", path).status_code == 303


def test_activity_is_paged(busy: Redrive) -> None:
    for number in range(60):
        busy.desk.groups.mark("G1", note=f"note {number}", actor="kenji")
    visitor = Visitor(busy)
    first = visitor.page("/activity?verb=note")
    older = next(link for link in first.links() if "before=" in link)
    assert "verb=note" in older
    assert len(rows(first.html)) + len(rows(visitor.page(older).html)) == 61
    assert "redrive log --verb note" in first.text


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
        data, headers = {"language": language}, {"origin": origin}
        answer = stranger.ask("POST", "/language", data=data, headers=headers)
        assert answer.status_code == status
    assert '<html lang="ja">' in stranger.ask("GET", "/sign-in").text
