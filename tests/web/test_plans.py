"""Deeds to many jobs: what was seen is what is done, once, and the rest is said."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from redrive import Redrive
from redrive.desk import kept_plans
from shopkit import dead_letter, name
from webkit import READ, Web


def planned(web: Web, verb: str, q: str) -> Any:
    return web.post("/api/v1/plans", {"verb": verb, "q": q})


def carried_out(web: Web, plan: Any, status: int = 200, **said: Any) -> Any:
    body = {"confirm": plan["eligible"], **said}
    return web.post(f"/api/v1/plans/{plan['plan']}/carry-out", body, status=status)


def test_a_plan_changes_nothing_and_says_everything(web: Web) -> None:
    plan = planned(web, "resolve", "state:dead,completed")
    assert (plan["matched"], plan["eligible"]) == (5, 4)
    assert plan["handlers"] == {"mail.send": 2, "pay.charge": 1, "pdf.print": 1}
    assert plan["ineligible"]["total"] == 1
    assert plan["ineligible"]["samples"][0]["id"] == name(7)
    assert len(plan["samples"]) == 4
    assert plan["oldest"] == "2025-06-15T15:07:40.000Z"
    assert web.app.desk.log.actions() == []


def test_exactly_the_frozen_jobs_are_taken(web: Web) -> None:
    plan = planned(web, "resolve", "state:dead")
    web.app.store.add([dead_letter(50)])  # came later
    web.app.desk.retry(name(1))  # is another's by now
    done = carried_out(web, plan, reason="done by hand")
    assert (done["planned"], done["done"], done["skipped"]["total"]) == (4, 3, 1)
    assert done["skipped"]["samples"] == [
        {"id": name(1), "why": "changed since the plan was made, now pending"}
    ]
    assert web.app.get(name(50)).state == "dead"
    action = web.app.desk.log.actions()[0]
    assert (action.actor, action.verb, action.target, action.done) == (
        "shop",
        "resolve",
        "state:dead",
        3,
    )


def test_a_job_that_died_again_meanwhile_is_left_alone(web: Web) -> None:
    plan = planned(web, "discard", "G1")
    web.app.desk.resolve(name(1))
    web.app.submitter.settings.clock.advance(60)  # type: ignore[attr-defined]
    web.app.desk.reopen(name(1))
    assert carried_out(web, plan, reason="x")["done"] == 1


def test_repeating_it_does_nothing_more(web: Web) -> None:
    plan = planned(web, "retry", "state:dead")
    first = carried_out(web, plan)
    assert carried_out(web, plan) == first
    assert len(web.app.desk.runs.recent()) == 1


def test_a_retry_becomes_a_run(web: Web) -> None:
    plan = planned(web, "retry", "G1")
    done = carried_out(web, plan, canary=1, rate="20/s", ramp=True, stop_on="5%", name="outage")
    run = web.get(f"/api/v1/runs/{done['run']}")
    assert (run["total"], run["waiting"], run["by"], run["name"]) == (3, 3, "shop", "outage")
    assert (run["canary"], run["rate"], run["ramp"], run["stop_on"]) == (1, 20.0, True, "5%")
    (listed,) = web.get("/api/v1/runs")["runs"]
    assert listed.items() <= run.items()
    again = planned(web, "retry", "G1")
    assert again["eligible"] == 0
    assert again["ineligible"]["reasons"] == {"is part of R1, which has not ended": 3}
    assert web.post("/api/v1/runs/R1/rate", {"rate": "30/m"})["rate"] == 0.5
    for verb, phase in (("pause", "paused"), ("resume", "live"), ("cancel", "cancelled")):
        assert web.post(f"/api/v1/runs/R1/{verb}")["phase"] == phase
    assert web.post("/api/v1/runs/R1/pause", status=409)["code"] == "refused"
    actions = web.get("/api/v1/actions", params={"run": "R1"})["actions"]
    assert {"retry", "pause", "resume", "cancel"} <= {action["verb"] for action in actions}


@pytest.mark.parametrize(
    ("verb", "said", "status", "words"),
    [
        ("resolve", {"confirm": 3}, 409, "confirm must be 4"),
        ("resolve", {"canary": 1}, 400, "are only for the verb retry"),
        ("discard", {}, 400, "reason"),
        ("retry", {"rate": "fast"}, 400, "rate"),
        ("retry", {"ramp": True}, 400, "ramp"),
        ("retry", {"confirm": True}, 400, "body.confirm: Expected `int`, got `bool`"),
    ],
)
def test_what_does_not_fit_the_plan_is_refused(
    web: Web, verb: str, said: dict[str, Any], status: int, words: str
) -> None:
    plan = planned(web, verb, "state:dead")
    assert words in carried_out(web, plan, status, **said)["detail"]
    assert web.app.desk.log.actions() == []
    assert len(web.app.desk.jobs.find(state="dead").jobs) == 4


@pytest.mark.parametrize("q", [" ", "\t", "nonsense:x", "01J9 state:dead"])
def test_words_that_mean_nothing_or_all_are_refused(web: Web, q: str) -> None:
    web.post("/api/v1/plans", {"verb": "retry", "q": q}, status=400)


def test_ages_count_when_the_plan_is_made(web: Web) -> None:
    plan = planned(web, "resolve", "age:>1d2m")
    assert plan["eligible"] == 0  # died within the last day
    plan = planned(web, "resolve", f"age:<{23 * 60 + 58}m")
    web.app.submitter.settings.clock.advance(300)  # type: ignore[attr-defined]
    assert carried_out(web, plan)["done"] == plan["eligible"] == 3


def test_who_may_only_read_makes_no_plan(web: Web) -> None:
    web.post("/api/v1/plans", {"verb": "retry", "q": "state:dead"}, status=403, token=READ)


def test_plans_are_forgotten(web: Web, app: Redrive, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(web, "retry", "state:dead")
    app.submitter.settings.clock.advance(601)  # type: ignore[attr-defined]
    assert carried_out(web, plan, 404)["code"] == "not_found"
    monkeypatch.setattr(kept_plans, "MOST_PLANNED", 3)
    found = web.post("/api/v1/plans", {"verb": "reopen", "q": "state:dead,completed"}, status=400)
    assert "more than 3 jobs match" in found["detail"]


def test_a_plan_can_be_read_again_with_its_result(web: Web) -> None:
    plan = planned(web, "resolve", "G1")
    assert web.get(f"/api/v1/plans/{plan['plan']}", token=READ) == plan
    assert plan["result"] is None
    done = carried_out(web, plan, reason="by hand")
    assert web.get(f"/api/v1/plans/{plan['plan']}")["result"] == done
    assert web.ask("GET", "/api/v1/plans/none").status_code == 404


def test_any_server_carries_out_a_plan_and_only_one_of_them(web: Web, app: Redrive) -> None:
    """Two servers on one store: what one made the other carries out; a repeat changes nothing."""
    other = Web(app)
    plan = planned(web, "resolve", "state:dead")
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda n: carried_out([web, other][n % 2], plan), range(4)))
    assert answers == [answers[0]] * 4
    assert answers[0]["done"] == 4
    assert [action.verb for action in app.desk.log.actions()] == ["resolve"]


def test_resolving_a_group_marks_it_as_the_command_line_does(web: Web, app: Redrive) -> None:
    carried_out(web, planned(web, "resolve", "G1 handler:mail.*"), reason="some of it")
    assert app.desk.groups.get("G1").record.status == "open"
    app.desk.reopen("G1", state="resolved")
    carried_out(web, planned(web, "resolve", "G1"), reason="mended")
    record = app.desk.groups.get("G1").record
    assert (record.status, record.resolved_by, record.reason) == ("resolved", "shop", "mended")


def test_a_plan_that_was_refused_can_be_carried_out_later(web: Web) -> None:
    plan = planned(web, "discard", "G1")
    carried_out(web, plan, 400)
    assert carried_out(web, plan, reason="test data")["done"] == 2


@pytest.mark.parametrize("q", ["01ZZZZZZ", "G99", "G1 G99", "R99"])
def test_a_plan_for_nothing_that_is_known_is_not_found(web: Web, q: str) -> None:
    """C3: an unknown group or run is answered as an unknown id is."""
    for verb in ("retry", "resolve", "discard", "reopen"):
        problem = web.post("/api/v1/plans", {"verb": verb, "q": q}, status=404)
        assert problem["code"] == "not_found"
    assert web.ask("GET", "/api/v1/jobs", params={"q": q}).status_code == 404
