"""What people do in the console: by the same plans and actions as elsewhere, under their own name."""

from __future__ import annotations

import re

from consolekit import REVEAL, Page, Visitor
from redrive import Redrive
from redrive.testing import ManualClock
from shopkit import dead_letter, name
from tablekit import each_row


def later(app: Redrive) -> None:
    clock = app.submitter.settings.clock
    assert isinstance(clock, ManualClock)
    clock.advance(1)


@each_row("verb, state", [("retry", "pending"), ("resolve", "resolved"), ("discard", "resolved")])
def test_one_job_is_changed_at_once_and_can_be_undone(app: Redrive, verb: str, state: str) -> None:
    visitor = Visitor(app)
    one = {"one": f"{verb} {name(1)}", "reason": "by hand", "back": "/jobs?q=state:dead"}
    answer = visitor.send("/actions", **one)
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs?q=state:dead")
    assert app.get(name(1)).state == state
    action = app.desk.log.actions()[0]
    assert (action.actor, action.verb, action.reason) == ("mira", verb, "by hand")
    page = visitor.page("/jobs?q=state:dead")
    undo = [b["value"] for b in page.all("button") if b.get("value", "") == f"reopen {name(1)}"]
    assert bool(undo) == (verb != "retry")
    if undo:
        visitor.send("/actions", one=undo[0])
        assert app.get(name(1)).state == "dead"
    assert "is due now" not in visitor.page("/runs").text  # a notice is shown once


def test_a_discard_without_a_reason_is_refused_where_it_was_asked(app: Redrive) -> None:
    answer = Visitor(app).send("/actions", one=f"discard {name(1)}", back="/")
    assert answer.status_code == 400
    assert "reason" in answer.text
    assert f"retry {name(1)}" in answer.text
    assert app.get(name(1)).state == "dead"


def test_a_plan_becomes_a_run_of_exactly_its_jobs(app: Redrive) -> None:
    visitor = Visitor(app)
    page = visitor.plan("retry", "G1")
    assert "Retry 3 jobs" in page.text
    later(app)
    now = app.store.now()
    app.store.add([dead_letter(50, updated=now, created=now)])  # came later
    fields = {"canary": "1", "rate": "20/s", "ramp": "true", "stop_on": "5%", "name": "outage"}
    done = visitor.carry_out(page, reason="it is back", **fields)
    assert (done.status_code, done.headers["location"]) == (303, "/runs/R1")
    run = app.desk.runs.get("R1")
    assert (run.total, run.by, run.name, run.reason) == (3, "mira", "outage", "it is back")
    spec = run.spec
    assert (spec.canary, spec.rate, spec.ramp, spec.stop_on) == (1, 20.0, True, "5%")
    again = visitor.carry_out(page, reason="it is back", **fields)
    assert (again.status_code, "/runs/R1" in Page(again.text).links()) == (200, True)
    said = "Done: 0 of 3 jobs. 3 were skipped: 3 is part of R1, which has not ended"
    assert said in Page(again.text).text
    assert len(app.desk.runs.recent()) == 1


def test_a_wrong_number_changes_nothing_and_keeps_what_was_typed(app: Redrive) -> None:
    visitor = Visitor(app)
    page = visitor.plan("retry", "G1")
    answer = visitor.carry_out(page, confirm="4", name="typed before", canary="2")
    assert answer.status_code == 409
    assert "onfirm must be 3" in answer.text
    assert 'value="typed before"' in answer.text
    assert 'name="canary" inputmode="numeric" value="2"' in answer.text
    assert Page(answer.text).fields() == page.fields()
    assert app.desk.runs.recent() == []
    odd = visitor.carry_out(page, rate="fast")
    assert odd.status_code == 400
    assert "rate" in odd.text


def test_many_jobs_and_any_discard_are_confirmed_by_typing(app: Redrive) -> None:
    visitor = Visitor(app)
    assert visitor.plan("resolve", "G1").fields()["confirm"] == "2"
    gone = visitor.plan("discard", "G1")
    assert [box for box in gone.all("input") if box.get("id") == "confirm"]
    app.store.add([dead_letter(number) for number in range(100, 201)])
    many = visitor.plan("resolve", "state:dead")
    assert [box for box in many.all("input") if box.get("id") == "confirm"]
    later(app)
    assert visitor.carry_out(many, confirm="1,06").status_code == 409
    done = visitor.carry_out(many, confirm=" 105 ")
    assert (done.status_code, "Done: 105 of 105 jobs" in Page(done.text).text) == (200, True)
    assert app.desk.jobs.find(state="dead").jobs == []
    again = Page(visitor.carry_out(many, confirm="105").text)
    assert "Done: 0 of 105 jobs" in again.text
    assert "105 changed since the plan was made, now resolved" in again.text


