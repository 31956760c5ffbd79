"""Jobs over HTTP: submitted, found, looked at, driven again, closed and edited."""

from __future__ import annotations

from redrive import Redrive
from redrive.desk.documents import action_document, group_document, job_document
from shopkit import name
from tablekit import each_row
from webkit import Web

MAIL = {"handler": "mail.send", "payload": {"to": "ada"}}


def test_a_job_is_kept_and_its_key_stands_for_it(web: Web) -> None:
    made = web.post("/api/v1/jobs", {**MAIL, "key": "order-7", "tags": ["vip"], "delay": 60})
    assert made["new"] is True
    assert (made["state"], made["handler"], made["tags"]) == ("pending", "mail.send", ["vip"])
    job = web.app.get(made["id"])
    assert job.due - job.created == 60
    again = web.post("/api/v1/jobs", {**MAIL, "key": "order-7"})
    assert (again["id"], again["new"]) == (made["id"], False)
    other = {**MAIL, "payload": {"to": "bob"}, "key": "order-7"}
    assert web.post("/api/v1/jobs", other, status=409)["code"] == "key_conflict"


def test_what_cannot_be_kept_is_refused(web: Web) -> None:
    before = len(web.app.desk.jobs.find().jobs)
    for body, status, words in (
        ({"handler": "no.such", "payload": {}}, 404, "known: mail.send"),
        ({"handler": "mail.send", "payload": {}}, 400, "to"),
        ({**MAIL, "payload": {"to": "x", "odd": 1}}, 400, "do not fit the handler: unknown 'odd'"),
        ({**MAIL, "payload": []}, 400, "body.payload: Expected `object`, got `array`"),
        ({**MAIL, "payload": "hunter22"}, 400, "Expected `object`, got `str`"),
        ({**MAIL, "delay": -1}, 400, "body.delay: Expected `float` >= 0.0; found -1"),
        ({**MAIL, "attempts": 0}, 400, "body.attempts: Expected `int` >= 1; found 0"),
        ({**MAIL, "tags": ["x"] * 21}, 400, "body.tags: Expected `array` of length <= 20"),
        ({**MAIL, "key": "with space"}, 400, "; found 'with space'"),
        ({**MAIL, "priority": 1}, 400, "field `priority`; it may be: handler, payload, key"),
    ):
        found = web.post("/api/v1/jobs", body, status=status)
        assert words in found["detail"]
        assert "hunter22" not in found["detail"]
    assert len(web.app.desk.jobs.find().jobs) == before


def test_numbers_keep_their_text(web: Web) -> None:
    text = '{"handler": "mail.send", "payload": {"to": "x", "times": 10.10}}'
    answer = web.ask(
        "POST", "/api/v1/jobs", content=text, headers={"content-type": "application/json"}
    )
    job = web.app.get(answer.json()["id"])
    assert job.payload == '{"to":"x","times":10.10}'
    assert '"times":10.10' in web.ask("GET", f"/api/v1/jobs/{job.id}").text


def test_a_page_is_found_by_words(web: Web) -> None:
    found = web.get("/api/v1/jobs", params={"q": "state:dead -tag:vip", "limit": 2})
    assert [job["id"] for job in found["jobs"]] == [name(4), name(2)]
    assert found["scope"] == {"looked": 3, "of": 4}
    rest = web.get(
        "/api/v1/jobs",
        params={"q": "state:dead -tag:vip", "limit": 2, "cursor": found["cursor"]},
    )
    assert [job["id"] for job in rest["jobs"]] == [name(1)]
    assert rest["cursor"] is None
    assert len(web.get("/api/v1/jobs")["jobs"]) == 7


@each_row(
    "query", ["limit=201", "limit=0", "limit=x", "state=dead", "q=a&q=b", "q=nonsense:x", "q=%ff"]
)
def test_a_query_that_is_not_understood_is_refused(web: Web, query: str) -> None:
    """A page has 200 entries at most."""
    assert web.ask("GET", f"/api/v1/jobs?{query}").status_code == 400


def test_names_are_those_of_the_command_line(web: Web) -> None:
    job, group = web.app.get(name(1)), web.app.desk.groups.get("G1")
    web.post("/api/v1/pauses", {"lane": "mail"})
    shown = web.get(f"/api/v1/jobs/{job.id}")
    assert job_document(job).keys() <= shown.keys()
    assert {**job_document(job), "run": None}.items() <= shown.items()
    assert group_document(group).items() <= web.get("/api/v1/groups/G1").items()
    action = web.app.desk.log.actions()[0]
    assert web.get("/api/v1/actions")["actions"][0] == action_document(action)


def test_secrets_are_marks_that_stay_what_they_stand_for(web: Web) -> None:
    job = web.get(f"/api/v1/jobs/{name(1)}")
    assert job["payload"] == {"to": "ada@example.com", "password": "•••"}
    assert "hunter22" not in web.ask("GET", f"/api/v1/jobs/{name(1)}").text
    body = {"payload": {**job["payload"], "to": "bob@example.com"}, "edits": 0, "reason": "typo"}
    edited = web.post(f"/api/v1/jobs/{name(1)}/edit", body)
    assert edited["edits"] == 1
    assert edited["history"], "what was tried before is still there"
    stored = web.app.get(name(1))
    assert stored.payload == '{"to":"bob@example.com","password":"hunter22"}'
    late = web.post(f"/api/v1/jobs/{name(1)}/edit", body, status=409)
    assert late["code"] == "refused"


def test_an_error_shows_nothing_of_the_payload_s_secrets(app: Redrive) -> None:
    from dataclasses import replace  # noqa: PLC0415

    from shopkit import TIMEOUT, dead_letter  # noqa: PLC0415

    leak = replace(TIMEOUT, message="login with hunter22 failed", traceback="hunter22 in here")
    app.store.add([dead_letter(9, leak)])
    web = Web(app)
    for path in (f"/api/v1/jobs/{name(9)}", "/api/v1/jobs?q=state:dead"):
        assert "hunter22" not in web.ask("GET", path).text


def test_groups_are_counted_marked_and_noted(web: Web) -> None:
    found = web.get("/api/v1/groups")["groups"]
    assert [(one["group"], one["jobs"]) for one in found] == [("G1", 2), ("G2", 1), ("G3", 1)]
    marked = web.post("/api/v1/groups/G2/mark", {"resolved": True, "reason": "new key"})
    assert (marked["status"], marked["resolved_by"]) == ("resolved", "shop")
    assert web.post("/api/v1/groups/G2/note", {"note": "ticket 7"})["note"] == "ticket 7"
    assert web.get("/api/v1/groups", params={"q": "tag:vip"})["groups"][0]["note"] == "ticket 7"
    web.post("/api/v1/groups/G99/mark", {"resolved": True}, status=404)


def test_a_lane_is_paused_and_resumed(web: Web) -> None:
    paused = web.post("/api/v1/pauses", {"lane": "mail.send", "reason": "outage", "seconds": 60})
    (pause,) = paused["pauses"]
    assert (pause["lane"], pause["by"], pause["reason"]) == ("mail.send", "shop", "outage")
    assert pause["seconds_left"] == 60
    assert web.post("/api/v1/pauses/mail.send/resume")["pauses"] == []
