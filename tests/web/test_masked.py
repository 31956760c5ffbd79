"""A token learns nothing that is masked, and no question stops the server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import quote
from uuid import UUID

import pytest

from redrive import Redrive
from redrive.desk import search
from redrive.errors import UsageError
from shopkit import TIMEOUT, dead_letter, name
from webkit import READ, Web


def found(web: Web, q: str) -> Any:
    return web.ask("GET", f"/api/v1/jobs?q={quote(q)}", token=READ)


def test_a_masked_name_cannot_be_asked_for(web: Web) -> None:
    """By a wildcard, one letter after the other."""
    for q in (
        "payload.password:H*",
        "-payload.password:x",
        "payload.to:ada* payload.password:>a",
        "payload.a.apiKey.b:*",
        "payload.session_id:1",
    ):
        for answer in (
            found(web, q),
            web.ask("GET", f"/api/v1/groups?q={quote(q)}", token=READ),
            web.ask("POST", "/api/v1/actions", json={"verb": "retry", "q": q, "dry_run": True}),
        ):
            assert answer.status_code == 400
            assert "is a masked field" in answer.json()["detail"]


GUESSES = (
    '"hunter2{}"', 'text:"hunter2{}"', "error:*hunter2{}*", "payload.note:*hunter2{}*",
    "-payload.note:*hunter2{}*", "tag:hunter2{}", "tag:hunter2{}*,x", "key:order-hunter2{}",
    "key:order-hunter2{}*", "code:hunter2{}", "release:hunter2{}", "release:*hunter2{}*",
    "submitted-release:hunter2{}", 'G1 "hunter2{}"',
)  # fmt: skip


def test_right_and_wrong_guesses_have_the_same_answer(app: Redrive) -> None:
    """Text inside a mask is not found, in no field; the scope and the cursor say nothing either."""
    leak = replace(TIMEOUT, message="login with hunter22 failed", code="hunter22")
    payload = json.dumps({"password": "hunter22", "note": "try hunter22"})
    fields = {"payload": payload, "tags": ("hunter22",), "release": "hunter22"}
    fields["failed_release"] = "hunter22"
    app.store.add(
        [dead_letter(11, leak, key="order-hunter22", **fields), dead_letter(12, leak, **fields)]
    )
    web = Web(app)
    for path in ("jobs?limit=1&", "jobs?order=changed&", "groups?"):
        for q in GUESSES:
            answers = [
                web.ask("GET", f"/api/v1/{path}q={quote(q.format(last))}", token=READ).text
                for last in ("2", "3")
            ]
            assert answers[0] == answers[1], (path, q)
            assert "hunter22" not in answers[0]


def test_a_mask_in_another_field_is_refused(web: Web) -> None:
    job = web.get(f"/api/v1/jobs/{name(1)}")
    body = {"payload": {"note": job["payload"]["password"]}, "edits": 0}
    refused = web.post(f"/api/v1/jobs/{name(1)}/edit", body, status=400)
    assert "payload.note has ••• where something else was shown" in refused["detail"]
    assert "hunter22" not in str(refused)
    assert web.app.get(name(1)).edits == 0


def stored(web: Web, number: int, payload: object, **more: Any) -> str:
    """Store a dead job with this payload; return where it is."""
    text = json.dumps(payload, ensure_ascii=False)
    web.app.store.add([dead_letter(number, payload=text, handler="other", **more)])
    return f"/api/v1/jobs/{name(number)}"


def test_a_guess_beside_the_mark_of_what_repeats_it_is_refused(web: Web) -> None:
    """Right or wrong, for to take the right one would tell."""
    place = stored(web, 8001, {"password": "Hunter22xyz", "note": "try Hunter22xyz", "to": "ada"})
    shown = web.get(place)["payload"]
    for guess in ("Hunter22xyz", "Hunter22xyq", ["Hunter22xyz", "other-guess"]):
        body = {"payload": {**shown, "password": guess}, "edits": 0}
        assert "write both values anew" in web.post(f"{place}/edit", body, status=400)["detail"]
    kept = {"payload": {**shown, "to": "bob"}, "edits": 0}
    assert web.post(f"{place}/edit", kept)["payload"] == {**shown, "to": "bob"}
    assert json.loads(web.app.get(name(8001)).payload)["note"] == "try Hunter22xyz"


def test_a_number_that_repeats_a_secret_has_a_mark_too(web: Web) -> None:
    place = stored(web, 8002, {"pin": 4711, "rows": [4711, 1.50], "to": "ada"})
    shown = web.get(place)["payload"]
    assert "4711" not in str(shown)
    body = {"payload": {**shown, "to": "bob"}, "edits": 0}
    assert web.post(f"{place}/edit", body)["payload"]["rows"] == shown["rows"]
    assert web.app.get(name(8002)).payload == '{"pin":4711,"rows":[4711,1.5],"to":"bob"}'


def test_secrets_of_the_first_payload_stay_hidden_after_an_edit(web: Web) -> None:
    """in the payload, and where the job came from."""
    first = {"password": "Hunter22xyz", "note": "try Hunter22xyz"}
    origin = {"file": "jobs.csv", "line": "ada,Hunter22xyz"}
    place = stored(web, 8003, first, origin=origin)
    assert "Hunter22" not in str(web.get(place))
    web.app.desk.edit(name(8003), json.dumps({**first, "password": "else-4321"}))
    shown = web.get(place)
    assert "Hunter22" not in str(shown)
    body = {"payload": {**shown["payload"], "more": 1}, "edits": 1}
    assert "Hunter22" not in str(web.post(f"{place}/edit", body))
    assert json.loads(web.app.get(name(8003)).payload) == {
        **first,
        "password": "else-4321",
        "more": 1,
    }


def test_a_reason_that_repeats_a_secret_of_its_job_is_masked(web: Web) -> None:
    """in the audit log as in the job."""
    place = stored(web, 8004, {"password": "Hunter22xyz"})
    said = {"reason": "signed in with Hunter22xyz myself"}
    for verb in ("resolve", "reopen"):
        web.post("/api/v1/actions", {"verb": verb, "q": place.rpartition("/")[2], **said})
    shown = web.get(place)["payload"]
    web.post(f"{place}/edit", {"payload": {**shown, "n": 1}, "edits": 0, **said})
    actions = web.get("/api/v1/actions")["actions"][:3]
    assert [action["reason"] for action in actions] == ["signed in with ••• myself"] * 3


def test_a_key_does_not_say_whether_a_secret_was_guessed(app: Redrive) -> None:
    @app.handler("login")
    def login(user: str, password: str) -> None: ...

    web = Web(app)
    body = {"handler": "login", "key": "k1", "payload": {"user": "ada", "password": "hunter22"}}
    first = web.post("/api/v1/jobs", body)
    answers = [
        web.post("/api/v1/jobs", {**body, "payload": {"user": "ada", "password": guess}})
        for guess in ("hunter22", "hunter23")
    ]
    assert answers[0] == answers[1] == {**first, "new": False}
    other = web.post(
        "/api/v1/jobs", {**body, "payload": {"user": "bob", "password": "x"}}, status=409
    )
    assert other["code"] == "key_conflict"


def test_a_selector_is_bounded_and_refused_in_words(app: Redrive) -> None:
    for q in ("x" * 2001, "tag:a " * 51, "tag:" + "*a" * 21, "text:\0"):
        assert found(Web(app), q).status_code == 400
        with pytest.raises(UsageError):
            app.desk.jobs.find(q)


def test_what_no_store_can_keep_is_refused_in_words(app: Redrive) -> None:
    """wherever it is said."""
    for words in ("tag:\ud800", "-payload.x:\udfff", '"\0"'):
        with pytest.raises(UsageError, match=r"surrogate|NUL"):
            app.desk.jobs.find(words)
    with pytest.raises(UsageError, match="NUL"):
        app.desk.jobs.find(key="a\0b")


def test_a_search_says_how_far_it_went_and_goes_on(
    app: Redrive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan looks through all; a count says that there may be more."""
    monkeypatch.setattr(search, "SEARCHED", 1)
    web, every = Web(app), list(app.desk.jobs.ids("payload.to:*"))
    page = found(web, "payload.to:*").json()
    assert page["scope"]["looked"] == 1
    assert page["cursor"] is not None
    assert web.get("/api/v1/count?q=payload.to:*")["more"]
    body = {"verb": "retry", "q": "payload.to:*", "dry_run": True}
    assert len(every) > 1
    assert web.post("/api/v1/actions", body)["matched"] >= 1


