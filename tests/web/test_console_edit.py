"""Editing a payload in the console: marks keep secrets, nothing is saved unseen, nobody is overwritten."""

from __future__ import annotations

import re
from html import unescape

import httpx
import pytest

from consolekit import REVEAL, Visitor
from redrive import Redrive
from shopkit import dead_letter, name
from tablekit import each_row
from webkit import ACT, READ

BIG = 1970670598291982290
PAYLOAD = f'{{"to":"ada@example.org","times":10.10,"invoice":{BIG},"password":"hunter2222"}}'
PATH = f"/jobs/{name(70)}/edit"


@pytest.fixture
def stored(app: Redrive) -> Redrive:
    app.store.add([dead_letter(70, payload=PAYLOAD, handler="other.send")])
    return app


def text_of(html: str) -> str:
    found = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", html, re.DOTALL)
    assert found is not None
    return unescape(found[1])


def field(html: str, wanted: str) -> str:
    found = re.search(rf'name="{wanted}" value="([^"]*)"', html)
    assert found is not None
    return found[1]


class Editor:
    """Somebody with the page open."""

    def __init__(self, app: Redrive, token: str = ACT) -> None:
        self.visitor = Visitor(app, token)
        self.html = self.visitor.ask("GET", PATH).text

    def send(self, text: str, then: str = "preview", **more: str) -> httpx.Response:
        fields = {"edits": field(self.html, "edits"), "seen": field(self.html, "seen"), **more}
        answer = self.visitor.send(PATH, payload=text, then=then, **fields)
        if "<textarea" in answer.text:
            self.html = answer.text
        return answer


def test_a_text_is_shown_as_a_difference_and_then_saved(stored: Redrive) -> None:
    editor = Editor(stored)
    text = text_of(editor.html)
    assert "•••" in text
    assert "hunter2222" not in editor.html
    assert str(BIG) in text
    assert 'value="save"' not in editor.html
    changed = text.replace("ada@example.org", "grace@example.org")
    shown = editor.send(changed.replace("\n", "\r\n"), reason="she moved")
    assert shown.status_code == 200
    assert 'class="del">-  &#34;to&#34;: &#34;ada@example.org&#34;' in shown.text
    assert 'class="add">+  &#34;to&#34;: &#34;grace@example.org&#34;' in shown.text
    assert stored.get(name(70)).edits == 0
    saved = editor.send(changed, "save", reason="she moved")
    assert (saved.status_code, saved.headers["location"]) == (303, f"/jobs/{name(70)}")
    job = stored.get(name(70))
    assert job.payload == PAYLOAD.replace("ada", "grace")
    assert (job.edits, job.state) == (1, "dead")
    action = stored.desk.log.actions()[0]
    assert (action.actor, action.verb, action.reason) == ("mira", "edit", "she moved")
    assert "The payload is saved." in editor.visitor.page(f"/jobs/{name(70)}").text


def test_saving_and_retrying_are_one_step(stored: Redrive) -> None:
    editor = Editor(stored)
    changed = text_of(editor.html).replace("ada", "grace")
    editor.send(changed)
    assert editor.send(changed, "retry", reason="fixed").status_code == 303
    assert stored.get(name(70)).state == "pending"
    verbs = [(a.verb, a.reason) for a in stored.desk.log.actions()[:2]]
    assert verbs == [("retry", "fixed"), ("edit", "fixed")]


def test_a_text_that_was_not_shown_is_shown_and_not_saved(stored: Redrive) -> None:
    editor = Editor(stored)
    text = text_of(editor.html)
    assert editor.send(text.replace("ada", "eve"), "save").status_code == 200
    assert editor.send(text.replace("ada", "mallory"), "retry").status_code == 200
    assert "mallory" in editor.html
    assert stored.get(name(70)).edits == 0
    assert editor.send(text.replace("ada", "mallory"), "retry").status_code == 303


