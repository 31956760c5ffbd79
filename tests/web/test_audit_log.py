"""Every mutation is recorded as an act of the token's name; what only looks is not.

A new route that changes something and has no line here fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from alertkit import Kept
from redrive.alerts import Alerts
from redrive.web.api import ROUTES, Route
from shopkit import name
from webkit import READ, Web

Ready = Callable[[Web], dict[str, str]]


def nothing(web: Web) -> dict[str, str]:
    return {}


def running(web: Web) -> dict[str, str]:
    web.app.desk.runs.start(name(2), actor="ada")
    return {}


def paused(web: Web) -> dict[str, str]:
    running(web)
    web.app.desk.runs.pause("R1", actor="ada")
    return {}


def lane_paused(web: Web) -> dict[str, str]:
    web.app.desk.lanes.pause("mail.send", actor="ada")
    return {}


def watched(web: Web) -> dict[str, str]:
    web.app.alerts = Alerts(Kept())
    return {}


ACTIONS: dict[str, tuple[Ready, dict[str, Any], str, str]] = {
    "post_jobs": (nothing, {"handler": "mail.send", "payload": {"to": "x"}}, "submit", ""),
    "post_jobs_job_edit": (nothing, {"payload": {"to": "x"}, "edits": 0}, "edit", name(1)),
    "post_groups_group_mark": (nothing, {"resolved": True}, "mark", "G1"),
    "post_groups_group_note": (nothing, {"note": "x"}, "note", "G1"),
    "post_actions": (nothing, {"verb": "resolve", "q": name(1)}, "resolve", name(1)),
    "post_alerts_channel_test": (watched, {}, "test", "kept"),
    "post_pauses": (nothing, {"lane": "mail.send"}, "pause", "mail.send"),
    "post_pauses_lane_resume": (lane_paused, {}, "resume", "mail.send"),
    "post_runs_run_pause": (running, {}, "pause", "R1"),
    "post_runs_run_resume": (paused, {}, "resume", "R1"),
    "post_runs_run_rate": (running, {"rate": "5/s"}, "rate", "R1"),
    "post_runs_run_cancel": (running, {}, "cancel", "R1"),
}
"""What must be so before, what is said, and the verb and target of the act."""
PATHS = {"job": name(1), "group": "G1", "run": "R1", "lane": "mail.send"}
PATHS["channel"] = "kept"


@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if one.method == "POST"],
    ids=lambda route: route.name,
)
def test_every_mutation_is_an_act(web: Web, route: Route) -> None:
    ready, body, verb, target = ACTIONS[route.name]
    path = route.path.format(**{**PATHS, **ready(web)})
    before = len(web.app.desk.log.actions())
    web.post(path, body, status=403, token=READ)
    assert len(web.app.desk.log.actions()) == before
    web.post(path, body)
    action = web.app.desk.log.actions()[0]
    assert (action.actor, action.verb) == ("shop", verb)
    assert action.target == target or not target
    assert len(web.app.desk.log.actions()) == before + 1


@pytest.mark.parametrize(
    "route",
    [one for one in ROUTES if one.method == "GET"],
    ids=lambda route: route.name,
)
def test_looking_is_none(web: Web, route: Route) -> None:
    path = route.path.format(**PATHS)
    running(web)
    jobs, acts = web.app.desk.jobs.find().jobs, web.app.desk.log.actions()
    web.ask("GET", path)
    web.post("/api/v1/actions", {"verb": "retry", "q": "state:dead", "dry_run": True})
    assert (web.app.desk.jobs.find().jobs, web.app.desk.log.actions()) == (jobs, acts)


def test_a_repeated_submit_is_no_second_act(web: Web) -> None:
    for _ in range(2):
        web.post("/api/v1/jobs", {"handler": "mail.send", "payload": {"to": "x"}, "key": "k"})
    assert [action.verb for action in web.app.desk.log.actions()] == ["submit"]


def test_the_actions_on_a_job_name_it_and_what_they_took(web: Web) -> None:
    web.app.desk.resolve("G1", reason="done")
    (action, *_) = web.get("/api/v1/actions?verb=resolve")["actions"]
    assert action["action"] == "A1"
    assert web.get(f"/api/v1/jobs/{name(1)}")["actions"] == [action]
    found = web.get("/api/v1/jobs?q=action:A1")["jobs"]
    assert [job["id"] for job in found] == [name(2), name(1)]
    web.app.desk.reopen("action:A1")
    assert web.get("/api/v1/jobs?q=action:A1")["jobs"] == []
    shown = web.get("/api/v1/actions?before=A2")["actions"]
    assert shown == [action]
    assert web.ask("GET", "/api/v1/actions?before=x").status_code == 400