def test_ticked_rows_are_the_plan_and_nothing_else(app: Redrive) -> None:
    visitor = Visitor(app)
    fields = {"verb": "retry", "q": [name(1), name(3)], "csrf": visitor.csrf()}
    answer = visitor.ask("POST", "/plans", data=fields, headers={"origin": "http://127.0.0.1:9200"})
    assert "Retry 2 jobs" in Page(answer.text).text
    page = visitor.page("/jobs?q=state:dead")
    values = [button.get("value") for button in page.all("button")]
    assert "discard state:dead" in values
    assert "Retry 1 job" in Page(visitor.send("/plans", one="retry G2").text).text
    assert visitor.send("/plans", verb="retry").status_code == 400


def test_resolving_a_group_marks_it(app: Redrive) -> None:
    visitor = Visitor(app)
    visitor.carry_out(visitor.plan("resolve", "G1"), reason="mended")
    assert app.desk.groups.get("G1").record.status == "resolved"
    page = visitor.page("/groups/G1")
    assert "reopen G1" in [button.get("value") for button in page.all("button")]
    assert "Reopen 2 jobs" in Page(visitor.send("/plans", one="reopen G1").text).text
    visitor.send("/groups/G1/mark", resolved="false")
    assert app.desk.groups.get("G1").record.status == "open"


def test_a_note_is_written_and_removed(app: Redrive) -> None:
    visitor = Visitor(app)
    visitor.send("/groups/G1/note", note="they know", back="/groups/G1")
    record = app.desk.groups.get("G1").record
    assert (record.note, record.noted_by) == ("they know", "mira")
    visitor.send("/groups/G1/note", note="", back="/groups/G1")
    assert app.desk.groups.get("G1").record.note == ""


def test_a_run_is_paused_resumed_and_cancelled(app: Redrive) -> None:
    visitor = Visitor(app)
    app.desk.runs.start("G1", actor="mira")
    for verb, phase in (("pause", "paused"), ("resume", "live"), ("cancel", "cancelled")):
        assert visitor.send(f"/runs/R1/{verb}", back="/runs/R1").headers["location"] == "/runs/R1"
        assert app.desk.runs.get("R1").phase == phase
        assert phase in visitor.page("/runs/R1").text
    assert visitor.send("/runs/R1/pause").status_code == 409


def test_a_lane_is_paused_and_resumed(app: Redrive) -> None:
    visitor = Visitor(app)
    page = visitor.page("/system?pause=mail.send")
    assert {"type": "hidden", "name": "lane", "value": "mail.send"} in page.all("input")
    visitor.send("/pauses", lane="mail.send", reason="maintenance", seconds="3600", back="/system")
    (pause,) = app.desk.lanes.pauses()
    assert (pause.lane, pause.by, pause.reason) == ("mail.send", "mira", "maintenance")
    page = visitor.page("/system")
    assert "paused" in page.text
    assert "maintenance" in visitor.page("/").text
    resume = next(b["formaction"] for b in page.all("button") if "formaction" in b)
    visitor.send(resume, back="/system")
    assert app.desk.lanes.pauses() == []


def test_after_an_action_people_are_where_they_were(app: Redrive) -> None:
    visitor = Visitor(app)
    for back in ("//evil.example", "https://evil.example", "javascript:alert(1)"):
        answer = visitor.send("/groups/G1/note", note="x", back=back)
        assert answer.headers["location"] == "/"
    page = visitor.page("/jobs?q=state:dead&order=changed")
    backs = re.findall(r'name="back" value="([^"]+)"', page.html)
    assert backs == ["/jobs?q=state:dead&amp;order=changed"] * len(backs)
    assert backs


def test_a_page_that_answers_a_form_leads_back_to_pages_only(app: Redrive) -> None:
    visitor = Visitor(app, REVEAL)
    plan = visitor.send("/plans", verb="retry", q="G1", back="/groups/G1")
    answers = [
        visitor.send(f"/jobs/{name(1)}/reveal"),
        visitor.send("/actions", one=f"discard {name(1)}"),
        visitor.send("/actions", one=f"reopen {name(1)}", back=f"/jobs/{name(1)}"),
        plan,
        visitor.carry_out(Page(plan.text), confirm="7"),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 409, 200, 409]
    for answer in answers:
        inputs = Page(answer.text).all("input")
        backs = {one["value"] for one in inputs if one.get("name") == "back"}
        assert backs
        assert [visitor.ask("GET", back).status_code for back in backs] == [200] * len(backs)