def test_who_comes_second_sees_both_texts_and_nothing_is_lost(stored: Redrive) -> None:
    first, second = Editor(stored), Editor(stored)
    for editor, person in ((first, "grace"), (second, "eve")):
        editor.send(text_of(editor.html).replace("ada", person))
    assert first.send(text_of(first.html), "save").status_code == 303
    lost = second.send(text_of(second.html), "save", reason="mine")
    assert lost.status_code == 409
    assert "grace@example.org" in lost.text
    assert "eve@example.org" in text_of(lost.text)
    assert "mira saved another text" in unescape(lost.text)
    assert 'value="mine"' in lost.text
    assert 'value="save"' not in lost.text
    assert stored.get(name(70)).edits == 1
    second.send(text_of(second.html))
    assert second.send(text_of(second.html), "save").status_code == 303
    assert "eve@example.org" in stored.get(name(70)).payload
    assert "hunter2222" in stored.get(name(70)).payload


@each_row(
    "text, status, why",
    [
        ("{", 400, "JSON"),
        ('{"to": "•••"}', 400, "something else was shown"),
        ("", 400, "JSON"),
        (None, 400, "unchanged"),
    ],
)
def test_a_refused_text_is_kept_with_the_reason(
    stored: Redrive, text: str | None, status: int, why: str
) -> None:
    editor = Editor(stored)
    text = text_of(editor.html) if text is None else text
    answer = editor.send(text)
    assert answer.status_code == status
    assert why in unescape(answer.text)
    assert text_of(answer.text) == text
    assert stored.get(name(70)).edits == 0


def test_a_text_must_fit_the_handler(app: Redrive) -> None:
    visitor = Visitor(app)
    path = f"/jobs/{name(1)}/edit"
    fields = {"edits": "0", "payload": '{"nobody": 1}'}
    answer = visitor.send(path, **fields)
    assert answer.status_code == 400
    assert "nobody" in answer.text


def test_a_guess_of_a_secret_is_not_told_by_the_difference(stored: Redrive) -> None:
    pages = []
    for guess in ("hunter2222", "wrong-guess-9"):
        editor = Editor(stored)
        text = text_of(editor.html).replace("•••", guess).replace("ada", "eve")
        shown = editor.send(text)
        diff = re.search(r'<pre class="diff".*?</pre>', shown.text, re.DOTALL)
        assert diff is not None
        pages.append(diff[0])
    assert pages[0] == pages[1]


def test_a_job_that_cannot_be_edited_says_why(app: Redrive) -> None:
    visitor = Visitor(app)
    (running, *_) = app.desk.jobs.find(state="completed").jobs
    answer = visitor.send(f"/jobs/{running.id}/edit", edits="0", payload='{"to": "x"}')
    assert answer.status_code == 409
    assert "only a pending, dead or resolved job" in answer.text
    assert f"/jobs/{running.id}/edit" not in visitor.page(f"/jobs/{running.id}").links()


def test_readers_do_not_edit(stored: Redrive) -> None:
    reader = Visitor(stored, READ)
    assert PATH not in reader.page(f"/jobs/{name(70)}").links()
    assert reader.ask("GET", PATH).status_code == 403
    assert reader.send(PATH, edits="0", payload="{}").status_code == 403
    assert PATH in Visitor(stored, REVEAL).page(f"/jobs/{name(70)}").links()
    foreign = {"origin": "http://evil.example"}
    actor = Visitor(stored)
    data = {"csrf": actor.csrf(), "edits": "0", "payload": "{}"}
    assert actor.ask("POST", PATH, data=data, headers=foreign).status_code == 403
    assert actor.send(PATH, csrf="0", edits="0", payload="{}").status_code == 403
    assert stored.get(name(70)).edits == 0


def test_a_payload_that_no_form_can_carry_is_left_to_the_terminal(app: Redrive) -> None:
    app.store.add([dead_letter(70, payload='{"to":"' + "あ" * 130_000 + '"}')])
    page = Visitor(app).page(PATH)
    assert "too long for a form" in page.text
    assert not page.all("textarea")