def test_a_message_is_masked_before_it_is_cut(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "Zq7-opaque-93x")
    body = {"handler": "mail.send", "payload": {}}
    for wrong in ({"delay": "x" * 70 + "Zq7-opaque-93x"}, {"y" * 150 + "Zq7-opaque-93x": 1}):
        answer = web.ask("POST", "/api/v1/jobs", json={**body, **wrong})
        assert answer.status_code == 400
        assert "Zq7" not in answer.text


def test_a_refused_edit_hides_the_secrets_of_the_first_payload(app: Redrive) -> None:
    @app.handler("strict.send")
    def send(note: UUID, password: str = "") -> None: ...

    first = json.dumps({"password": "Old9-opaque-11y", "note": "try Old9-opaque-11y"})
    now = json.dumps({"password": "New9-opaque-22z", "note": "try Old9-opaque-11y"})
    fields = {"handler": "strict.send", "payload": now, "original": first, "edits": 1}
    app.store.add([dead_letter(11, TIMEOUT, **fields)])
    body = {"payload": {"password": "•••", "note": "try •••"}, "edits": 1}
    answer = Web(app).ask("POST", f"/api/v1/jobs/{name(11)}/edit", json=body)
    assert answer.status_code == 400
    assert "cannot be read as UUID" in answer.text
    assert "opaque" not in answer.text
