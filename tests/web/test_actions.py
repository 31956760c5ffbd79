"""POST /actions: a plan with `dry_run`, then exactly its jobs, once; one job needs no plan."""

from __future__ import annotations

from typing import Any

from redrive import Redrive
from redrive.testing import ManualClock
from shopkit import name
from webkit import READ, Web

ACT = "/api/v1/actions"


def planned(web: Web, verb: str, q: str, **said: Any) -> Any:
    plan = web.post(ACT, {"verb": verb, "q": q, "dry_run": True, **said})
    clock = web.app.submitter.settings.clock
    assert isinstance(clock, ManualClock)
    clock.advance(1)
    return plan


def carried_out(web: Web, plan: Any, status: int = 200, **said: Any) -> Any:
    body = {"verb": plan["verb"], "q": plan["asked"], "as_of": plan["as_of"]}
    return web.post(ACT, {**body, "confirm": plan["eligible"], **said}, status=status)


def test_a_plan_changes_nothing_and_says_everything(web: Web) -> None:
    plan = planned(web, "resolve", "state:dead,completed")
    assert (plan["matched"], plan["eligible"]) == (5, 4)
    assert plan["handlers"] == {"mail.send": 2, "pay.charge": 1, "pdf.print": 1}
    assert plan["ineligible"]["total"] == 1
    assert plan["ineligible"]["samples"][0]["id"] == name(7)
    assert len(plan["samples"]) == 4
    assert plan["oldest"] == "2025-06-15T15:07:40.000Z"
    assert web.app.desk.log.actions() == []
    web.post(ACT, {"verb": "retry", "q": "G1", "dry_run": True}, status=403, token=READ)


def test_any_server_carries_it_out_once(web: Web, app: Redrive) -> None:
    plan = planned(web, "resolve", "state:dead")
    app.desk.retry(name(1))
    done = carried_out(Web(app), plan, reason="done by hand")
    assert (done["planned"], done["done"], done["run"]) == (4, 3, None)
    assert done["skipped"]["samples"] == [
        {"id": name(1), "why": "changed since the plan was made, now pending"}
    ]
    action = app.desk.log.actions()[0]
    found = (action.actor, action.verb, action.target, action.done)
    assert found == ("shop", "resolve", "state:dead", 3)
    again = carried_out(web, plan, reason="done by hand")
    assert (again["planned"], again["done"], again["skipped"]["total"]) == (4, 0, 4)
    assert app.desk.log.actions()[0] == action


def test_a_retry_becomes_a_run(web: Web) -> None:
    plan = planned(web, "retry", "G1")
    done = carried_out(web, plan, canary=1, rate="20/s", ramp=True, stop_on="5%", name="outage")
    run = web.get(f"/api/v1/runs/{done['run']}")
    assert (run["total"], run["waiting"], run["by"], run["name"]) == (3, 3, "shop", "outage")
    assert (run["canary"], run["rate"], run["ramp"], run["stop_on"]) == (1, 20.0, True, "5%")
    (listed,) = web.get("/api/v1/runs")["runs"]
    assert listed.items() <= run.items()
    again = carried_out(web, plan)
    assert (again["done"], again["run"]) == (0, "R1")
    assert again["skipped"]["reasons"] == {"is part of R1, which has not ended": 3}
    assert web.post("/api/v1/runs/R1/rate", {"rate": "30/m"})["rate"] == 0.5
    for verb, phase in (("pause", "paused"), ("resume", "live"), ("cancel", "cancelled")):
        assert web.post(f"/api/v1/runs/R1/{verb}")["phase"] == phase
    assert web.post("/api/v1/runs/R1/pause", status=409)["code"] == "refused"
    actions = web.get(ACT, params={"run": "R1"})["actions"]
    assert {"retry", "pause", "resume", "cancel"} <= {action["verb"] for action in actions}


def test_what_does_not_fit_is_refused(web: Web) -> None:
    for verb, said, status, words in (
        ("resolve", {"confirm": 3}, 409, "confirm must be 4"),
        ("resolve", {"canary": 1}, 400, "are only for the verb retry"),
        ("resolve", {"as_of": "4"}, 400, "must be the mark"),
        ("discard", {}, 400, "reason"),
        ("retry", {"rate": "fast"}, 400, "rate"),
        ("retry", {"ramp": True}, 400, "ramp"),
        ("retry", {"confirm": True}, 400, "body.confirm: Expected `int`, got `bool`"),
    ):
        plan = planned(web, verb, "state:dead")
        assert words in carried_out(web, plan, status, **said)["detail"]
    for q, status in (
        (" ", 400),
        ("\t", 400),
        ("nonsense:x", 400),
        ("01J9 state:dead", 400),
        ("01ZZZZZZ", 404),
        ("G99", 404),
        ("G1 G99", 404),
        ("R99", 404),
    ):
        for verb in ("retry", "resolve", "discard", "reopen"):
            web.post(ACT, {"verb": verb, "q": q, "dry_run": True}, status=status)
    web.post(ACT, {"verb": "purge", "q": "G1", "dry_run": True}, status=400)
    assert "as_of is missing" in web.post(ACT, {"verb": "retry", "q": "G1"}, status=400)["detail"]
    assert web.app.desk.log.actions() == []
    assert len(web.app.desk.jobs.find(state="dead").jobs) == 4


def test_one_job_is_retried_and_closed_at_once(web: Web) -> None:
    def one(verb: str, number: int, status: int = 200, **said: Any) -> Any:
        return web.post(ACT, {"verb": verb, "q": name(number), **said}, status=status)

    assert one("retry", 1)["done"] == 1
    assert web.app.get(name(1)).state == "pending"
    assert one("resolve", 2, reason="by hand")["done"] == 1
    assert one("reopen", 2)["done"] == 1
    assert one("discard", 2, reason="x")["verb"] == "discard"
    assert web.app.get(name(2)).reason == "discarded"
    assert one("retry", 7, status=409)["code"] == "refused"
    for blank in ({}, {"reason": ""}, {"reason": "  "}):
        one("discard", 3, status=400, **blank)
